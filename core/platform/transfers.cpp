#include "platform/transfers.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "kernel/checks.hpp"

namespace twinloop {
namespace {

// The stores that serve a transfer; a copy within one store is one stream.
std::array<StoreId, 2> stores_of(const TransferSpec& spec) {
    return {spec.source, spec.target == spec.source ? none : spec.target};
}

// A bandwidth of its own, as large as another one; none: unlimited.
ResourceId copy_bandwidth(Simulation& simulation, ResourceId like) {
    return like == none ? none : simulation.add_resource(simulation.capacity(like));
}

}  // namespace

// ---- Files, nodes and stores --------------------------------------------------------------------

void Transfers::put_file(StoreId store, FileId file, double bytes) {
    remove_file(store, file);
    files_.add(file, store, bytes);
    stores[store].add_file(bytes);
}

void Transfers::remove_file(StoreId store, FileId file) {
    if (!files_.has(file, store)) return;
    stores[store].remove_file(files_.size_of(file, store));
    files_.remove(file, store);
}

void Transfers::check_space(StoreId store, double bytes) const {
    if (stores[store].fits(bytes)) return;
    throw std::invalid_argument("the store has " + bytes_text(std::max(stores[store].free(), 0.0)) +
                                " bytes left, and " + bytes_text(bytes) + " are needed");
}

NodeId Transfers::add_node_like(Simulation& simulation, NodeId like) {
    const auto copy = [&](ResourceId id) { return copy_bandwidth(simulation, id); };
    const Network::Ports ports = network.ports(like);
    const ResourceId out = copy(ports.out);
    const NodeId node = network.add_node(out, copy(ports.in));
    const std::span<const LinkId> links = network.links_of(like);
    for (const LinkId link : std::vector<LinkId>(links.begin(), links.end())) {
        const Network::LinkEnds ends = network.ends(link);
        const ResourceId forward = copy(ends.forward);
        (void)network.add_link(
            ends.a == like ? node : ends.a, ends.b == like ? node : ends.b, forward,
            ends.backward == ends.forward ? forward : copy(ends.backward), ends.latency);
    }
    return node;
}

StoreId Transfers::add_store_like(Simulation& simulation, StoreId like, NodeId node) {
    DataStoreSpec spec = stores[like].spec;
    spec.node = node;
    for (ResourceId* const bandwidth : {&spec.read, &spec.write})
        *bandwidth = copy_bandwidth(simulation, *bandwidth);
    stores.emplace_back(spec);
    if (const PageCache& cache = stores[like].page_cache; cache.is_open())
        stores.back().page_cache.open(cache.size(), copy_bandwidth(simulation, cache.bandwidth()));
    return static_cast<StoreId>(stores.size() - 1);
}

// ---- Transfers ----------------------------------------------------------------------------------

TransferId Transfers::begin(Simulation& simulation, const TransferSpec& spec) {
    check_not_negative("size", spec.bytes);
    const Network::Path& path = network.path(spec.from, spec.to);
    if (!path.reachable) throw std::invalid_argument("there is no route");
    for (const StoreId store : stores_of(spec))
        if (store != none && stores[store].is_gone)
            throw std::invalid_argument("the store was deregistered");
    if (spec.target != none) check_space(spec.target, spec.bytes);
    const TransferId id = open(spec, network.latency(path), simulation.now());
    Transfer& transfer = slots_[id];
    for (const StoreId store : stores_of(spec))
        if (store != none && !stores[store].serves_at_once()) transfer.waits = true;
    if (transfer.waits)
        for (const StoreId store : stores_of(spec))
            if (store != none) stores[store].waiting.push_back(id);
    const double start = transfer.waits ? never : simulation.now() + transfer.latency;
    // Before the activity begins: its observers may look.
    if (!transfer.waits) take_streams(id);
    launch(simulation, id, start, spec.bytes);
    return id;
}

TransferId Transfers::open(const TransferSpec& spec, double latency, double registered) {
    TransferId id;
    if (free_.empty()) {
        id = static_cast<TransferId>(slots_.size());
        slots_.emplace_back();
    } else {
        id = free_.back();
        free_.pop_back();
    }
    slots_[id] = {spec, {}, latency, registered, false, true, read_bandwidth(spec)};
    if (spec.target != none) stores[spec.target].promise(spec.bytes);
    return id;
}

ResourceId Transfers::read_bandwidth(const TransferSpec& spec) const {
    if (spec.source == none) return none;
    const DataStore& store = stores[spec.source];
    const bool cached = store.page_cache.is_open() && content_of(spec) != none &&
                        store.page_cache.has(content_of(spec));
    return cached ? store.page_cache.bandwidth() : store.spec.read;
}

std::span<const ResourceId> Transfers::find_route(TransferId id) {
    const Transfer& transfer = slots_[id];
    const Network::Path& path = network.path(transfer.spec.from, transfer.spec.to);
    route_.clear();
    if (transfer.read != none) route_.push_back(transfer.read);
    route_.insert(route_.end(), path.resources.begin(), path.resources.end());
    if (const StoreId target = transfer.spec.target; target != none) {
        const ResourceId write = stores[target].spec.write;
        if (write != none && std::ranges::find(route_, write) == route_.end())
            route_.push_back(write);
    }
    return route_;
}

double Transfers::find_limit(const Simulation& simulation, TransferId id) {
    double limit = slots_[id].spec.limit;
    if (!has_private_limits) return limit;
    for (const ResourceId each : routes_[id].view())
        if (uses_[each].alone == id) limit = std::min(limit, simulation.capacity(each));
    return limit;
}

std::span<const ResourceId> Transfers::find_shared_route(TransferId id) {
    if (has_private_limits) {
        route_.clear();
        for (const ResourceId each : routes_[id].view())
            if (uses_[each].alone != id) route_.push_back(each);
    } else {
        (void)find_route(id);
    }
    if (route_.empty()) route_.push_back(unlimited);
    return route_;
}

void Transfers::join(Simulation& simulation, TransferId id) {
    if (!has_private_limits) return;
    if (routes_.size() <= id) routes_.resize(id + std::size_t{1});
    routes_[id].assign(find_route(id));
    std::vector<TransferId> no_longer_alone;
    for (const ResourceId each : routes_[id].view()) {
        if (each >= uses_.size()) uses_.resize(each + std::size_t{1});
        Use& use = uses_[each];
        if (use.count++ == 0) {
            use.alone = id;
        } else if (use.alone != none) {
            // Once, also if it shares several bandwidths from now on.
            if (std::ranges::find(no_longer_alone, use.alone) == no_longer_alone.end())
                no_longer_alone.push_back(use.alone);
            use.alone = none;
        }
    }
    // They keep their limits: they get no more from a bandwidth that they share.
    for (const TransferId other : no_longer_alone)
        simulation.move(slots_[other].activity, find_shared_route(other));
}

void Transfers::leave(TransferId id) {
    if (!has_private_limits) return;
    // The route of that time: links may have been added since.
    for (const ResourceId each : routes_[id].view()) {
        --uses_[each].count;
        if (uses_[each].alone == id) uses_[each].alone = none;
    }
}

void Transfers::launch(Simulation& simulation, TransferId id, double start, double bytes) {
    join(simulation, id);
    const TransferSpec& spec = slots_[id].spec;
    ActivitySpec activity;
    activity.work = bytes;
    activity.limit = find_limit(simulation, id);
    activity.weight = spec.weight;
    activity.token = spec.token;
    activity.start = start;
    // When it begins, an observer may register other transfers.
    const ActivityId launched = simulation.launch(activity, find_shared_route(id));
    slots_[id].activity = launched;
}

SavedTransfer Transfers::save(const Simulation& simulation, TransferId id) const {
    const Transfer& transfer = slots_[id];
    const Activity& activity = simulation.activity(transfer.activity);
    SavedTransfer saved{
        .latency = transfer.latency,
        .registered = transfer.registered,
        .left = simulation.remaining(transfer.activity),
        .store = transfer.spec.source != none ? transfer.spec.source : transfer.spec.target};
    if (transfer.waits) {
        const auto& queue = stores[saved.store].waiting;
        saved.place = static_cast<std::uint32_t>(
            std::ranges::distance(queue.begin(), std::ranges::find(queue, id)));
    } else {
        saved.start = activity.state == State::waiting ? simulation.timer_time(activity.where)
                                                       : activity.started;
    }
    return saved;
}

TransferId Transfers::restore(Simulation& simulation, const TransferSpec& spec,
                              const SavedTransfer& saved) {
    const TransferId id = open(spec, saved.latency, saved.registered);
    Transfer& transfer = slots_[id];
    transfer.moved = transfer.counted = spec.bytes - saved.left;
    transfer.waits = saved.start == never;
    for (const StoreId store : stores_of(spec)) {
        if (store == none) continue;
        if (transfer.waits) stores[store].waiting.push_back(id);
        else ++stores[store].active;
    }
    launch(simulation, id, saved.start, saved.left);
    return id;
}

bool Transfers::reroute(Simulation& simulation, TransferId id, const TransferSpec& spec) {
    if (!network.path(spec.from, spec.to).reachable) return false;
    const double done = slots_[id].spec.bytes - simulation.remaining(slots_[id].activity);
    count(traffic_, slots_[id].spec, done - slots_[id].counted);
    leave(id);
    slots_[id].counted = done;
    slots_[id].spec.from = spec.from;
    slots_[id].spec.to = spec.to;
    join(simulation, id);
    simulation.set_limit(slots_[id].activity, find_limit(simulation, id));
    simulation.move(slots_[id].activity, find_shared_route(id));
    return true;
}

// First come, first served: it is the first in the queues of its stores, and both have a stream. So
// the transfer that has waited longest waits only for transfers in progress.
bool Transfers::may_begin(TransferId id) const {
    const TransferSpec& spec = slots_[id].spec;
    for (const StoreId store : stores_of(spec))
        if (store != none && (stores[store].waiting.front() != id || !stores[store].has_stream()))
            return false;
    return true;
}

void Transfers::take_streams(TransferId id) {
    const TransferSpec& spec = slots_[id].spec;
    for (const StoreId store : stores_of(spec)) {
        if (store == none) continue;
        if (slots_[id].waits) stores[store].waiting.pop_front();
        ++stores[store].active;
    }
    slots_[id].waits = false;
}

void Transfers::end(Simulation& simulation, TransferId id, Ending how, double done) {
    const Transfer transfer = slots_[id];
    const TransferSpec& spec = transfer.spec;
    const double moved = how == Ending::finished ? spec.bytes : transfer.moved + done;
    count(traffic_, spec, moved - transfer.counted);
    leave(id);
    slots_[id] = {};
    free_.push_back(id);
    for (const StoreId store : stores_of(spec)) {
        if (store == none) continue;
        if (transfer.waits) {
            std::erase(stores[store].waiting, id);
        } else {
            --stores[store].active;
        }
    }
    if (spec.target != none) {
        stores[spec.target].withdraw_promise(spec.bytes);
        if (how == Ending::finished && spec.file != none)
            put_file(spec.target, spec.file, spec.bytes);
    }
    if (how == Ending::finished && content_of(spec) != none)
        for (const StoreId store : stores_of(spec))
            if (store != none && stores[store].page_cache.is_open())
                stores[store].page_cache.touch(content_of(spec), spec.bytes);
    for (const StoreId store : stores_of(spec))
        if (store != none) admit(simulation, store);
}

// A transfer between a host and its own store passes no port.
void Transfers::count(std::vector<Traffic>& traffic, const TransferSpec& spec, double bytes) {
    if (spec.from == spec.to || !(bytes > 0)) return;
    if (const std::size_t size = std::max(spec.from, spec.to) + std::size_t{1};
        traffic.size() < size)
        traffic.resize(size);
    traffic[spec.from].sent += bytes;
    traffic[spec.to].received += bytes;
}

void Transfers::pass_traffic(NodeId from, NodeId to) {
    if (from == to || from >= traffic_.size()) return;
    if (traffic_.size() <= to) traffic_.resize(to + std::size_t{1});
    traffic_[to].sent += traffic_[from].sent;
    traffic_[to].received += traffic_[from].received;
    traffic_[from] = {};
}

std::vector<Transfers::Traffic> Transfers::traffic(const Simulation& simulation) const {
    std::vector<Traffic> all = traffic_;
    for (const Transfer& each : slots_)
        if (each.used)
            count(all, each.spec,
                  each.spec.bytes - simulation.remaining(each.activity) - each.counted);
    return all;
}

// Begins the transfers that wait for a stream of the store and may begin now. Each of them may have
// been the first in the queue of another store, where the next one is then the first.
void Transfers::admit(Simulation& simulation, StoreId first) {
    std::vector<StoreId> to_check{first};
    while (!to_check.empty()) {
        const StoreId store = to_check.back();
        if (stores[store].waiting.empty() || !may_begin(stores[store].waiting.front())) {
            to_check.pop_back();
            continue;
        }
        const TransferId id = stores[store].waiting.front();
        take_streams(id);
        // A copy: when it begins, an observer may register other transfers.
        const Transfer transfer = slots_[id];
        simulation.start_at(transfer.activity, simulation.now() + transfer.latency);
        for (const StoreId other : stores_of(transfer.spec))
            if (other != none && other != store) to_check.push_back(other);
    }
}

}  // namespace twinloop
