// Runs of compiled scenarios.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "bind/arrays.hpp"
#include "bind/event.hpp"
#include "bind/in_use.hpp"
#include "bind/input_columns.hpp"
#include "bind/policies.hpp"
#include "bind/run_states.hpp"
#include "bind/sources.hpp"
#include "bind/store_requests.hpp"
#include "bind/world_handle.hpp"
#include "world/kpis.hpp"
#include "world/power_series.hpp"
#include "world/world.hpp"

namespace twinloop::bind {
namespace {

// The values of a row; `columns` are those of the scenario by default.
ModelValues values_from(const Scenario& all, const Column<double>& values,
                        const ValueColumns* columns) {
    const ValueColumns& used = columns == nullptr ? all.columns : *columns;
    if (used.size() != values.shape(0))
        throw nb::value_error("the number of values does not match their columns");
    return all.values({values.data(), values.shape(0)}, used);
}

void poll() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Runs until the end, until failures beyond the known horizon are needed, or for about 100 ms, so
// that Ctrl-C is handled.
bool run_slice(WorldHandle& self) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(100);
    bool more = true;
    {
        const auto run = self.hold();
        const auto go = [&] {
            const auto begun = Clock::now();
            for (std::uint32_t steps = 1; more; ++steps) {
                more = run->step();
                if (steps % 64 == 0 && Clock::now() - begun > patience) break;
            }
        };
        if (run->foreign()) {
            go();
        } else {
            const nb::gil_scoped_release released;
            go();
        }
    }
    poll();
    return more;
}

nb::dict outcomes(const WorldHandle& self) {
    const auto run = self.hold();
    const auto& all = run->tasks();
    std::vector<double> submit(all.size()), ready(all.size()), start(all.size()),
        last_start(all.size()), end(all.size()), last_end(all.size()), done(all.size()),
        used(all.size()), energy(all.size());
    std::vector<std::int64_t> attempts(all.size());
    std::vector<std::uint8_t> status(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        submit[i] = all[i].submit;
        ready[i] = all[i].ready;
        start[i] = all[i].start;
        last_start[i] = all[i].last_start;
        end[i] = all[i].end;
        last_end[i] = all[i].last_end;
        done[i] = all[i].done;
        used[i] = all[i].used;
        energy[i] = run->energy_of(static_cast<TaskId>(i));
        attempts[i] = all[i].attempts;
        status[i] = code(all[i].status);
    }
    nb::dict columns;
    columns["submit"] = as_array(std::move(submit));
    columns["ready"] = as_array(std::move(ready));
    columns["start"] = as_array(std::move(start));
    columns["last_start"] = as_array(std::move(last_start));
    columns["end"] = as_array(std::move(end));
    columns["last_end"] = as_array(std::move(last_end));
    columns["done"] = as_array(std::move(done));
    columns["used"] = as_array(std::move(used));
    columns["energy"] = as_array(std::move(energy));
    columns["attempts"] = as_array(std::move(attempts));
    columns["status"] = as_array(std::move(status));
    return columns;
}

nb::dict added_tasks(const WorldHandle& self) {
    const auto run = self.hold();
    const Tasks& tasks = run->scheduler().tasks();
    const auto first = static_cast<TaskId>(tasks.shared().size());
    const auto collect = [&]<class Get>(Get&& get) {
        std::vector<decltype(get(first))> values;
        values.reserve(tasks.size() - first);
        for (TaskId task = first; task < tasks.size(); ++task) values.push_back(get(task));
        return values;
    };
    const auto real = [&](double Request::* value) {
        return as_array(collect([&](TaskId task) { return tasks[task].request.*value; }));
    };
    const auto whole = [&](std::int32_t Request::* value) {
        return as_array(collect([&](TaskId task) { return tasks[task].request.*value; }));
    };
    nb::dict columns;
    columns["id"] = nb::cast(collect([&](TaskId task) { return tasks.name(task); }));
    columns["submit"] = real(&Request::submit);
    columns["cores"] = real(&Request::cores);
    columns["memory"] = real(&Request::memory);
    columns["requested_time"] = real(&Request::time);
    columns["nodes"] = whole(&Request::nodes);
    columns["user"] = whole(&Request::user);
    columns["group"] = whole(&Request::group);
    columns["queue"] = whole(&Request::queue);
    columns["kind"] = as_array(collect([&](TaskId task) { return tasks[task].kind; }));
    columns["deadline"] = as_array(collect([&](TaskId task) { return tasks[task].deadline; }));
    std::vector<double> amounts;
    for (TaskId task = first; task < tasks.size(); ++task)
        amounts.insert(amounts.end(), tasks.amounts(task).begin(), tasks.amounts(task).end());
    columns["amounts"] = as_array(std::move(amounts));
    columns["command"] = nb::cast(collect([&](TaskId task) { return tasks.command(task); }));
    columns["parents"] = nb::cast(parents_of_added(tasks));
    return columns;
}

nb::dict placements(const WorldHandle& self) {
    const auto run = self.hold();
    const PlacementLog& log = run->state().records.placements;
    nb::dict columns;
    columns["task"] = as_array(log, [](const auto& row) { return row.task; });
    columns["attempt"] = as_array(log, [](const auto& row) { return row.attempt; });
    columns["machine"] = as_array(log, [](const auto& row) { return row.machine; });
    columns["count"] = as_array(log, [](const auto& row) { return row.count; });
    columns["cores"] = as_array(log, [](const auto& row) { return row.cores; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.end; });
    columns["reason"] = as_array(log, [](const auto& row) { return code(row.reason); });
    return columns;
}

nb::dict use(const WorldHandle& self) {
    const auto run = self.hold();
    const UseLog& log = run->state().records.use;
    nb::dict columns;
    columns["machine"] = as_array(log, [](const auto& row) { return row.machine; });
    columns["t"] = as_array(log, [](const auto& row) { return row.t; });
    columns["used"] = as_array(log, [](const auto& row) { return row.used; });
    return columns;
}

nb::dict decisions(const WorldHandle& self) {
    const auto run = self.hold();
    const OrderLog& log = run->state().records.orders;
    nb::dict columns;
    columns["t"] = as_array(log, [](const auto& row) { return row.t; });
    columns["kind"] = as_array(log, [](const auto& row) { return code(row.kind); });
    columns["state"] = as_array(log, [](const auto& row) { return row.state; });
    columns["controller"] = as_array(log, [](const auto& row) { return row.controller; });
    columns["task"] = as_array(log, [](const auto& row) { return row.task; });
    columns["machine"] = as_array(log, [](const auto& row) { return row.machine; });
    return columns;
}

nb::dict transfers(const WorldHandle& self) {
    const auto run = self.hold();
    const TransferLog& log = run->state().records.transfers;
    nb::dict columns;
    columns["task"] = as_array(log, [](const auto& row) { return row.task; });
    columns["file"] = as_array(log, [](const auto& row) { return row.file; });
    columns["store"] = as_array(log, [](const auto& row) { return row.store; });
    columns["machine"] = as_array(log, [](const auto& row) { return row.machine; });
    columns["read"] = as_array(log, [](const auto& row) { return std::uint8_t{row.read}; });
    columns["staged"] = as_array(log, [](const auto& row) { return std::uint8_t{row.staged}; });
    columns["finished"] = as_array(log, [](const auto& row) { return std::uint8_t{row.finished}; });
    columns["bytes"] = as_array(log, [](const auto& row) { return row.bytes; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.end; });
    return columns;
}

// A number of each store.
template <class Number>
nb::object of_stores(const WorldHandle& self, Number number) {
    const auto run = self.hold();
    std::vector<double> found;
    for (const DataStore& store : run->state().staging.transfers.stores)
        found.push_back(static_cast<double>(number(store)));
    return as_array(std::move(found));
}

// Bytes in the stores of the platform.
nb::object stored_bytes(const WorldHandle& self) {
    return of_stores(self, [](const DataStore& store) { return store.used(); });
}

// Promised bytes, streams in use, transfers that wait for one.
nb::dict store_use(const WorldHandle& self) {
    nb::dict columns;
    columns["promised"] = of_stores(self, [](const DataStore& store) { return store.promised(); });
    columns["streams"] = of_stores(self, [](const DataStore& store) { return store.active; });
    columns["waiting"] =
        of_stores(self, [](const DataStore& store) { return store.waiting.size(); });
    return columns;
}

nb::dict states(const WorldHandle& self) {
    const auto run = self.hold();
    const StateLog& log = run->state().records.states;
    nb::dict columns;
    columns["machine"] = as_array(log, [](const auto& row) { return row.machine; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.finish; });
    columns["kind"] = as_array(log, [](const auto& row) { return row.kind; });
    return columns;
}

nb::dict instances(const WorldHandle& self) {
    const auto run = self.hold();
    const InstanceLog& log = run->state().records.instances;
    nb::dict columns;
    columns["instance"] = as_array(log, [](const auto& row) { return row.instance; });
    columns["host"] = as_array(log, [](const auto& row) { return row.host; });
    columns["cores"] = as_array(log, [](const auto& row) { return row.cores; });
    columns["memory"] = as_array(log, [](const auto& row) { return row.memory; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.finish; });
    columns["reason"] = as_array(log, [](const auto& row) { return code(row.reason); });
    return columns;
}

nb::dict usage(const WorldHandle& self) {
    std::vector<std::uint32_t> task, machine;
    std::vector<double> t, dt, cpu;
    const auto run = self.hold();
    if (const auto& log = run->state().records.usage) {
        const std::size_t rows = log->window_count();
        for (auto* each : {&task, &machine}) each->reserve(rows);
        for (auto* each : {&t, &dt, &cpu}) each->reserve(rows);
        log->for_each([&](const UsageLog::Row& row, double end, double length, double used) {
            task.push_back(row.task);
            machine.push_back(row.machine);
            t.push_back(end);
            dt.push_back(length);
            cpu.push_back(used);
        });
    }
    nb::dict columns;
    columns["task"] = as_array(std::move(task));
    columns["machine"] = as_array(std::move(machine));
    columns["t"] = as_array(std::move(t));
    columns["dt"] = as_array(std::move(dt));
    columns["cpu"] = as_array(std::move(cpu));
    return columns;
}

nb::dict kpi_dict(const WorldHandle& self) {
    // The names are made once, since that takes as long as a small run. They are never released:
    // the interpreter may end before static objects are destroyed.
    static const nb::list& names = *[] {
        auto* const list = new nb::list();
        for (const std::string_view each : kpi_names)
            list->append(nb::str(each.data(), each.size()));
        return list;
    }();
    const auto values = kpis(*self.hold());
    nb::dict figures;
    for (std::size_t i = 0; i < values.size(); ++i) figures[names[i]] = values[i];
    return figures;
}

std::vector<Part> parts_from(const std::vector<std::pair<std::uint32_t, double>>& given,
                             const SchedulerState& scheduler) {
    std::vector<Part> parts;
    parts.reserve(given.size());
    for (const auto& [machine, cores] : given)
        parts.push_back({machine_at(scheduler, machine), 1, cores});
    return parts;
}

MachineId machine_of(const Held<World>& run, std::int64_t machine) {
    return machine_at(run->scheduler(), machine);
}

TaskId task_of(const Held<World>& run, std::int64_t task) {
    return task_at(run->scheduler(), task);
}

// The stores of a run: see `twinloop.engine.store_service`.
void bind_stores(nb::class_<WorldHandle>& type) {
    type.def_prop_ro(
            "has_network",
            [](const WorldHandle& self) { return self.hold()->state().has_network(); },
            "Whether its network is open; `open_network` opens that of a run that has no files.")
        .def(
            "open_network",
            [](WorldHandle& self, const nb::dict& network, const std::vector<std::string>& names,
               const std::vector<std::int64_t>& like) {
                open_network(*self.hold(), network, names, like);
            },
            nb::arg("network"), nb::arg("names"), nb::arg("like"),
            nb::sig("def open_network(self, network: dict[str, typing.Any], names: "
                    "collections.abc.Sequence[str], like: collections.abc.Sequence[int]) -> None"))
        .def_prop_ro(
            "has_store_changes",
            [](const WorldHandle& self) { return self.hold()->state().requests.has_changes; },
            "Whether files, stores or transfers were requested from outside.")
        .def_prop_ro("store_count",
                     [](const WorldHandle& self) {
                         return self.hold()->state().staging.transfers.stores.size();
                     })
        .def(
            "named_stores", [](const WorldHandle& self) { return named_stores(*self.hold()); },
            "The stores whose names were given in the run.")
        .def(
            "store_figures",
            [](const WorldHandle& self, StoreId store) {
                return store_figures(*self.hold(), store);
            },
            nb::arg("store"),
            nb::sig("def store_figures(self, store: int) -> dict[str, typing.Any]"))
        .def(
            "store_files",
            [](const WorldHandle& self, StoreId store) { return store_files(*self.hold(), store); },
            nb::arg("store"),
            nb::sig("def store_files(self, store: int) -> tuple[numpy.typing.NDArray[numpy.uint32],"
                    " numpy.typing.NDArray[numpy.float64]]"),
            "The numbers and the sizes of its files.")
        .def(
            "has_file",
            [](const WorldHandle& self, StoreId store, FileId file) {
                return self.hold()->state().staging.transfers.files().has(file, store);
            },
            nb::arg("store"), nb::arg("file"))
        .def_prop_ro(
            "planned_files",
            [](const WorldHandle& self) {
                const auto run = self.hold();
                const auto& files = run->state().scenario->files;
                return files == nullptr ? std::size_t{0} : files->files.size();
            },
            "The number of the files of the scenario; the others follow them.")
        .def(
            "new_files",
            [](const WorldHandle& self) { return self.hold()->state().requests.files->names; },
            "The names of the files that the scenario does not have.")
        .def(
            "find_new_file",
            [](const WorldHandle& self, const std::string& name) {
                const FileId found = self.hold()->store_requests().find_file(name);
                return found == none ? std::int64_t{-1} : std::int64_t{found};
            },
            nb::arg("name"), "The number of such a file, or -1.")
        .def(
            "name_file",
            [](WorldHandle& self, const std::string& name) {
                return self.hold()->store_requests().name_file(name);
            },
            nb::arg("name"))
        .def(
            "file_size",
            [](const WorldHandle& self, FileId file) {
                return self.hold()->store_requests().find_size(file);
            },
            nb::arg("file"), "The size of a file; None if it is nowhere.")
        .def(
            "register_file",
            [](WorldHandle& self, StoreId store, FileId file, double bytes) {
                self.hold()->store_requests().put_file(store, file, bytes);
            },
            nb::arg("store"), nb::arg("file"), nb::arg("bytes"))
        .def(
            "remove_file",
            [](WorldHandle& self, StoreId store, FileId file, bool reading) {
                self.hold()->store_requests().remove_file(store, file, reading);
            },
            nb::arg("store"), nb::arg("file"), nb::arg("reading"),
            "Remove a file; `reading`: also if transfers read it.")
        .def(
            "begin_request",
            [](WorldHandle& self, std::uint8_t kind, FileId file, std::int64_t source,
               std::int64_t target, std::int64_t machine, double bytes) {
                return begin_request(*self.hold(), kind, file, source, target, machine, bytes);
            },
            nb::arg("kind"), nb::arg("file"), nb::arg("source"), nb::arg("target"),
            nb::arg("machine"), nb::arg("bytes"))
        .def(
            "cancel_request",
            [](WorldHandle& self, std::uint32_t number) {
                self.hold()->store_requests().cancel(number);
            },
            nb::arg("number"))
        .def(
            "request_figures",
            [](const WorldHandle& self, std::uint32_t number) {
                return request_figures(*self.hold(), number);
            },
            nb::arg("number"),
            nb::sig("def request_figures(self, number: int) -> dict[str, typing.Any]"))
        .def(
            "open_requests",
            [](const WorldHandle& self) { return self.hold()->state().requests.open; },
            "The numbers of the requests in progress.")
        .def(
            "ended_requests", [](const WorldHandle& self) { return ended_requests(*self.hold()); },
            nb::sig("def ended_requests(self) -> dict[str, typing.Any]"))
        .def(
            "register_store",
            [](WorldHandle& self, const nb::dict& store) {
                return register_store(*self.hold(), store);
            },
            nb::arg("store"),
            nb::sig("def register_store(self, store: dict[str, typing.Any]) -> int"))
        .def(
            "find_store_use",
            [](const WorldHandle& self, StoreId store) -> std::optional<std::string> {
                const char* const use = self.hold()->store_requests().find_use(store);
                return use == nullptr ? std::nullopt : std::optional<std::string>(use);
            },
            nb::arg("store"), "Why the store cannot be deregistered without loss, or None.")
        .def(
            "deregister_store",
            [](WorldHandle& self, StoreId store) {
                self.hold()->store_requests().deregister_store(store);
            },
            nb::arg("store"))
        .def(
            "node_use", [](const WorldHandle& self) { return node_use(*self.hold()); },
            nb::sig("def node_use(self) -> dict[str, typing.Any]"));
}

}  // namespace

