#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "bind/arrays.hpp"
#include "bind/event.hpp"
#include "bind/in_use.hpp"
#include "bind/policies.hpp"
#include "model/kpis.hpp"
#include "model/run.hpp"
#include "model/series.hpp"

namespace twinloop::bind {
namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Copies a column of a dictionary into a vector.
template <class To, class From = To>
std::vector<To> column(const nb::dict& from, const char* key) {
    const auto values = nb::cast<Column<From>>(from[key]);
    std::vector<To> list(values.shape(0));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<To>(values.data()[i]);
    return list;
}

std::vector<double> reals(const nb::dict& from, const char* key) {
    return column<double>(from, key);
}

PowerModel power_from(const nb::dict& model) {
    static const std::map<std::string, PowerKind> kinds = {{"constant", PowerKind::constant},
                                                           {"linear", PowerKind::linear},
                                                           {"sqrt", PowerKind::sqrt},
                                                           {"square", PowerKind::square},
                                                           {"cubic", PowerKind::cubic},
                                                           {"mse", PowerKind::mse},
                                                           {"asymptotic", PowerKind::asymptotic},
                                                           {"table", PowerKind::table},
                                                           {"none", PowerKind::none}};
    PowerModel made;
    made.kind = kinds.at(nb::cast<std::string>(model["kind"]));
    made.idle = nb::cast<double>(model["idle"]);
    made.max = nb::cast<double>(model["max"]);
    made.parameter = nb::cast<double>(model["parameter"]);
    made.dvfs = nb::cast<bool>(model["dvfs"]);
    made.levels = nb::cast<std::vector<double>>(model["levels"]);
    made.watts = nb::cast<std::vector<double>>(model["watts"]);
    return made;
}

ContentionRule contention_from(const nb::dict& rule) {
    static const std::map<std::string, ContentionRule::Kind> kinds = {
        {"none", ContentionRule::Kind::none},
        {"linear", ContentionRule::Kind::linear},
        {"table", ContentionRule::Kind::table},
        {"kinds", ContentionRule::Kind::kinds}};
    ContentionRule made;
    made.kind = kinds.at(nb::cast<std::string>(rule["kind"]));
    made.slope = nb::cast<double>(rule["slope"]);
    made.loads = nb::cast<std::vector<double>>(rule["loads"]);
    made.inflations = nb::cast<std::vector<double>>(rule["inflations"]);
    made.pressures = nb::cast<std::vector<double>>(rule["pressures"]);
    made.sensitivities = nb::cast<std::vector<double>>(rule["sensitivities"]);
    made.within_core = nb::cast<bool>(rule["within_core"]);
    return made;
}

FurtherValue further_from(nb::handle given) {
    using What = FurtherValue::What;
    static const std::map<std::string, What> known = {{"service_factor", What::service_factor},
                                                      {"slope", What::slope},
                                                      {"inflation", What::inflation},
                                                      {"pressure", What::pressure},
                                                      {"sensitivity", What::sensitivity},
                                                      {"idle", What::idle},
                                                      {"max", What::max},
                                                      {"parameter", What::parameter}};
    return {known.at(nb::cast<std::string>(given[0])), nb::cast<std::size_t>(given[1])};
}

Interrupted interrupted_from(nb::handle text) {
    static const std::map<std::string, Interrupted> kinds = {{"restart", Interrupted::restart},
                                                             {"resume", Interrupted::resume},
                                                             {"lost", Interrupted::lost}};
    return kinds.at(nb::cast<std::string>(text));
}

void read_machines(Problem& all, const nb::dict& from) {
    const auto cores = reals(from, "cores");
    const auto memory = reals(from, "memory");
    const auto speed = reals(from, "speed");
    const auto mhz = reals(from, "mhz");
    for (std::size_t i = 0; i < cores.size(); ++i)
        all.machines.push_back({cores[i], memory[i], speed[i], mhz[i]});
    all.power_of = column<std::uint32_t, std::int64_t>(from, "power");
    for (const nb::handle each : nb::cast<nb::list>(from["powers"]))
        all.powers.push_back(power_from(nb::cast<nb::dict>(each)));
    all.resources = nb::cast<std::size_t>(from["resources"]);
    all.machine_amounts = reals(from, "amounts");
    for (const nb::handle each : nb::cast<nb::list>(from["windows"])) {
        const auto given = nb::cast<nb::dict>(each);
        Window window;
        window.start = nb::cast<double>(given["start"]);
        window.end = nb::cast<double>(given["end"]);
        window.machines = column<std::uint8_t>(given, "machines");
        window.users = nb::cast<std::vector<std::int32_t>>(given["users"]);
        window.queues = nb::cast<std::vector<std::int32_t>>(given["queues"]);
        all.windows.push_back(std::move(window));
    }
    for (const nb::handle each : nb::cast<nb::list>(from["queues"])) {
        const auto given = nb::cast<nb::dict>(each);
        QueueRule queue;
        queue.machines = column<std::uint8_t>(given, "machines");
        queue.max_running = nb::cast<std::uint32_t>(given["max_running"]);
        queue.max_running_per_user = nb::cast<std::uint32_t>(given["max_running_per_user"]);
        all.queues.push_back(std::move(queue));
    }
}

void read_tasks(Problem& all, const nb::dict& from) {
    const auto submit = reals(from, "submit");
    const auto cores = reals(from, "cores");
    const auto memory = reals(from, "memory");
    const auto time = reals(from, "requested_time");
    const auto priority = reals(from, "priority");
    const auto mhz = reals(from, "mhz");
    const auto nodes = column<std::int32_t, std::int64_t>(from, "nodes");
    const auto user = column<std::int32_t>(from, "user");
    const auto group = column<std::int32_t>(from, "group");
    const auto queue = column<std::int32_t>(from, "queue");
    all.requests.reserve(submit.size());
    for (std::size_t i = 0; i < submit.size(); ++i)
        all.requests.push_back({cores[i], memory[i], time[i], submit[i], priority[i], mhz[i],
                                nodes[i], user[i], group[i], queue[i]});
    all.amounts = reals(from, "amounts");
    all.work = reals(from, "work");
    all.limit = reals(from, "limit");
    all.speed = reals(from, "speed");
    all.deadline = reals(from, "deadline");
    all.kind = column<std::uint16_t, std::int32_t>(from, "kind");
    all.rejected = column<std::uint8_t>(from, "rejected");
    all.fragment_offsets = column<std::uint32_t, std::int64_t>(from, "fragment_offsets");
    all.fragment_duration = reals(from, "fragment_duration");
    all.fragment_rate = reals(from, "fragment_rate");
    all.parents = column<std::uint32_t, std::int64_t>(from, "parents");
    all.child_offsets = column<std::uint32_t, std::int64_t>(from, "child_offsets");
    all.children = column<TaskId, std::int64_t>(from, "children");
}

void read_options(Problem& all, const nb::dict& from) {
    all.contention = std::make_shared<const ContentionRule>(
        contention_from(nb::cast<nb::dict>(from["contention"])));
    all.service_factors = nb::cast<std::vector<double>>(from["service_factors"]);
    for (const nb::handle each : nb::cast<nb::list>(from["further"]))
        all.further.push_back(further_from(each));
    all.fixed_demand = nb::cast<bool>(from["fixed_demand"]);
    all.no_delay = nb::cast<bool>(from["no_delay"]);
    all.kill = nb::cast<bool>(from["kill"]);
    all.after_failure = interrupted_from(from["after_failure"]);
    all.after_preemption = interrupted_from(from["after_preemption"]);
    all.checkpoint_interval = nb::cast<double>(from["checkpoint_interval"]);
    all.checkpoint_cost = nb::cast<double>(from["checkpoint_cost"]);
}

void set_sessions(ProblemHandle& self, const nb::dict& from) {
    SessionColumns& all = self.problem->sessions;
    all.job_offsets = column<std::uint32_t, std::int64_t>(from, "job_offsets");
    all.jobs = column<TaskId, std::int64_t>(from, "jobs");
    all.delays = reals(from, "delays");
    all.successor_offsets = column<std::uint32_t, std::int64_t>(from, "successor_offsets");
    all.successors = column<std::uint32_t, std::int64_t>(from, "successors");
    all.think_times = reals(from, "think_times");
    all.dependencies = column<std::uint32_t, std::int64_t>(from, "dependencies");
    all.starts = reals(from, "starts");
}

// Runs in progress keep their failures until `extend_failures`.
void set_outages(ProblemHandle& self, const Column<std::int64_t>& machines,
                 const Column<double>& starts, const Column<double>& ends, double until) {
    auto downs = std::make_shared<Downs>();
    downs->until = until;
    for (std::size_t i = 0; i < machines.shape(0); ++i)
        downs->list.push_back(
            {static_cast<MachineId>(machines.data()[i]), starts.data()[i], ends.data()[i]});
    std::ranges::stable_sort(downs->list, {}, &Down::start);
    self.problem->downs = std::move(downs);
}

// Mask of the tasks that the policy cannot place even if all machines are free.
nb::object find_impossible(const ProblemHandle& self, nb::handle policy, double capacity) {
    const Problem& all = *self.problem;
    const std::unique_ptr<Policy> judge = policy_from(policy, self.names, nullptr, 0);
    Desk desk = all.make_desk(judge.get(), capacity,
                              [&](TaskId task) { return all.requested_or_length(task); });
    attach(*judge, desk, nullptr);
    std::vector<std::uint8_t> mask(all.size(), 0);
    for (TaskId task = 0; task < all.size(); ++task)
        mask[task] = judge->possible(desk, task) ? 0 : 1;
    return as_array(std::move(mask));
}

Values values_from(const Problem& all, const Column<double>& values) {
    if (!all.takes(values.shape(0)))
        throw nb::value_error(
            "the number of values does not match the model values of the scenario");
    return all.values({values.data(), values.shape(0)});
}

// A run that can be accessed only through `hold`, which guards against concurrent use.
class RunHandle {
  public:
    RunHandle(std::unique_ptr<Run> run, nb::object names, std::shared_ptr<InUse> guard)
        : run_(std::move(run)), names_(std::move(names)), guard_(std::move(guard)) {}

