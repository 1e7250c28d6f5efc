// The network of an environment from Python: nodes, links, routes, stores and transfers.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "bind/environment.hpp"
#include "kernel/checks.hpp"

namespace twinloop::bind {
namespace {

// A Python object that refers to the network of an environment, or to one of its stores.
class NetworkPart {
  public:
    explicit NetworkPart(nb::handle env, StoreId store = none)
        : store(store), env_(env.inc_ref().ptr()) {}
    NetworkPart(const NetworkPart&) = delete;
    NetworkPart& operator=(const NetworkPart&) = delete;
    NetworkPart(NetworkPart&&) = delete;
    NetworkPart& operator=(NetworkPart&&) = delete;
    ~NetworkPart() { release(); }

    [[nodiscard]] nb::handle env_object() const { return env_; }
    [[nodiscard]] Environment& env() const { return part<Environment>(env_); }
    [[nodiscard]] EnvironmentNetwork& net() const { return *env().network; }
    int traverse(visitproc visit, void* arg) const {
        Py_VISIT(env_);
        return 0;
    }
    void release() { Py_CLEAR(env_); }

    StoreId store;

  private:
    PyObject* env_;
};
class NetworkView final : public NetworkPart {
    using NetworkPart::NetworkPart;
};
class StoreView final : public NetworkPart {
  public:
    using NetworkPart::NetworkPart;
    [[nodiscard]] const DataStore& data() const { return net().transfers.stores[store]; }
    [[nodiscard]] const FilePlaces& files() const { return net().transfers.files(); }
    [[nodiscard]] const std::string& name() const { return net().stores[store]; }
};

[[noreturn]] void refuse_value(const std::string& message) {
    throw nb::value_error(message.c_str());
}

std::uint32_t find_name(const NameTable& names, const std::string& name, const char* what) {
    const std::uint32_t found = names.find(name);
    if (found == none)
        refuse_value(std::string("there is no ") + what + " '" + name + "' in the network");
    return found;
}

void check_new_name(const NameTable& names, const std::string& name, const char* what) {
    if (names.find(name) != none)
        refuse_value(std::string("there is a ") + what + " '" + name + "' already");
}

void add_name(NameTable& names, const std::string& name, const char* what) {
    check_new_name(names, name, what);
    (void)names.intern(name);
}

// An optional number of an argument; a type error that names the argument.
template <class Number>
std::optional<Number> read_number(nb::handle given, const char* what) {
    if (given.is_none()) return std::nullopt;
    Number value{};
    if (!nb::try_cast(given, value))
        throw nb::type_error((std::string(what) + " must be " +
                              (std::is_integral_v<Number> ? "an integer" : "a number") + ", not " +
                              nb::cast<std::string>(nb::repr(given)))
                                 .c_str());
    return value;
}

// A bandwidth; none: unlimited. Arguments are read before anything is added.
std::optional<double> read_bandwidth(nb::handle given) {
    const std::optional<double> bandwidth = read_number<double>(given, "bandwidth");
    if (bandwidth) check_positive("bandwidth", *bandwidth);
    return bandwidth;
}

// The resource of a bandwidth, or none where it is unlimited.
ResourceId add_bandwidth(NetworkPart& self, std::optional<double> bandwidth,
                         const std::string& name) {
    if (!bandwidth) return none;
    return part<Resource>(self.env().add_resource(self.env_object(), *bandwidth, name)).id;
}

NodeId add_node(NetworkPart& self, const std::string& name, std::optional<double> out,
                std::optional<double> in) {
    add_name(self.net().nodes, name, "node");
    const ResourceId sends = add_bandwidth(self, out, name + " out");
    return self.net().transfers.network.add_node(sends, add_bandwidth(self, in, name + " in"));
}

// An end of a transfer: the name of a node, or a store.
std::pair<NodeId, StoreId> end_of(const NetworkView& self, nb::handle end) {
    if (Py_TYPE(end.ptr()) != types.data_store)
        return {find_name(self.net().nodes, nb::cast<std::string>(end), "node"), none};
    const StoreView& store = part<StoreView>(end);
    if (&store.env() != &self.env())
        refuse_value("store '" + store.name() + "' belongs to another environment");
    return {store.data().spec.node, store.store};
}

nb::object transfer(NetworkView& self, nb::handle source, nb::handle target, nb::handle size,
                    nb::handle file, nb::handle limit, double weight, nb::handle name) {
    EnvironmentNetwork& net = self.net();
    TransferSpec spec;
    std::tie(spec.from, spec.source) = end_of(self, source);
    std::tie(spec.to, spec.target) = end_of(self, target);
    if (!file.is_none()) {
        const auto called = nb::cast<std::string>(file);
        spec.file = net.files.intern(called);
        if (spec.source != none) {
            const FilePlaces& files = net.transfers.files();
            if (!files.has(spec.file, spec.source))
                refuse_value("store '" + net.stores[spec.source] + "' has no file '" + called +
                             "'");
            spec.bytes = files.size_of(spec.file, spec.source);
        }
    }
    if (!size.is_none()) spec.bytes = nb::cast<double>(size);
    if (size.is_none() && (file.is_none() || spec.source == none))
        refuse_value("a transfer needs its size, or a file of the store that it reads");
    spec.limit = limit.is_none() ? never : nb::cast<double>(limit);
    spec.weight = weight;
    check_limit(spec.limit);
    check_positive("weight", weight);
    try {
        return self.env().start_transfer(self.env_object(), spec,
                                         name.is_none() ? "" : nb::cast<std::string>(name));
    } catch (const std::invalid_argument& error) {
        refuse_value("cannot transfer from '" + net.nodes[spec.from] + "' to '" +
                     net.nodes[spec.to] + "': " + error.what());
    }
}

void bind_stores(nb::module_& module) {
    nb::class_<StoreView> store(module, "DataStore", nb::is_final(),
                                nb::type_slots(collected<StoreView>), R"doc(
A store of files at a node of a network. Created by `Network.store`.

>>> from twinloop.engine import Environment, Network
>>> env = Environment()
>>> network = Network(env)
>>> disk = network.store("disk", capacity=100.0, read=10.0)
>>> disk.put("input", 40.0)
>>> network.node("host")
>>> copy = network.transfer(disk, "host", file="input")
>>> env.run()
>>> env.now, disk.used
(4.0, 40.0)
)doc");
    types.data_store = reinterpret_cast<PyTypeObject*>(store.ptr());
    store
        .def(
            "put",
            [](StoreView& self, const std::string& file, double size) {
                check_not_negative("size", size);
                const FileId id = self.net().files.intern(file);
                const DataStore& data = self.data();
                const FilePlaces& files = self.files();
                const double present =
                    files.has(id, self.store) ? files.size_of(id, self.store) : 0.0;
                if (!data.fits(size - present))
                    refuse_value("store '" + self.name() + "' has " +
                                 bytes_text(std::max(data.free(), 0.0)) +
                                 " bytes left, and file '" + file + "' needs " + bytes_text(size));
                self.net().transfers.put_file(self.store, id, size);
            },
            nb::arg("file"), nb::arg("size"),
            "Store a file at once, without a transfer; a file of that name is replaced.")
        .def(
            "delete",
            [](StoreView& self, const std::string& file) {
                const FileId id = self.net().files.intern(file);
                if (!self.files().has(id, self.store))
                    refuse_value("store '" + self.name() + "' has no file '" + file + "'");
                self.net().transfers.remove_file(self.store, id);
            },
            nb::arg("file"), "Delete a file; transfers that read it continue.")
        .def_prop_ro(
            "files",
            [](const StoreView& self) {
                nb::dict files;
                for (const auto& [file, size] :
                     self.files().list(self.store, self.data().file_count()))
                    files[self.net().files[file].c_str()] = size;
                return files;
            },
            nb::sig("def files(self) -> dict[str, float]"),
            "The files and their sizes (bytes). The call visits the file names of the network.")
        .def_prop_ro(
            "used", [](const StoreView& self) { return self.data().used(); },
            "The bytes of the files.")
        .def_prop_ro(
            "promised", [](const StoreView& self) { return self.data().promised(); },
            "The bytes that transfers in progress will write.")
        .def_prop_ro(
            "free", [](const StoreView& self) { return self.data().free(); },
            "The bytes that are neither used nor promised.")
        .def_prop_ro(
            "capacity", [](const StoreView& self) { return self.data().spec.capacity; },
            "The capacity (bytes); infinite if unlimited.")
        .def_prop_ro(
            "streams", [](const StoreView& self) { return self.data().active; },
            "The number of transfers that the store serves now.")
        .def_prop_ro(
            "waiting", [](const StoreView& self) { return self.data().waiting.size(); },
            "The number of transfers that wait for a stream.")
        .def_prop_ro(
            "name", [](const StoreView& self) { return self.name(); }, "The name.")
        .def("__repr__", [](const StoreView& self) {
            return "<DataStore " + self.name() + ": " + bytes_text(self.data().used()) +
                   " bytes used>";
        });
}

}  // namespace

nb::object network_of(nb::handle env) {
    if (!part<Environment>(env).network) return nb::none();
    return make<NetworkView>(types.network, env);
}

void bind_network(nb::module_& module) {
    nb::class_<NetworkView> network(module, "Network", nb::is_final(),
                                    nb::type_slots(collected<NetworkView>), R"doc(
The network of an environment: nodes with full-duplex ports, links, routes and data stores.

Without links, all nodes are connected to one switch, and only their ports bound a transfer. With
links, a transfer takes the declared route between its ends, else the path of the least latency (among
equals, of the fewest links). Bandwidths are in bytes per second; None is unlimited. `latency` is that
of every route, in addition to the latencies of its links. An environment has one network at most.

>>> from twinloop.engine import Environment, Network
>>> env = Environment()
>>> network = Network(env, latency=0.5)
>>> for name in ("a", "b", "c"):
...     network.node(name, send=10.0, receive=10.0)
>>> first, second = network.transfer("a", "b", 45.0), network.transfer("a", "c", 20.0)
>>> env.run()
>>> second.finished, first.finished
(4.5, 7.0)
)doc");
    types.network = reinterpret_cast<PyTypeObject*>(network.ptr());
    network.def(
        "__init__",
        [](NetworkView* self, nb::handle env, double latency) {
            if (Py_TYPE(env.ptr()) != types.environment)
                throw nb::type_error("a Network needs an Environment");
            Environment& owner = part<Environment>(env);
            if (owner.network) refuse_value("the environment has a network already");
            check_not_negative("latency", latency);
            EnvironmentNetwork made;
            made.transfers.network.set_base_latency(latency);
            made.transfers.unlimited =
                part<Resource>(owner.add_resource(env, largest, "unlimited")).id;
            owner.network = std::make_unique<EnvironmentNetwork>(std::move(made));
            new (self) NetworkView(env);
        },
        nb::arg("env"), nb::arg("latency") = 0.0,
        nb::sig("def __init__(self, env: Environment, latency: float = 0.0) -> None"));
    network
        .def(
            "node",
            [](NetworkView& self, const std::string& name, nb::handle send, nb::handle receive) {
                const std::optional<double> out = read_bandwidth(send);
                add_node(self, name, out, read_bandwidth(receive));
            },
            nb::arg("name"), nb::kw_only(), nb::arg("send") = nb::none(),
            nb::arg("receive") = nb::none(),
            nb::sig("def node(self, name: str, *, send: float | None = None, receive: float | None "
                    "= None) -> None"),
            "Add a node: a host or a switch, with the bandwidths of its port in both directions.")
        .def(
            "link",
            [](NetworkView& self, const std::string& from, const std::string& to,
               nb::handle bandwidth, double latency, bool duplex, nb::handle name) {
                EnvironmentNetwork& net = self.net();
                const NodeId a = find_name(net.nodes, from, "node");
                const NodeId b = find_name(net.nodes, to, "node");
                if (a == b) refuse_value("a link must have two different ends");
                const std::string called =
                    name.is_none() ? from + "-" + to : nb::cast<std::string>(name);
                check_not_negative("latency", latency);
                const std::optional<double> width = read_bandwidth(bandwidth);
                add_name(net.links, called, "link");
                const ResourceId forward = add_bandwidth(self, width, called);
                const ResourceId backward =
                    duplex ? add_bandwidth(self, width, called + " back") : forward;
                (void)net.transfers.network.add_link(a, b, forward, backward, latency);
            },
            nb::arg("a"), nb::arg("b"), nb::arg("bandwidth") = nb::none(), nb::kw_only(),
            nb::arg("latency") = 0.0, nb::arg("duplex") = true, nb::arg("name") = nb::none(),
            nb::sig("def link(self, a: str, b: str, bandwidth: float | None = None, *, latency: "
                    "float = 0.0, duplex: bool = True, name: str | None = None) -> None"),
            "Add a link between two nodes; a link that is not `duplex` shares its bandwidth "
            "between both directions.")
        .def(
            "route",
            [](NetworkView& self, const std::string& from, const std::string& to,
               const std::vector<std::string>& links, nb::handle latency) {
                EnvironmentNetwork& net = self.net();
                std::vector<LinkId> found;
                found.reserve(links.size());
                for (const std::string& link : links)
                    found.push_back(find_name(net.links, link, "link"));
                net.transfers.network.add_route(
                    find_name(net.nodes, from, "node"), find_name(net.nodes, to, "node"), found,
                    latency.is_none() ? std::numeric_limits<double>::quiet_NaN()
                                      : nb::cast<double>(latency));
            },
            nb::arg("source"), nb::arg("target"), nb::arg("links"), nb::kw_only(),
            nb::arg("latency") = nb::none(),
            nb::sig("def route(self, source: str, target: str, links: "
                    "collections.abc.Sequence[str], *, latency: float | None = None) -> None"),
            "Declare the links of the transfers from one node to another, by name; a `latency` "
            "replaces that of the network and of the links.")
        .def(
            "store",
            [](NetworkView& self, const std::string& name, nb::handle node, nb::handle capacity,
               nb::handle read, nb::handle write, nb::handle streams) {
                EnvironmentNetwork& net = self.net();
                DataStoreSpec spec;
                if (const auto bytes = read_number<double>(capacity, "capacity")) {
                    check_not_negative("capacity", *bytes);
                    spec.capacity = *bytes;
                }
                if (const auto bound = read_number<std::int64_t>(streams, "streams")) {
                    if (*bound < 1 || *bound > 1'000'000'000)
                        refuse_value("streams must be between 1 and 1e9, got " +
                                     std::to_string(*bound));
                    spec.streams = static_cast<std::uint32_t>(*bound);
                }
                const std::optional<double> out = read_bandwidth(read);
                const std::optional<double> in = read_bandwidth(write);
                if (node.is_none()) check_new_name(net.nodes, name, "node");
                else spec.node = find_name(net.nodes, nb::cast<std::string>(node), "node");
                add_name(net.stores, name, "store");
                if (node.is_none()) spec.node = add_node(self, name, std::nullopt, std::nullopt);
                spec.read = add_bandwidth(self, out, name + " read");
                spec.write = add_bandwidth(self, in, name + " write");
                net.transfers.stores.emplace_back(spec);
                return make<StoreView>(types.data_store, self.env_object(),
                                       static_cast<StoreId>(net.transfers.stores.size() - 1));
            },
            nb::arg("name"), nb::kw_only(), nb::arg("node") = nb::none(),
            nb::arg("capacity") = nb::none(), nb::arg("read") = nb::none(),
            nb::arg("write") = nb::none(), nb::arg("streams") = nb::none(),
            nb::sig("def store(self, name: str, *, node: str | None = None, capacity: float | None "
                    "= None, read: float | None = None, write: float | None = None, streams: int | "
                    "None = None) -> DataStore"),
            "Add a store at a node; without one, at a node of its own with the same name. At most "
            "`streams` transfers are served at once, first come, first served.")
        .def("transfer", &transfer, nb::arg("source"), nb::arg("target"),
             nb::arg("size") = nb::none(), nb::kw_only(), nb::arg("file") = nb::none(),
             nb::arg("limit") = nb::none(), nb::arg("weight") = 1.0, nb::arg("name") = nb::none(),
             nb::sig("def transfer(self, source: str | DataStore, target: str | DataStore, size: "
                     "float | None = None, *, file: str | None = None, limit: float | None = None, "
                     "weight: float = 1.0, name: str | None = None) -> Activity"),
             R"doc(
Start a transfer from a node or a store to another, and return its activity.

It waits for a stream of its stores, then for the latency of its route, as it is now, and then moves
at the rate that the ports, links and stores on its way leave it. A store that is written promises the
capacity at once; without space the transfer is refused. `file` is the name of the file that is read
from a store, whose size it has, or that is written to one. Cancelling gives everything back.

>>> from twinloop.engine import Environment, Network
>>> env = Environment()
>>> network = Network(env)
>>> disk = network.store("disk", capacity=100.0, write=10.0, streams=1)
>>> network.node("host")
>>> one = network.transfer("host", disk, 50.0, file="one")
>>> two = network.transfer("host", disk, 30.0, file="two")
>>> disk.promised, disk.waiting
(80.0, 1)
>>> env.run(until=6.0)
>>> two.cancel(); disk.files, disk.free
({'one': 50.0}, 50.0)
)doc")
        .def_prop_ro(
            "nodes", [](const NetworkView& self) { return self.net().nodes.list(); },
            nb::sig("def nodes(self) -> list[str]"), "The names of the nodes.")
        .def_prop_ro(
            "stores",
            [](const NetworkView& self) {
                nb::dict stores;
                for (StoreId id = 0; id < self.net().stores.size(); ++id)
                    stores[self.net().stores[id].c_str()] =
                        make<StoreView>(types.data_store, self.env_object(), id);
                return stores;
            },
            nb::sig("def stores(self) -> dict[str, DataStore]"), "The stores by name.")
        .def_prop_ro(
            "transfers", [](const NetworkView& self) { return self.net().transfers.live(); },
            "The number of transfers that have not ended.")
        .def("__repr__", [](const NetworkView& self) {
            return "<Network: " + std::to_string(self.net().nodes.size()) + " nodes, " +
                   std::to_string(self.net().links.size()) + " links>";
        });
    bind_stores(module);
}

}  // namespace twinloop::bind
