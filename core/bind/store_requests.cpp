#include "bind/store_requests.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "bind/arrays.hpp"
#include "bind/input_columns.hpp"
#include "world/staging.hpp"

namespace twinloop::bind {
namespace {

const DataStore& store_at(const World& run, StoreId store) {
    return run.state().staging.transfers.stores.at(store);
}

const StoreRequest& request_at(const World& run, std::uint32_t number) {
    const auto& rows = run.state().requests.rows;
    if (number >= rows.size()) throw std::out_of_range("there is no such transfer");
    return rows[number];
}

std::int64_t number_of(std::uint32_t id) { return id == none ? -1 : std::int64_t{id}; }

std::uint32_t id_from(std::int64_t number) {
    return number < 0 ? none : static_cast<std::uint32_t>(number);
}

}  // namespace

NetworkPlan network_from(const nb::dict& from) {
    NetworkPlan network;
    network.latency = nb::cast<double>(from["latency"]);
    const auto out = reals(from, "node_out");
    const auto in = reals(from, "node_in");
    const auto ignored = column<std::uint8_t>(from, "node_ignored");
    for (std::size_t i = 0; i < out.size(); ++i)
        network.nodes.push_back({out[i], in[i], ignored[i] != 0});
    for (const nb::handle each : nb::cast<nb::list>(from["links"]))
        network.links.push_back({nb::cast<NodeId>(each[0]), nb::cast<NodeId>(each[1]),
                                 nb::cast<double>(each[2]), nb::cast<double>(each[3]),
                                 nb::cast<bool>(each[4]), nb::cast<std::uint32_t>(each[5]),
                                 nb::cast<bool>(each[6])});
    for (const nb::handle each : nb::cast<nb::list>(from["routes"]))
        network.routes.push_back({nb::cast<NodeId>(each[0]), nb::cast<NodeId>(each[1]),
                                  nb::cast<std::vector<LinkId>>(each[2]), nb::cast<double>(each[3]),
                                  nb::cast<std::uint32_t>(each[4])});
    for (const nb::handle each : nb::cast<nb::list>(from["stores"]))
        network.stores.push_back({nb::cast<NodeId>(each[0]), nb::cast<double>(each[1]),
                                  nb::cast<double>(each[2]), nb::cast<double>(each[3]),
                                  nb::cast<std::uint32_t>(each[4]), nb::cast<double>(each[5]),
                                  nb::cast<double>(each[6])});
    network.local_stores = column<StoreId, std::int64_t>(from, "local_stores");
    return network;
}

void open_network(World& run, const nb::dict& network, const std::vector<std::string>& names,
                  const std::vector<std::int64_t>& like) {
    std::vector<MachineId> likes;
    likes.reserve(like.size());
    for (const std::int64_t each : like)
        likes.push_back(each < 0 ? no_machine : static_cast<MachineId>(each));
    run.store_requests().open_network(network_from(network), names, likes);
}

std::vector<std::pair<StoreId, std::string>> named_stores(const World& run) {
    return run.state().requests.stores;
}

nb::dict store_figures(World& run, StoreId number) {
    const DataStore& store = store_at(run, number);
    // The rates of the last changes may have to be solved.
    auto& simulation = const_cast<Simulation&>(run.state().simulation);
    const auto capacity = [&](ResourceId id) {
        return id == none ? never : simulation.capacity(id);
    };
    nb::dict found;
    found["node"] = store.spec.node;
    found["capacity"] = store.spec.capacity;
    found["used"] = store.used();
    found["promised"] = store.promised();
    found["read"] = capacity(store.spec.read);
    found["write"] = capacity(store.spec.write);
    double reading = 0.0, writing = 0.0;
    const Transfers& transfers = run.state().staging.transfers;
    for (TransferId id = 0; id < transfers.slots(); ++id) {
        const Transfers::Transfer& each = transfers[id];
        if (!each.used) continue;
        if (each.spec.source == number) reading += simulation.rate(each.activity);
        if (each.spec.target == number) writing += simulation.rate(each.activity);
    }
    found["reading"] = reading;
    found["writing"] = writing;
    found["streams"] = number_of(store.spec.streams);
    found["active"] = store.active;
    found["waiting"] = store.waiting.size();
    found["gone"] = store.is_gone;
    return found;
}

nb::tuple store_files(World& run, StoreId number) {
    const DataStore& store = store_at(run, number);
    std::vector<FileId> files;
    std::vector<double> sizes;
    for (const auto& [file, bytes] :
         run.state().staging.transfers.files().list(number, store.file_count())) {
        files.push_back(file);
        sizes.push_back(bytes);
    }
    return nb::make_tuple(as_array(std::move(files)), as_array(std::move(sizes)));
}

StoreId register_store(World& run, const nb::dict& given) {
    NewStore store;
    const auto real = [&](const char* name, double& value) {
        if (given.contains(name)) value = nb::cast<double>(given[name]);
    };
    const auto whole = [&](const char* name, std::uint32_t& value) {
        if (given.contains(name)) value = nb::cast<std::uint32_t>(given[name]);
    };
    store.name = nb::cast<std::string>(given["name"]);
    whole("again", store.again);
    whole("like", store.like);
    whole("machine", store.machine);
    whole("streams", store.streams);
    real("send", store.send);
    real("receive", store.receive);
    real("capacity", store.capacity);
    real("read", store.read);
    real("write", store.write);
    return run.store_requests().register_store(store);
}

std::uint32_t begin_request(World& run, std::uint8_t kind, FileId file, std::int64_t source,
                            std::int64_t target, std::int64_t machine, double bytes) {
    StoreRequest given;
    given.kind = static_cast<RequestKind>(kind);
    given.file = file;
    given.source = id_from(source);
    given.target = id_from(target);
    given.machine = machine < 0 ? no_machine : static_cast<MachineId>(machine);
    given.bytes = bytes;
    return run.store_requests().begin(given);
}

nb::dict request_figures(World& run, std::uint32_t number) {
    const StoreRequest& row = request_at(run, number);
    const StoreRequests requests = run.store_requests();
    nb::dict found;
    found["kind"] = static_cast<std::uint8_t>(row.kind);
    found["file"] = row.file;
    found["source"] = number_of(row.source);
    found["target"] = number_of(row.target);
    found["phase"] = static_cast<std::uint8_t>(requests.phase(number));
    found["bytes"] = row.bytes;
    found["moved"] = requests.moved(number);
    found["start"] = row.start;
    found["end"] = row.end;
    return found;
}

nb::dict ended_requests(const World& run) {
    const StoreRequestState& state = run.state().requests;
    std::vector<StoreRequest> rows;
    state.rows.each([&](const StoreRequest& row) {
        if (row.ended_as > state.forgotten) rows.push_back(row);
    });
    std::ranges::sort(rows, {}, &StoreRequest::ended_as);
    nb::dict columns;
    const auto add = [&](const char* name, auto get) {
        std::vector<decltype(get(rows.front()))> values;
        values.reserve(rows.size());
        for (const StoreRequest& row : rows) values.push_back(get(row));
        columns[name] = as_array(std::move(values));
    };
    using Row = StoreRequest;
    add("kind", [](const Row& row) { return static_cast<std::uint8_t>(row.kind); });
    add("file", [](const Row& row) { return row.file; });
    add("source", [](const Row& row) { return number_of(row.source); });
    add("target", [](const Row& row) { return number_of(row.target); });
    add("machine", [](const Row& row) {
        return row.machine == no_machine ? std::int64_t{-1} : std::int64_t{row.machine};
    });
    add("finished", [](const Row& row) { return std::uint8_t{row.finished}; });
    add("bytes", [](const Row& row) { return row.moved; });
    add("start", [](const Row& row) { return row.start; });
    add("end", [](const Row& row) { return row.end; });
    return columns;
}

nb::dict node_use(World& run) {
    const auto use = run.store_requests().node_use();
    nb::dict columns;
    const auto add = [&](const char* name, auto member) {
        std::vector<double> values;
        values.reserve(use.size());
        for (const StoreRequests::NodeUse& each : use)
            values.push_back(static_cast<double>(each.*member));
        columns[name] = as_array(std::move(values));
    };
    add("sent", &StoreRequests::NodeUse::sent);
    add("received", &StoreRequests::NodeUse::received);
    add("sending", &StoreRequests::NodeUse::sending);
    add("receiving", &StoreRequests::NodeUse::receiving);
    add("transfers", &StoreRequests::NodeUse::transfers);
    std::vector<std::int64_t> machines(run.state().machine_count(), -1);
    const Staging staging(const_cast<WorldState&>(run.state()));
    if (!use.empty())
        for (MachineId m = 0; m < machines.size(); ++m)
            if (!run.state().fleet[m].is_instance) machines[m] = staging.node_of(m);
    columns["machines"] = as_array(std::move(machines));
    std::vector<std::int64_t> stores;
    for (const DataStore& each : run.state().staging.transfers.stores)
        stores.push_back(each.spec.node);
    columns["stores"] = as_array(std::move(stores));
    return columns;
}

}  // namespace twinloop::bind