    [[nodiscard]] Held<Run> hold() const { return {*run_, guard_}; }
    [[nodiscard]] View view() const { return {&hold()->desk(), names_, guard_}; }
    [[nodiscard]] RunHandle copy() const {
        return {std::make_unique<Run>(*hold()), names_, make_guard()};
    }
    static std::shared_ptr<InUse> make_guard() { return std::make_shared<InUse>("a simulation"); }

  private:
    std::unique_ptr<Run> run_;
    nb::object names_;
    std::shared_ptr<InUse> guard_;
};

void poll() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Runs until the end, until failures beyond the known horizon are needed, or for about 100 ms, so
// that Ctrl-C is handled.
bool run_slice(RunHandle& self) {
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

nb::dict outcomes(const RunHandle& self) {
    const auto run = self.hold();
    const auto all = run->outcomes();
    std::vector<double> submit(all.size()), ready(all.size()), start(all.size()),
        last_start(all.size()), end(all.size()), done(all.size()), used(all.size()),
        energy(all.size());
    std::vector<std::int64_t> attempts(all.size());
    std::vector<std::uint8_t> status(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        submit[i] = all[i].submit;
        ready[i] = all[i].ready;
        start[i] = all[i].start;
        last_start[i] = all[i].last_start;
        end[i] = all[i].end;
        done[i] = all[i].done;
        used[i] = all[i].used;
        energy[i] = run->energy_of(static_cast<TaskId>(i));
        attempts[i] = all[i].attempts;
        status[i] = static_cast<std::uint8_t>(all[i].status);
    }
    nb::dict columns;
    columns["submit"] = as_array(std::move(submit));
    columns["ready"] = as_array(std::move(ready));
    columns["start"] = as_array(std::move(start));
    columns["last_start"] = as_array(std::move(last_start));
    columns["end"] = as_array(std::move(end));
    columns["done"] = as_array(std::move(done));
    columns["used"] = as_array(std::move(used));
    columns["energy"] = as_array(std::move(energy));
    columns["attempts"] = as_array(std::move(attempts));
    columns["status"] = as_array(std::move(status));
    return columns;
}

nb::dict placements(const RunHandle& self) {
    const auto run = self.hold();
    const PlacementLog& log = run->placements();
    nb::dict columns;
    columns["task"] = as_array(log.task);
    columns["attempt"] = as_array(log.attempt);
    columns["machine"] = as_array(log.machine);
    columns["count"] = as_array(log.count);
    columns["cores"] = as_array(log.cores);
    columns["start"] = as_array(log.start);
    columns["end"] = as_array(log.end);
    columns["reason"] = as_array(log.reason);
    return columns;
}

nb::dict use(const RunHandle& self) {
    const auto run = self.hold();
    const UseLog& log = run->use();
    nb::dict columns;
    columns["machine"] = as_array(log.machine);
    columns["t"] = as_array(log.t);
    columns["used"] = as_array(log.used);
    return columns;
}

nb::dict decisions(const RunHandle& self) {
    const auto run = self.hold();
    const DecisionLog& log = run->decisions();
    nb::dict columns;
    columns["t"] = as_array(log.t);
    columns["kind"] = as_array(log.kind);
    columns["task"] = as_array(log.task);
    columns["machine"] = as_array(log.machine);
    return columns;
}

nb::dict states(const RunHandle& self) {
    const auto run = self.hold();
    const StateLog& log = run->states();
    nb::dict columns;
    columns["machine"] = as_array(log.machine);
    columns["start"] = as_array(log.start);
    columns["end"] = as_array(log.end);
    columns["kind"] = as_array(log.kind);
    return columns;
}

nb::dict usage(const RunHandle& self) {
    std::vector<std::uint32_t> task, machine;
    std::vector<double> t, dt, cpu;
    const auto run = self.hold();
    if (run->usage())
        run->usage()->for_each(
            [&](const UsageLog::Row& row, double end, double length, double used) {
                task.push_back(row.task);
                machine.push_back(row.machine);
                t.push_back(end);
                dt.push_back(length);
                cpu.push_back(used);
            });
    nb::dict columns;
    columns["task"] = as_array(std::move(task));
    columns["machine"] = as_array(std::move(machine));
    columns["t"] = as_array(std::move(t));
    columns["dt"] = as_array(std::move(dt));
    columns["cpu"] = as_array(std::move(cpu));
    return columns;
}

nb::dict kpi_dict(const RunHandle& self) {
    const auto values = kpis(*self.hold());
    nb::dict figures;
    for (std::size_t i = 0; i < values.size(); ++i)
        figures[nb::str(kpi_names[i].data(), kpi_names[i].size())] = values[i];
    return figures;
}

std::vector<Part> parts_from(const std::vector<std::pair<std::uint32_t, double>>& given,
                             const Desk& desk) {
    std::vector<Part> parts;
    parts.reserve(given.size());
    for (const auto& [machine, cores] : given)
        parts.push_back({machine_at(desk, machine), 1, cores});
    return parts;
}

MachineId machine_of(const Held<Run>& run, std::int64_t machine) {
    return machine_at(run->desk(), machine);
}

TaskId task_of(const Held<Run>& run, std::int64_t task) { return task_at(run->desk(), task); }

void bind_run(nb::module_& module) {
    nb::class_<RunHandle>(module, "ClusterRun", nb::is_final(),
                          "One run of a compiled scenario; see `twinloop.engine.Simulation`.")
        .def(
            "__init__",
            [](RunHandle* self, const ProblemHandle& problem, nb::handle policy,
               const Column<double>& values, bool placements, bool use, bool decisions,
               double usage_step, double usage_rows, std::uint64_t seed) {
                auto made = policy_from(policy, problem.names, nullptr, seed);
                Policy& kept = *made;
                auto run = std::make_unique<Run>(
                    problem.problem, problem.problem->downs, values_from(*problem.problem, values),
                    std::move(made),
                    Recording{placements, use, decisions, false, usage_step, usage_rows});
                auto guard = RunHandle::make_guard();
                attach(kept, run->desk(), guard);
                new (self) RunHandle(std::move(run), problem.names, std::move(guard));
            },
            nb::arg("scenario"), nb::arg("policy"), nb::arg("values"), nb::kw_only(),
            nb::arg("placements") = false, nb::arg("use") = false, nb::arg("decisions") = false,
            nb::arg("usage_step") = never, nb::arg("usage_rows") = never, nb::arg("seed") = 0)
        .def_prop_ro("now", [](const RunHandle& self) { return self.hold()->now(); })
        .def_prop_ro("start_time", [](const RunHandle& self) { return self.hold()->begin(); })
        .def_prop_ro("events", [](const RunHandle& self) { return self.hold()->events(); })
        .def_prop_ro("has_python_policy",
                     [](const RunHandle& self) { return self.hold()->foreign(); })
        .def_prop_ro("shared", [](const RunHandle& self) { return self.hold()->shared(); })
        .def("next_time", [](RunHandle& self) { return self.hold()->next_time(); })
        .def("step", [](RunHandle& self) { return self.hold()->step(); })
        .def(
            "run_until", [](RunHandle& self, double time) { self.hold()->run_until(time); },
            nb::arg("time"))
        .def("run_slice", &run_slice)
        .def_prop_ro("is_usage_full",
                     [](const RunHandle& self) {
                         const auto run = self.hold();
                         return run->usage() && run->usage()->full();
                     })
        .def_prop_ro("needs_failures", [](const RunHandle& self) { return self.hold()->outran(); })
        .def(
            "extend_failures",
            [](RunHandle& self, const ProblemHandle& problem) {
                self.hold()->extend(problem.problem->downs);
            },
            nb::arg("scenario"))
        .def("copy", &RunHandle::copy)
        .def("view", &RunHandle::view, nb::keep_alive<0, 1>())
        .def("outcomes", &outcomes,
             nb::sig("def outcomes(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("placements", &placements,
             nb::sig("def placements(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("use", &use, nb::sig("def use(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("decisions", &decisions,
             nb::sig("def decisions(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("states", &states,
             nb::sig("def states(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("usage", &usage,
             nb::sig("def usage(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("kpis", &kpi_dict, nb::sig("def kpis(self) -> dict[str, float]"))
        .def(
            "energy",
            [](const RunHandle& self) {
                const auto run = self.hold();
                std::vector<double> joules;
                joules.reserve(run->problem().machines.size());
                for (MachineId m = 0; m < run->problem().machines.size(); ++m)
                    joules.push_back(run->energy(m));
                return as_array(std::move(joules));
            },
            nb::sig("def energy(self) -> numpy.typing.NDArray[numpy.float64]"))
        .def(
            "power",
            [](const RunHandle& self, double step, bool machines) {
                return as_array(power_series(*self.hold(), step, machines));
            },
            nb::arg("step"), nb::arg("machines"),
            nb::sig("def power(self, step: float, machines: bool) -> "
                    "numpy.typing.NDArray[numpy.float64]"))
        .def(
            "windows",
            [](const RunHandle& self, double step) { return window_count(*self.hold(), step); },
            nb::arg("step"))
        .def(
            "loads",
            [](const RunHandle& self, double step) { return LoadProfile(*self.hold(), step); },
            nb::arg("step"))
        .def(
            "progress",
            [](const RunHandle& self, std::int64_t task) {
                const auto run = self.hold();
                return run->progress(task_of(run, task));
            },
            nb::arg("task"))
        .def(
            "is_down",
            [](const RunHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                return run->is_down(machine_of(run, machine));
            },
            nb::arg("machine"))
        .def(
            "fail",
            [](RunHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                run->fail(machine_of(run, machine));
            },
            nb::arg("machine"))
        .def(
            "restore",
            [](RunHandle& self, std::int64_t machine) {
                const auto run = self.hold();
                run->restore(machine_of(run, machine));
            },
            nb::arg("machine"))
        .def(
            "set_cores",
            [](RunHandle& self, std::int64_t machine, double cores) {
                const auto run = self.hold();
                run->set_cores(machine_of(run, machine), cores);
            },
            nb::arg("machine"), nb::arg("cores"))
        .def(
            "submit",
            [](RunHandle& self, double submit, double cores, double memory, double time,
               double work, double limit, std::int32_t nodes, std::int32_t user, std::int32_t group,
               std::int32_t queue, double priority, std::uint16_t kind,
               const std::vector<double>& amounts) {
                const Request request{cores, memory, time, submit, priority,
                                      0.0,   nodes,  user, group,  queue};
                return self.hold()->inject(request, amounts, work, limit, kind);
            },
            nb::arg("submit"), nb::arg("cores"), nb::arg("memory"), nb::arg("time"),
            nb::arg("work"), nb::arg("limit"), nb::arg("nodes"), nb::arg("user"), nb::arg("group"),
            nb::arg("queue"), nb::arg("priority"), nb::arg("kind"), nb::arg("amounts"))
        .def(
            "set_start_time", [](RunHandle& self, double time) { self.hold()->begin_at(time); },
            nb::arg("time"))
        .def(
            "restore_task",
            [](RunHandle& self, std::int64_t task, std::uint8_t status, double submit, double ready,
               double start, double last_start, double end, std::uint32_t attempts) {
                Outcome known{submit, ready, start, last_start, end};
                known.attempts = attempts;
                known.status = static_cast<Status>(status);
                const auto run = self.hold();
                run->adopt(task_of(run, task), known);
            },
            nb::arg("task"), nb::arg("status"), nb::arg("submit"), nb::arg("ready"),
            nb::arg("start"), nb::arg("last_start"), nb::arg("end"), nb::arg("attempts"))
        .def(
            "restore_waiting_task",
            [](RunHandle& self, std::int64_t task, double done) {
                const auto run = self.hold();
                run->adopt_waiting(task_of(run, task), done);
            },
            nb::arg("task"), nb::arg("done"))
        .def(
            "restore_held_task",
            [](RunHandle& self, std::int64_t task) {
                const auto run = self.hold();
                run->adopt_held(task_of(run, task));
            },
            nb::arg("task"))
        .def(
            "restore_running_task",
            [](RunHandle& self, std::int64_t task,
               const std::vector<std::pair<std::uint32_t, double>>& parts, double done) {
                const auto run = self.hold();
                run->adopt_running(task_of(run, task), parts_from(parts, run->desk()), done);
            },
            nb::arg("task"), nb::arg("parts"), nb::arg("done"));
}

constexpr const char* decision_names[] = {"place", "preempt", "kill", "open", "close", "reserve"};

// A policy and its scheduler state without a simulator, for real executions.
struct Dispatching {
    std::unique_ptr<Policy> policy;
    Desk desk;

    void go_to(double now) {
        if (!(now >= desk.now()))
            throw nb::value_error("`now` is earlier than in the previous call");
        desk.set_now(now);
    }
    [[nodiscard]] TaskId task(std::int64_t task, Phase phase, const char* otherwise) const {
        const TaskId found = task_at(desk, task);
        if (desk.phase(found) != phase)
            throw nb::value_error(("task " + std::to_string(task) + " " + otherwise).c_str());
        return found;
    }
};

struct DispatcherHandle {
    mutable Dispatching dispatching;
    nb::object names;
    std::shared_ptr<InUse> guard = std::make_shared<InUse>("a dispatcher");

    [[nodiscard]] Held<Dispatching> hold() const { return {dispatching, guard}; }
};

void bind_dispatcher(nb::module_& module) {
    nb::class_<DispatcherHandle>(
        module, "Dispatcher", nb::is_final(),
        "A policy and its scheduler state without a simulation, for real executions: the caller "
        "reports events, `decide` returns decisions.")
        .def(
            "__init__",
            [](DispatcherHandle* self, const ProblemHandle& problem, nb::handle policy,
               std::uint64_t seed) {
                const Problem& all = *problem.problem;
                auto decider = policy_from(policy, problem.names, nullptr, seed);
                Desk desk = all.make_desk(
                    decider.get(), 1.0, [&](TaskId task) { return all.requested_or_length(task); });
                new (self) DispatcherHandle{{std::move(decider), std::move(desk)}, problem.names};
                attach(*self->dispatching.policy, self->dispatching.desk, self->guard);
            },
            nb::arg("scenario"), nb::arg("policy"), nb::arg("seed") = 0)
        .def_prop_ro(
            "view",
            [](DispatcherHandle& self) { return View{&self.hold()->desk, self.names, self.guard}; },
            nb::keep_alive<0, 1>(), "The view of the policy.")
        .def(
            "submit",
            [](DispatcherHandle& self, std::int64_t task, double now, nb::handle submitted) {
                const auto held = self.hold();
                held->go_to(now);
                const TaskId found = held->task(task, Phase::absent, "has already been submitted");
                if (!submitted.is_none()) {
                    const auto since = nb::cast<double>(submitted);
                    if (!(since <= now))
                        throw nb::value_error("`submitted` must be a time up to `now`");
                    held->desk.set_submit_time(found, since);
                }
                held->desk.submit(found);
            },
            nb::arg("task"), nb::arg("now"), nb::arg("submitted") = nb::none(),
            nb::sig("def submit(self, task: int, now: float, submitted: float | None = None) -> "
                    "None"),
            "Add a task to the queue; `submitted` is its submission time if earlier than `now`.")
        .def(
            "end",
            [](DispatcherHandle& self, std::int64_t task, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->desk.end(held->task(task, Phase::running, "has no machine"));
            },
            nb::arg("task"), nb::arg("now"),
            "Record the end of a task, which releases its machines.")
        .def(
            "reject_placement",
            [](DispatcherHandle& self, std::int64_t task, double now, const std::string& why) {
                const auto held = self.hold();
                held->go_to(now);
                const TaskId placed = held->task(task, Phase::running, "has no machine");
                const std::span<const Part> had = held->desk.parts(placed);
                const std::vector<Part> parts(had.begin(), had.end());
                held->desk.end(placed);
                held->desk.submit(placed);
                held->policy->refused(held->desk, placed, parts, why.c_str());
            },
            nb::arg("task"), nb::arg("now"), nb::arg("why") = "",
            "Return a placed task to the queue because it could not be started; the policy "
            "receives "
            "the reason.")
        .def(
            "withdraw",
            [](DispatcherHandle& self, std::int64_t task, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->desk.withdraw(held->task(task, Phase::waiting, "does not wait"));
            },
            nb::arg("task"), nb::arg("now"), "Remove a waiting task from the queue.")
        .def(
            "set_open",
            [](DispatcherHandle& self, std::int64_t machine, bool open, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->desk.set_open(machine_at(held->desk, machine), open);
            },
            nb::arg("machine"), nb::arg("open"), nb::arg("now"),
            "Set whether tasks may be placed on the machine.")
        .def_prop_ro(
            "wake_time", [](const DispatcherHandle& self) { return self.hold()->desk.wake_time(); },
            "The time of the next requested decision (s); infinite if none is requested.")
        .def(
            "decide",
            [](DispatcherHandle& self, double now) {
                const auto held = self.hold();
                held->go_to(now);
                nb::list made;
                if (!held->desk.must_decide()) {
                    if (held->desk.wake_time() <= now) held->desk.clear_wake();
                    return made;
                }
                for (const Desk::Decision& decision : held->desk.decide()) {
                    nb::list where;
                    if (decision.kind == Desk::Decision::Kind::place)
                        for (const Part& part : held->desk.parts(decision.task))
                            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                                where.append(nb::make_tuple(m, part.cores));
                    if (decision.machine != no_machine)
                        where.append(nb::make_tuple(decision.machine, 0.0));
                    const nb::object task =
                        decision.task == no_task ? nb::none() : nb::object(nb::int_(decision.task));
                    made.append(nb::make_tuple(
                        decision_names[static_cast<std::size_t>(decision.kind)], task, where));
                }
                return made;
            },
            nb::arg("now"),
            nb::sig("def decide(self, now: float) -> list[tuple[str, int | None, list[tuple[int, "
                    "float]]]]"),
            "Return the decisions of the policy: (kind, task, machines and cores) for each.");
}

// The submission source without a simulator, for real executions.
struct SourceHandle {
    std::shared_ptr<Problem> problem;
    Source source;
};

void bind_source(nb::module_& module) {
    nb::class_<SourceHandle>(module, "NativeSource", nb::is_final(),
                             "The submission source of a compiled scenario without a simulation: "
                             "rigid submission times, or users with sessions.")
        .def(
            "__init__",
            [](SourceHandle* self, const ProblemHandle& problem) {
                new (self) SourceHandle{problem.problem, Source(*problem.problem)};
            },
            nb::arg("scenario"))
        .def_prop_ro(
            "next_time", [](const SourceHandle& self) { return self.source.next_time(); },
            "The time of the next submission (s); infinite if it depends on a task that runs.")
        .def(
            "pop_due",
            [](SourceHandle& self, double now) {
                std::vector<TaskId> tasks;
                self.source.submit_due(*self.problem, now,
                                       [&](TaskId task) { tasks.push_back(task); });
                return tasks;
            },
            nb::arg("now"), "Return the tasks submitted up to `now`, in the order of the log.")
        .def(
            "record_end",
            [](SourceHandle& self, TaskId task, double now) {
                if (task >= self.problem->size())
                    throw nb::index_error(("there is no task " + std::to_string(task)).c_str());
                self.source.ended(*self.problem, task, now);
            },
            nb::arg("task"), nb::arg("now"), "Record the end of a task, with any status.");
}

}  // namespace

void bind_cluster(nb::module_& module) {
    nb::class_<ProblemHandle>(
        module, "NativeScenario", nb::is_final(),
        "A scenario as native columns; see `twinloop.engine.CompiledScenario`.")
        .def(
            "__init__",
            [](ProblemHandle* self, const nb::dict& machines, const nb::dict& tasks,
               const nb::dict& options, nb::object names) {
                auto problem = std::make_shared<Problem>();
                read_machines(*problem, machines);
                read_tasks(*problem, tasks);
                read_options(*problem, options);
                problem->complete();
                new (self) ProblemHandle{std::move(problem), std::move(names)};
            },
            nb::arg("machines"), nb::arg("tasks"), nb::arg("options"), nb::arg("names"),
            nb::sig("def __init__(self, machines: dict[str, typing.Any], tasks: dict[str, "
                    "typing.Any], options: dict[str, typing.Any], names: object) -> None"))
        .def("set_sessions", &set_sessions, nb::arg("sessions"),
             nb::sig("def set_sessions(self, sessions: dict[str, typing.Any]) -> None"))
        .def("set_outages", &set_outages, nb::arg("machine"), nb::arg("start"), nb::arg("end"),
             nb::arg("until"))
        .def(
            "set_rejected",
            [](ProblemHandle& self, const Column<std::uint8_t>& mask) {
                self.problem->rejected.assign(mask.data(), mask.data() + mask.shape(0));
            },
            nb::arg("mask"))
        .def("find_impossible", &find_impossible, nb::arg("policy"), nb::arg("capacity") = 1.0,
             nb::sig("def find_impossible(self, policy: object, capacity: float = 1.0) -> "
                     "numpy.typing.NDArray[numpy.uint8]"));
    bind_run(module);
    bind_dispatcher(module);
    bind_source(module);
}

}  // namespace twinloop::bind
