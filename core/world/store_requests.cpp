#include "world/store_requests.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernel/checks.hpp"
#include "world/clouds.hpp"
#include "world/executor.hpp"
#include "world/staging.hpp"

namespace twinloop {

void StoreRequests::open_network(const NetworkPlan& plan, std::span<const std::string> names,
                                 std::span<const MachineId> like) {
    if (has_network()) return;
    world_.staging.transfers = plan.build(world_.simulation);
    for (StoreId store = 0; store < names.size(); ++store)
        world_.requests.stores.emplace_back(store, names[store]);
    const std::size_t first = world_.scenario->machines.size();
    for (std::size_t at = 0; at < like.size(); ++at)
        if (const auto machine = static_cast<MachineId>(first + at);
            !world_.fleet[machine].is_instance)
            Staging(world_).add_machine(machine, like[at]);
}

// ---- Files --------------------------------------------------------------------------------------

std::size_t StoreRequests::file_count() const {
    return world_.scenario->files == nullptr ? 0 : world_.scenario->files->files.size();
}

FileId StoreRequests::find_file(const std::string& name) const {
    const auto& numbers = world_.requests.files->numbers;
    const auto found = numbers.find(name);
    return found == numbers.end() ? none : found->second;
}

FileId StoreRequests::name_file(const std::string& name) {
    if (const FileId known = find_file(name); known != none) return known;
    StoreRequestState::NewFiles& files = world_.requests.files.edit();
    const auto number = static_cast<FileId>(file_count() + files.names.size());
    files.names.push_back(name);
    files.numbers.emplace(name, number);
    return number;
}

std::optional<double> StoreRequests::find_size(FileId file) const {
    if (file < file_count()) return world_.scenario->files->files[file].bytes;
    const FilePlaces& places = world_.staging.transfers.files();
    if (const StoreId store = places.first(file); store != none) return places.size_of(file, store);
    for (const std::uint32_t number : world_.requests.open)
        if (world_.requests.rows[number].file == file) return world_.requests.rows[number].bytes;
    return std::nullopt;
}

void StoreRequests::check_present(StoreId store) const {
    if (store != none && world_.staging.transfers.stores.at(store).is_gone)
        throw std::invalid_argument("the store was deregistered");
}

void StoreRequests::put_file(StoreId store, FileId file, double bytes) {
    check_not_negative("size", bytes);
    check_present(store);
    Transfers& transfers = world_.staging.transfers;
    if (transfers.files().has(file, store)) return;
    transfers.check_space(store, bytes);
    world_.requests.has_changes = true;
    transfers.put_file(store, file, bytes);
}

void StoreRequests::remove_file(StoreId store, FileId file, bool reading) {
    check_present(store);
    Transfers& transfers = world_.staging.transfers;
    if (!reading)
        for (const TransferId id : transfers_of(store))
            if (transfers[id].spec.source == store && transfers[id].spec.file == file)
                throw std::invalid_argument("a transfer reads it");
    world_.requests.has_changes = true;
    transfers.remove_file(store, file);
}

// ---- Transfers ----------------------------------------------------------------------------------

TransferSpec StoreRequests::make_spec(const StoreRequest& given, std::uint32_t number) const {
    const Staging staging(world_);
    const Transfers& transfers = world_.staging.transfers;
    const auto node_of = [&](StoreId store) { return transfers.stores.at(store).spec.node; };
    TransferSpec spec;
    spec.from = given.source == none ? staging.node_of(given.machine) : node_of(given.source);
    spec.to =
        given.kind == RequestKind::get ? staging.node_of(given.machine) : node_of(given.target);
    spec.source = given.source;
    spec.target = given.target;
    spec.file = given.file;
    spec.bytes = given.bytes;
    spec.token = (static_cast<std::uint64_t>(number) << 32 | member) + 1;
    return spec;
}

std::uint32_t StoreRequests::begin(const StoreRequest& given) {
    check_present(given.source);
    check_present(given.target);
    StoreRequestState& state = world_.requests;
    Transfers& transfers = world_.staging.transfers;
    const auto number = static_cast<std::uint32_t>(state.rows.size());
    StoreRequest mine = given;
    mine.start = world_.now();
    if (mine.target != none && transfers.files().has(mine.file, mine.target)) {
        mine.finished = true;
        mine.end = world_.now();
        mine.ended_as = ++state.ended;
        if (mine.kind == RequestKind::move && mine.source != mine.target)
            transfers.remove_file(mine.source, mine.file);
    } else {
        mine.transfer = transfers.begin(world_.simulation, make_spec(mine, number));
        state.open.push_back(number);
    }
    state.has_changes = true;
    state.rows.push_back(mine);
    return number;
}

void StoreRequests::cancel(std::uint32_t number) {
    // The client of the simulation is notified and calls `end`.
    if (const TransferId id = world_.requests.rows[number].transfer; id != none)
        world_.simulation.cancel(world_.staging.transfers[id].activity);
}

void StoreRequests::end(std::uint32_t number, Ending how, const Final& figures) {
    StoreRequestState& state = world_.requests;
    StoreRequest& mine = state.rows.edit(number);
    Transfers& transfers = world_.staging.transfers;
    const TransferId id = std::exchange(mine.transfer, none);
    mine.finished = how == Ending::finished;
    mine.moved = transfers[id].moved + figures.done;
    mine.end = world_.now();
    mine.ended_as = ++state.ended;
    std::erase(state.open, number);
    if (mine.finished && mine.kind == RequestKind::move)
        transfers.remove_file(mine.source, mine.file);
    transfers.end(world_.simulation, id, how, figures.done);
}

StoreRequests::Phase StoreRequests::phase(std::uint32_t number) const {
    const StoreRequest& mine = world_.requests.rows[number];
    if (mine.transfer == none) return mine.finished ? Phase::done : Phase::cancelled;
    const Transfers::Transfer& transfer = world_.staging.transfers[mine.transfer];
    if (transfer.waits) return Phase::waiting;
    return world_.simulation.activity(transfer.activity).state == State::waiting ? Phase::latency
                                                                                 : Phase::active;
}

double StoreRequests::moved(std::uint32_t number) const {
    const StoreRequest& mine = world_.requests.rows[number];
    if (mine.transfer == none) return mine.moved;
    const ActivityId activity = world_.staging.transfers[mine.transfer].activity;
    return mine.bytes - world_.simulation.remaining(activity);
}

std::vector<StoreRequests::NodeUse> StoreRequests::node_use() const {
    const Transfers& transfers = world_.staging.transfers;
    const std::vector<Transfers::Traffic> traffic = transfers.traffic(world_.simulation);
    std::vector<NodeUse> found(transfers.network.nodes());
    for (std::size_t node = 0; node < traffic.size(); ++node) {
        found[node].sent = traffic[node].sent;
        found[node].received = traffic[node].received;
    }
    for (TransferId id = 0; id < transfers.slots(); ++id) {
        const Transfers::Transfer& each = transfers[id];
        if (!each.used || each.spec.from == each.spec.to) continue;
        const double rate = world_.simulation.rate(each.activity);
        found[each.spec.from].sending += rate;
        found[each.spec.to].receiving += rate;
        ++found[each.spec.from].transfers;
        ++found[each.spec.to].transfers;
    }
    return found;
}

// ---- Stores -------------------------------------------------------------------------------------

StoreId StoreRequests::register_store(const NewStore& given) {
    Transfers& transfers = world_.staging.transfers;
    const auto add = [&](double bandwidth) {
        return bandwidth < never ? world_.simulation.add_resource(bandwidth) : none;
    };
    DataStoreSpec spec;
    if (given.machine != no_machine) {
        spec.node = Staging(world_).node_of(given.machine);
    } else if (given.like != none) {
        spec.node =
            transfers.add_node_like(world_.simulation, transfers.stores.at(given.like).spec.node);
    } else {
        const ResourceId out = add(given.send);
        spec.node = transfers.network.add_node(out, add(given.receive));
    }
    spec.capacity = given.capacity;
    spec.read = add(given.read);
    spec.write = add(given.write);
    spec.streams = given.streams;
    if (given.again != none) {
        // Files of tasks that name the store are in it again once they have been written.
        DataStore& store = transfers.stores.at(given.again);
        transfers.pass_traffic(store.spec.node, spec.node);
        store = DataStore(spec);
        return given.again;
    }
    transfers.stores.emplace_back(spec);
    const auto store = static_cast<StoreId>(transfers.stores.size() - 1);
    world_.requests.stores.emplace_back(store, given.name);
    return store;
}

std::vector<TransferId> StoreRequests::transfers_of(StoreId store) const {
    const Transfers& transfers = world_.staging.transfers;
    std::vector<TransferId> found;
    for (TransferId id = 0; id < transfers.slots(); ++id)
        if (const Transfers::Transfer& each = transfers[id];
            each.used && (each.spec.source == store || each.spec.target == store))
            found.push_back(id);
    return found;
}

const char* StoreRequests::find_use(StoreId store) const {
    if (!transfers_of(store).empty()) return "there are transfers from it or to it";
    for (const CloudPlan& cloud : *world_.scenario->clouds)
        for (const ImagePlan& image : cloud.images)
            if (image.file != none && image.store == store) return "it has images of a cloud";
    if (Clouds(world_).is_memory_in(store)) return "it has the memory of suspended instances";
    if (!world_.has_files()) return nullptr;
    const FileTable& table = *world_.scenario->files;
    const auto is_here = [&](FileId file) {
        return table.files[file].store == store ||
               (table.files[file].store == none &&
                world_.staging.transfers.files().has(file, store));
    };
    for (TaskId task = 0; task < world_.tasks.size(); ++task)
        if (world_.tasks[task].status == Status::none &&
            (std::ranges::any_of(table.read_by(task), is_here) ||
             std::ranges::any_of(table.written_by(task), is_here)))
            return "it has files of tasks that have not ended";
    return nullptr;
}

void StoreRequests::deregister_store(StoreId store) {
    check_present(store);
    Transfers& transfers = world_.staging.transfers;
    world_.requests.has_changes = true;
    // First: what ends now must not begin another transfer.
    transfers.stores[store].is_gone = true;
    Clouds(world_).lose_memory(store);
    for (const TransferId id : transfers_of(store)) {
        if (!transfers[id].used) continue;
        const std::uint64_t token = transfers[id].spec.token - 1;
        const auto slot = static_cast<std::uint32_t>(token >> 32);
        switch (static_cast<std::uint32_t>(token & 0xffffffffU)) {
            case Staging::member:
                Executor(world_).refuse_transfer(slot);
                break;
            case Clouds::transfer_member:
                Clouds(world_).refuse_transfer(slot);
                break;
            default:
                world_.simulation.cancel(transfers[id].activity);
                break;
        }
    }
    for (const auto& [file, bytes] :
         transfers.files().list(store, transfers.stores[store].file_count()))
        transfers.remove_file(store, file);
}

}  // namespace twinloop