void bind_world(nb::module_& module) {
    nb::class_<WorldHandle> bound(
        module, "ClusterRun", nb::is_final(),
        "One run of a compiled scenario; see `twinloop.engine.Simulation`.");
    bound
        .def(
            "__init__",
            [](WorldHandle* self, const ScenarioHandle& scenario, nb::handle policy,
               const Column<double>& values, const ValueColumns* columns, bool placements, bool use,
               bool decisions, double usage_step, double usage_rows, std::uint64_t seed,
               nb::handle source) {
                auto made = policy_from(policy, scenario.names, seed);
                Controller& kept = *made;
                auto run = std::make_unique<World>(
                    scenario.scenario, scenario.scenario->outages,
                    values_from(*scenario.scenario, values, columns), std::move(made),
                    Recording{placements, use, decisions, false, usage_step, usage_rows},
                    source_from(source, scenario), providers_from(scenario, seed));
                auto guard = WorldHandle::make_guard();
                attach(kept, guard);
                new (self) WorldHandle(std::move(run), scenario.names, std::move(guard));
            },
            nb::arg("scenario"), nb::arg("policy"), nb::arg("values"),
            nb::arg("columns").none() = nb::none(), nb::kw_only(), nb::arg("placements") = false,
            nb::arg("use") = false, nb::arg("decisions") = false, nb::arg("usage_step") = never,
            nb::arg("usage_rows") = never, nb::arg("seed") = 0, nb::arg("source") = nb::none())
        .def_prop_ro("now", [](const WorldHandle& self) { return self.hold()->now(); })
        .def_prop_ro("start_time",
                     [](const WorldHandle& self) { return self.hold()->state().begin; })
        .def_prop_ro("events", [](const WorldHandle& self) { return self.hold()->state().events; })
        .def_prop_ro("acting_controller",
                     [](const WorldHandle& self) { return self.hold()->controller().acting(); })
        .def_prop_ro(
            "acting_cloud",
            [](const WorldHandle& self) -> nb::object {
                const auto run = self.hold();
                const std::size_t cloud = run->acting_cloud();
                if (cloud >= run->providers().size()) return nb::none();
                return nb::make_tuple(cloud, run->providers()[cloud]->acting());
            },
            nb::sig("def acting_cloud(self) -> tuple[int, int] | None"),
            "The cloud whose controllers were called last and have failed, and the index of the "
            "controller; otherwise None.")
        .def_prop_ro("has_python_policy",
                     [](const WorldHandle& self) { return self.hold()->has_foreign_controller(); })
        .def_prop_ro("shared",
                     [](const WorldHandle& self) { return self.hold()->state().is_shared(); })
        .def("next_time", [](WorldHandle& self) { return self.hold()->next_time(); })
        .def("step", [](WorldHandle& self) { return self.hold()->step(); })
        .def(
            "run_until", [](WorldHandle& self, double time) { self.hold()->run_until(time); },
            nb::arg("time"))
        .def("run_slice", &run_slice)
        .def_prop_ro("is_usage_full",
                     [](const WorldHandle& self) {
                         const auto run = self.hold();
                         return run->state().records.usage && run->state().records.usage->full();
                     })
        .def_prop_ro("needs_failures",
                     [](const WorldHandle& self) { return self.hold()->needs_outages(); })
        .def(
            "extend_failures",
            [](WorldHandle& self, const ScenarioHandle& scenario) {
                self.hold()->extend(scenario.scenario->outages);
            },
            nb::arg("scenario"))
        .def("copy", &WorldHandle::copy, nb::arg("policy") = nb::none(), nb::kw_only(),
             nb::arg("seed") = 0, nb::arg("resumes") = false, nb::arg("history") = true,
             nb::sig("def copy(self, policy: object = None, *, seed: int = 0, resumes: bool = "
                     "False, history: bool = True) -> ClusterRun"))
        .def_prop_ro("has_history",
                     [](const WorldHandle& self) { return self.hold()->state().forgotten == 0; })
        .def(
            "forgotten",
            [](const WorldHandle& self) {
                const auto run = self.hold();
                return as_array(run->tasks(), [&](const TaskRun& task) {
                    return code(run->state().is_forgotten(task));
                });
            },
            nb::sig("def forgotten(self) -> numpy.typing.NDArray[numpy.uint8]"),
            "By task: whether it ended before a copy without the history.")
        .def("view", &WorldHandle::view, nb::keep_alive<0, 1>())
        .def("outcomes", &outcomes,
             nb::sig("def outcomes(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("placements", &placements,
             nb::sig("def placements(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("use", &use, nb::sig("def use(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("decisions", &decisions,
             nb::sig("def decisions(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("transfers", &transfers,
             nb::sig("def transfers(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("stored_bytes", &stored_bytes,
             nb::sig("def stored_bytes(self) -> numpy.typing.NDArray[numpy.float64]"))
        .def("store_use", &store_use,
             nb::sig("def store_use(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def_prop_ro(
            "live_transfers",
            [](const WorldHandle& self) { return self.hold()->state().staging.transfers.live(); })
        .def("states", &states,
             nb::sig("def states(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("instances", &instances,
             nb::sig("def instances(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
             "The periods of instances, each on one host and with one size.")
        .def("usage", &usage,
             nb::sig("def usage(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("kpis", &kpi_dict, nb::sig("def kpis(self) -> dict[str, float]"))
        .def(
            "energy",
            [](const WorldHandle& self) {
                const auto run = self.hold();
                std::vector<double> joules;
                joules.reserve(run->state().machine_count());
                for (MachineId m = 0; m < run->state().machine_count(); ++m)
                    joules.push_back(run->energy(m));
                return as_array(std::move(joules));
            },
            nb::sig("def energy(self) -> numpy.typing.NDArray[numpy.float64]"))
        .def(
            "power",
            [](const WorldHandle& self, double step, bool machines) {
                return as_array(power_series(*self.hold(), step, machines));
            },
            nb::arg("step"), nb::arg("machines"),
            nb::sig("def power(self, step: float, machines: bool) -> "
                    "numpy.typing.NDArray[numpy.float64]"))
        .def(
            "windows",
            [](const WorldHandle& self, double step) { return window_count(*self.hold(), step); },
            nb::arg("step"))
        .def(
            "loads",
            [](const WorldHandle& self, double step, bool by_group) {
                return LoadProfile(*self.hold(), step, by_group);
            },
            nb::arg("step"), nb::arg("by_group") = false)
        .def(
            "progress",
            [](const WorldHandle& self, std::int64_t task) {
                const auto run = self.hold();
                return run->progress(task_of(run, task));
            },
            nb::arg("task"))
        .def(
            "is_down",
            [](const WorldHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                return run->state().fleet[machine_of(run, machine)].outages > 0;
            },
            nb::arg("machine"))
        .def(
            "fail",
            [](WorldHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                run->fail(machine_of(run, machine));
            },
            nb::arg("machine"))
        .def(
            "restore",
            [](WorldHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                run->restore(machine_of(run, machine));
            },
            nb::arg("machine"))
        .def(
            "set_cores",
            [](WorldHandle& self, std::int64_t machine, double cores) {
                const auto run = self.hold();
                run->set_cores(machine_of(run, machine), cores);
            },
            nb::arg("machine"), nb::arg("cores"))
        .def(
            "set_state",
            [](WorldHandle& self, std::int64_t machine, const std::string& state) {
                const auto run = self.hold();
                const StateId target = state_of(run->scheduler(), state);
                if (const char* why = run->set_state(machine_of(run, machine), target))
                    throw nb::value_error(why);
            },
            nb::arg("machine"), nb::arg("state"),
            "Order a state of a machine; ValueError with the reason if that is not possible.")
        .def(
            "is_removed",
            [](const WorldHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                return run->state().fleet[machine_of(run, machine)].removed;
            },
            nb::arg("machine"))
        .def(
            "machine_states",
            [](const WorldHandle& self) {
                const auto run = self.hold();
                std::vector<std::string> states;
                states.reserve(run->state().machine_count());
                for (MachineId m = 0; m < run->state().machine_count(); ++m)
                    states.push_back(run->state().fleet[m].removed
                                         ? "removed"
                                         : state_name(run->scheduler(), m));
                return states;
            },
            R"(The state of each machine by name: also "down" and "removed".)")
        .def("set_names", &WorldHandle::set_names, nb::arg("names"),
             "Set the names of tasks and machines that views show.")
        .def_prop_ro(
            "state_names",
            [](const WorldHandle& self) { return self.hold()->scheduler().state_tables().names; },
            "The names of the states of machines, by their number.")
        .def(
            "add_machine",
            [](WorldHandle& self, double cores, double memory, double speed, double mhz,
               const std::vector<double>& amounts, nb::handle like) {
                const auto run = self.hold();
                const MachineId same =
                    like.is_none() ? no_machine : machine_of(run, nb::cast<std::int64_t>(like));
                if (same != no_machine && run->state().fleet[same].is_instance)
                    throw nb::value_error("a machine cannot be like an instance");
                if (amounts.size() != run->scheduler().space().resources())
                    throw nb::value_error("give an amount for each other resource");
                return run->add_machine({cores, memory, speed, mhz}, amounts, same);
            },
            nb::arg("cores"), nb::arg("memory") = never, nb::arg("speed") = 1.0,
            nb::arg("mhz") = 0.0, nb::arg("amounts") = std::vector<double>(),
            nb::arg("like") = nb::none(),
            nb::sig("def add_machine(self, cores: float, memory: float = ..., speed: float = 1.0, "
                    "mhz: float = 0.0, amounts: collections.abc.Sequence[float] = (), like: "
                    "int | None = None) -> int"),
            "Add a machine, with the power model, the states, the ports, the links and the store "
            "of the machine `like`; return its index.")
        .def(
            "share_machines", [](WorldHandle& self) { self.hold()->share_machines(); },
            "Share the machines by activities from now on, as instances need it.")
        .def(
            "add_instance",
            [](WorldHandle& self, std::int64_t host, double cores, double memory, bool overcommit) {
                const auto run = self.hold();
                return run->add_instance(machine_of(run, host), cores, memory, overcommit);
            },
            nb::arg("host"), nb::arg("cores"), nb::arg("memory") = never,
            nb::arg("overcommit") = false,
            "Add an instance on a host and return its index; ValueError with the reason if that is "
            "not possible.")
        .def(
            "move_instance",
            [](WorldHandle& self, std::int64_t instance, std::int64_t host, bool overcommit) {
                const auto run = self.hold();
                if (const char* why = run->move_instance(machine_of(run, instance),
                                                         machine_of(run, host), overcommit))
                    throw nb::value_error(why);
            },
            nb::arg("instance"), nb::arg("host"), nb::arg("overcommit") = false,
            "Move an instance with its tasks to another host.")
        .def(
            "resize_instance",
            [](WorldHandle& self, std::int64_t instance, double cores, bool overcommit) {
                const auto run = self.hold();
                if (const char* why =
                        run->resize_instance(machine_of(run, instance), cores, overcommit))
                    throw nb::value_error(why);
            },
            nb::arg("instance"), nb::arg("cores"), nb::arg("overcommit") = false,
            "Set the number of cores of an instance; its running tasks continue.")
        .def(
            "hosts",
            [](const WorldHandle& self) {
                const auto run = self.hold();
                std::vector<std::int64_t> hosts(run->state().machine_count(), -1);
                for (MachineId m = 0; m < hosts.size(); ++m)
                    if (run->scheduler().host_of(m) != no_machine)
                        hosts[m] = run->scheduler().host_of(m);
                return as_array(std::move(hosts));
            },
            nb::sig("def hosts(self) -> numpy.typing.NDArray[numpy.int64]"),
            "By machine: the host of an instance; -1 of other machines.")
        .def(
            "remove_machine",
            [](WorldHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                run->remove_machine(machine_of(run, machine));
            },
            nb::arg("machine"), "Remove a machine; its tasks are interrupted as by a failure.")
        .def(
            "submit",
            [](WorldHandle& self, nb::handle row) {
                return self.hold()->inject(new_task_from(row));
            },
            nb::arg("row"), nb::sig("def submit(self, row: object) -> int"),
            "Submit a task that is not in the scenario: a row of `twinloop.engine.new_rows`.")
        .def("added_tasks", &added_tasks, nb::sig("def added_tasks(self) -> dict[str, typing.Any]"),
             "The tasks that were added during the run, in their order.")
        .def_prop_ro(
            "added_count",
            [](const WorldHandle& self) { return self.hold()->scheduler().tasks().own().size(); })
        .def_prop_ro("added_by_source",
                     [](const WorldHandle& self) { return self.hold()->state().added_by_source; })
        .def(
            "set_start_time", [](WorldHandle& self, double time) { self.hold()->begin_at(time); },
            nb::arg("time"))
        .def(
            "restore_task",
            [](WorldHandle& self, std::int64_t task, const nb::dict& known) {
                const auto run = self.hold();
                run->adopt(task_of(run, task), known_from(known));
                if (known.contains("saved"))
                    run->set_saved_work(task_of(run, task), nb::cast<double>(known["saved"]));
            },
            nb::arg("task"), nb::arg("known"),
            nb::sig("def restore_task(self, task: int, known: dict[str, typing.Any]) -> None"))
        .def(
            "restore_execution",
            [](WorldHandle& self, std::int64_t task,
               const std::vector<std::pair<std::uint32_t, double>>& parts, const nb::dict& saved) {
                const auto run = self.hold();
                run->adopt_execution(task_of(run, task), parts_from(parts, run->scheduler()),
                                     execution_from(saved));
            },
            nb::arg("task"), nb::arg("parts"), nb::arg("saved"),
            nb::sig("def restore_execution(self, task: int, parts: collections.abc.Sequence[tuple["
                    "int, float]], saved: dict[str, typing.Any]) -> None"))
        .def(
            "restore_added",
            [](WorldHandle& self, nb::handle row, bool rejected, bool pending) {
                self.hold()->adopt_added(new_task_from(row), rejected, pending);
            },
            nb::arg("row"), nb::arg("rejected"), nb::arg("pending"),
            nb::sig("def restore_added(self, row: object, rejected: bool, pending: bool) -> None"))
        .def(
            "set_restored_at",
            [](WorldHandle& self, std::int64_t machine, double time) {
                const auto run = self.hold();
                run->set_restored_at(machine_of(run, machine), time);
            },
            nb::arg("machine"), nb::arg("time"))
        .def(
            "restore_instance",
            [](WorldHandle& self, nb::handle host, double cores, double memory) {
                const auto run = self.hold();
                const MachineId on =
                    host.is_none() ? no_machine : machine_of(run, nb::cast<std::int64_t>(host));
                return run->restore_instance(on, cores, memory);
            },
            nb::arg("host").none(), nb::arg("cores"), nb::arg("memory"),
            nb::sig("def restore_instance(self, host: int | None, cores: float, memory: float) -> "
                    "int"))
        .def(
            "restore_host",
            [](WorldHandle& self, std::int64_t instance, std::int64_t host) {
                const auto run = self.hold();
                run->restore_host(machine_of(run, instance), machine_of(run, host));
            },
            nb::arg("instance"), nb::arg("host"))
        .def(
            "restore_machine",
            [](WorldHandle& self, std::int64_t machine, const nb::dict& known) {
                const auto run = self.hold();
                run->restore_machine(machine_of(run, machine),
                                     machine_from(run->scheduler(), known));
            },
            nb::arg("machine"), nb::arg("known"),
            nb::sig("def restore_machine(self, machine: int, known: dict[str, typing.Any]) -> "
                    "None"))
        .def(
            "restore_stores",
            [](WorldHandle& self, const std::vector<World::StoreFiles>& files) {
                self.hold()->restore_stores(files);
            },
            nb::arg("files"))
        .def(
            "restore_submissions",
            [](WorldHandle& self, std::size_t added, const std::vector<double>& memory,
               nb::handle python) {
                const auto run = self.hold();
                Source* const source = run->state().submitter.source();
                if (source != nullptr && !python.is_none()) restore_source(*source, python);
                run->restore_submissions(added, memory);
            },
            nb::arg("added"), nb::arg("memory"), nb::arg("python").none(),
            nb::sig("def restore_submissions(self, added: int, memory: collections.abc.Sequence["
                    "float], python: dict[str, typing.Any] | None) -> None"))
        .def(
            "restore_decisions",
            [](WorldHandle& self, const nb::dict& known) {
                const auto run = self.hold();
                std::vector<TaskId> order;
                for (const std::int64_t task :
                     nb::cast<std::vector<std::int64_t>>(known["running"]))
                    order.push_back(task_of(run, task));
                if (order.size() != run->scheduler().running().size())
                    throw nb::value_error("the running tasks differ");
                run->scheduler().order_running(order);
                run->restore_decisions(decisions_from(known));
                restore_policy(run->controller(), known["policy"]);
            },
            nb::arg("known"),
            nb::sig("def restore_decisions(self, known: dict[str, typing.Any]) -> None"))
        .def(
            "saved_state", [](const WorldHandle& self) { return save_run(*self.hold()); },
            nb::sig("def saved_state(self) -> dict[str, typing.Any]"),
            "What a run needs to go on beside its outcomes: tasks, executions, machines, stores, "
            "added tasks, submissions, decisions.")
        .def(
            "restore_waiting_task",
            [](WorldHandle& self, std::int64_t task, double done) {
                const auto run = self.hold();
                run->adopt_waiting(task_of(run, task), done);
            },
            nb::arg("task"), nb::arg("done"))
        .def(
            "restore_held_task",
            [](WorldHandle& self, std::int64_t task) {
                const auto run = self.hold();
                run->adopt_held(task_of(run, task));
            },
            nb::arg("task"))
        .def(
            "restore_running_task",
            [](WorldHandle& self, std::int64_t task,
               const std::vector<std::pair<std::uint32_t, double>>& parts, double done) {
                const auto run = self.hold();
                run->adopt_running(task_of(run, task), parts_from(parts, run->scheduler()), done);
            },
            nb::arg("task"), nb::arg("parts"), nb::arg("done"));
    bind_clouds(bound);
    bind_stores(bound);
}

}  // namespace twinloop::bind
