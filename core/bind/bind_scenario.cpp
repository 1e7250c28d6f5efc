// Compiled scenarios: columns of Python in, native rows out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/event.hpp"
#include "bind/input_columns.hpp"
#include "bind/policies.hpp"
#include "bind/store_requests.hpp"

namespace twinloop::bind {
namespace {

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

ValueColumns columns_from(const nb::list& given) {
    ValueColumns made;
    for (const nb::handle each : given)
        made.add(nb::cast<std::string>(each[0]), nb::cast<std::size_t>(each[1]),
                 nb::cast<std::size_t>(each[2]));
    return made;
}

Interrupted interrupted_from(nb::handle text) {
    static const std::map<std::string, Interrupted> kinds = {{"restart", Interrupted::restart},
                                                             {"resume", Interrupted::resume},
                                                             {"lost", Interrupted::lost}};
    return kinds.at(nb::cast<std::string>(text));
}

std::shared_ptr<const PowerModel> state_power(const nb::dict& from) {
    const nb::object power = from["power"];
    if (power.is_none()) return nullptr;
    return std::make_shared<PowerModel>(power_from(nb::cast<nb::dict>(power)));
}

// The tables of states, in the order of the groups of hosts; the first table is the common one.
StateTables states_from(const nb::dict& from, std::vector<std::uint16_t> of_machine) {
    StateTables states;
    states.names = nb::cast<std::vector<std::string>>(from["state_names"]);
    states.of_machine = std::move(of_machine);
    states.tables.clear();
    for (const nb::handle each : nb::cast<nb::list>(from["state_tables"])) {
        const auto given = nb::cast<nb::dict>(each);
        StateTable& table = states.tables.emplace_back();
        for (const nb::handle one : nb::cast<nb::list>(given["states"])) {
            const auto state = nb::cast<nb::dict>(one);
            table.add_state(nb::cast<StateId>(state["id"]), state_power(state),
                            nb::cast<bool>(state["keeps_tasks"]));
        }
        for (const nb::handle one : nb::cast<nb::list>(given["transitions"])) {
            const auto state = nb::cast<nb::dict>(one);
            std::vector<StatePhase> phases;
            for (const auto& [seconds, utilisation] :
                 nb::cast<std::vector<std::pair<double, double>>>(state["phases"]))
                phases.push_back({seconds, utilisation});
            table.add_transition(nb::cast<StateId>(state["id"]), nb::cast<StateId>(state["from"]),
                                 nb::cast<StateId>(state["to"]), state_power(state),
                                 std::move(phases));
        }
    }
    return states;
}

void read_machines(Scenario& all, const nb::dict& from) {
    const auto cores = reals(from, "cores");
    const auto memory = reals(from, "memory");
    const auto speed = reals(from, "speed");
    const auto mhz = reals(from, "mhz");
    for (std::size_t i = 0; i < cores.size(); ++i)
        all.machines.push_back({cores[i], memory[i], speed[i], mhz[i]});
    all.groups = column<std::uint32_t, std::int64_t>(from, "group");
    std::vector<std::shared_ptr<const PowerModel>> models;
    for (const nb::handle each : nb::cast<nb::list>(from["powers"]))
        models.push_back(std::make_shared<PowerModel>(power_from(nb::cast<nb::dict>(each))));
    if (!models.empty())
        for (const std::uint32_t group : all.groups) all.powers.push_back(models[group]);
    if (nb::len(nb::object(from["state_tables"])) > 0)
        all.states = std::make_shared<const StateTables>(
            states_from(from, column<std::uint16_t, std::int64_t>(from, "state_table")));
    all.tasks = std::make_shared<TaskTable>(nb::cast<std::size_t>(from["resources"]));
    all.machine_amounts = reals(from, "amounts");
    for (const nb::handle each : nb::cast<nb::list>(from["windows"])) {
        const auto given = nb::cast<nb::dict>(each);
        AccessWindow window;
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

void read_tasks(Scenario& all, const nb::dict& from) {
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
    const auto amounts = reals(from, "amounts");
    const auto work = reals(from, "work");
    const auto limit = reals(from, "limit");
    const auto speed = reals(from, "speed");
    const auto deadline = reals(from, "deadline");
    const auto kind = column<std::uint16_t, std::int32_t>(from, "kind");
    const auto rejected = column<std::uint8_t>(from, "rejected");
    const auto parents = column<std::uint32_t, std::int64_t>(from, "parents");
    const auto fragment_offsets = column<std::size_t, std::int64_t>(from, "fragment_offsets");
    // The largest columns are read in place.
    const auto durations = nb::cast<Column<double>>(from["fragment_duration"]);
    const auto rates = nb::cast<Column<double>>(from["fragment_rate"]);
    const auto child_offsets = column<std::size_t, std::int64_t>(from, "child_offsets");
    const auto children = column<TaskId, std::int64_t>(from, "children");
    TaskTable& table = *all.tasks;
    table.reserve(submit.size(), durations.shape(0));
    std::vector<Fragment> fragments;
    for (std::size_t i = 0; i < submit.size(); ++i) {
        Task task;
        task.request = {cores[i], memory[i], time[i], submit[i], priority[i],
                        mhz[i],   nodes[i],  user[i], group[i],  queue[i]};
        task.work = work[i];
        task.limit = limit[i];
        task.speed = speed[i];
        task.deadline = deadline[i];
        task.kind = kind[i];
        task.parents = parents[i];
        task.rejected = rejected[i] != 0;
        fragments.clear();
        for (std::size_t f = fragment_offsets[i]; f < fragment_offsets[i + 1]; ++f)
            fragments.push_back({durations.data()[f], rates.data()[f]});
        table.add(
            task, std::span(amounts).subspan(i * table.resources(), table.resources()), fragments,
            std::span(children).subspan(child_offsets[i], child_offsets[i + 1] - child_offsets[i]));
    }
}

// The speed-up laws, of some tasks; a scenario without laws has no such columns.
void read_laws(Scenario& all, const nb::dict& from) {
    if (!from.contains("law_task")) return;
    const auto tasks = column<TaskId, std::int64_t>(from, "law_task");
    const auto fractions = reals(from, "law_parallel_fraction");
    const auto fewest = reals(from, "law_min_cores");
    const auto most = reals(from, "law_max_cores");
    const auto offsets = column<std::size_t, std::int64_t>(from, "law_offsets");
    const auto cores = reals(from, "law_cores");
    const auto speedups = reals(from, "law_speedups");
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        SpeedupLaw law{fractions[i], {}, fewest[i], most[i]};
        for (std::size_t p = offsets[i]; p < offsets[i + 1]; ++p)
            law.points.emplace_back(cores[p], speedups[p]);
        all.tasks->set_law(tasks[i], std::move(law));
    }
}

void read_options(Scenario& all, const nb::dict& from) {
    all.contention = std::make_shared<const ContentionRule>(
        contention_from(nb::cast<nb::dict>(from["contention"])));
    all.service_factors = nb::cast<std::vector<double>>(from["service_factors"]);
    all.columns = columns_from(nb::cast<nb::list>(from["columns"]));
    all.options.fixed_demand = nb::cast<bool>(from["fixed_demand"]);
    all.options.no_delay = nb::cast<bool>(from["no_delay"]);
    all.options.kill = nb::cast<bool>(from["kill"]);
    all.options.managed = nb::cast<bool>(from["managed"]);
    all.options.after_failure = interrupted_from(from["after_failure"]);
    all.options.after_preemption = interrupted_from(from["after_preemption"]);
    all.options.checkpoint_interval = nb::cast<double>(from["checkpoint_interval"]);
    all.options.checkpoint_cost = nb::cast<double>(from["checkpoint_cost"]);
    all.options.max_failures = nb::cast<std::uint32_t>(from["max_attempts"]);
    all.options.decide_events = nb::cast<bool>(from["decide_events"]);
    all.options.instant_order = nb::cast<std::array<std::uint8_t, 3>>(from["instant_order"]);
}

void set_sessions(ScenarioHandle& self, const nb::dict& from) {
    SessionColumns all;
    all.job_offsets = column<std::uint32_t, std::int64_t>(from, "job_offsets");
    all.jobs = column<TaskId, std::int64_t>(from, "jobs");
    all.delays = reals(from, "delays");
    all.successor_offsets = column<std::uint32_t, std::int64_t>(from, "successor_offsets");
    all.successors = column<std::uint32_t, std::int64_t>(from, "successors");
    all.think_times = reals(from, "think_times");
    all.dependencies = column<std::uint32_t, std::int64_t>(from, "dependencies");
    all.starts = reals(from, "starts");
    self.scenario->submissions =
        std::make_shared<const Submissions>(*self.scenario->tasks, std::move(all));
}

// The network, its stores, and the files that tasks read from them and write to them.
void set_network(ScenarioHandle& self, const nb::dict& from) {
    auto files = std::make_shared<FileTable>();
    const auto sizes = reals(from, "file_size");
    const auto stores = column<StoreId, std::int64_t>(from, "file_store");
    const auto exists = column<std::uint8_t>(from, "file_exists");
    for (std::size_t i = 0; i < sizes.size(); ++i)
        files->files.push_back({sizes[i], stores[i], exists[i] != 0});
    files->read_offsets = column<std::size_t, std::int64_t>(from, "read_offsets");
    files->reads = column<FileId, std::int64_t>(from, "reads");
    files->write_offsets = column<std::size_t, std::int64_t>(from, "write_offsets");
    files->writes = column<FileId, std::int64_t>(from, "writes");
    files->handling = {nb::cast<bool>(from["through_local"]), nb::cast<bool>(from["keeps_copies"]),
                       nb::cast<bool>(from["whole_files"])};
    files->copies = nb::cast<std::vector<std::pair<FileId, StoreId>>>(from["copies"]);
    self.scenario->network = std::make_shared<const NetworkPlan>(network_from(from));
    self.scenario->files = std::move(files);
}

// An empty description: nothing is billed.
BillingPlan billing_from(const nb::dict& given) {
    BillingPlan billing;
    if (given.empty()) return billing;
    billing.unit = nb::cast<double>(given["unit"]);
    billing.from_request = nb::cast<bool>(given["from_request"]);
    billing.reserved = nb::cast<std::uint32_t>(given["reserved"]);
    billing.reserved_price = nb::cast<double>(given["reserved_price"]);
    billing.upfront = nb::cast<double>(given["upfront"]);
    billing.has_transfers = nb::cast<bool>(given["has_transfers"]);
    billing.transfer_in = nb::cast<double>(given["transfer_in"]);
    billing.transfer_out = nb::cast<double>(given["transfer_out"]);
    SpotPrices& spot = billing.spot;
    spot.times = reals(given, "spot_times");
    spot.prices = reals(given, "spot_prices");
    spot.bills_interrupted = nb::cast<bool>(given["bills_interrupted"]);
    if (spot.times.size() != spot.prices.size() ||
        std::ranges::adjacent_find(spot.times, std::greater_equal{}) != spot.times.end())
        throw nb::value_error("spot prices need increasing times, with a price for each");
    return billing;
}

// The clouds, and the controllers of each.
void set_clouds(ScenarioHandle& self, const nb::list& from) {
    static const std::map<std::string, Caching> cachings = {{"none", Caching::none},
                                                            {"first-use", Caching::first_use},
                                                            {"pre-staged", Caching::pre_staged}};
    auto clouds = std::make_shared<CloudPlans>();
    self.providers.clear();
    for (const nb::handle each : from) {
        const auto given = nb::cast<nb::dict>(each);
        CloudPlan& cloud = clouds->emplace_back();
        cloud.hosts = column<MachineId, std::int64_t>(given, "hosts");
        for (const nb::handle one : nb::cast<nb::list>(given["images"])) {
            const auto image = nb::cast<nb::dict>(one);
            cloud.images.push_back(
                {nb::cast<FileId>(image["file"]), nb::cast<double>(image["bytes"]),
                 nb::cast<StoreId>(image["store"]),
                 cachings.at(nb::cast<std::string>(image["caching"])),
                 nb::cast<double>(image["delay"]), nb::cast<double>(image["work"]),
                 nb::cast<double>(image["limit"]), nb::cast<double>(image["per_booting"]),
                 reals(image, "factors"), reals(image, "slow_times"),
                 nb::cast<double>(image["slow_share"]), nb::cast<double>(image["failed_share"]),
                 nb::cast<double>(image["refused_share"])});
        }
        for (const nb::handle one : nb::cast<nb::list>(given["types"])) {
            const auto type = nb::cast<nb::dict>(one);
            cloud.types.push_back(
                {nb::cast<bool>(type["fits_task"]), nb::cast<double>(type["cores"]),
                 nb::cast<double>(type["memory"]), nb::cast<double>(type["price"])});
        }
        cloud.max_instances = nb::cast<std::uint32_t>(given["max_instances"]);
        cloud.max_cores = nb::cast<double>(given["max_cores"]);
        cloud.max_memory = nb::cast<double>(given["max_memory"]);
        cloud.decision_delay = nb::cast<double>(given["decision_delay"]);
        cloud.inter_boot_delay = nb::cast<double>(given["inter_boot_delay"]);
        cloud.hosts_begin_off = nb::cast<bool>(given["hosts_begin_off"]);
        cloud.migration = {nb::cast<bool>(given["live"]), nb::cast<double>(given["dirty_rate"]),
                           nb::cast<std::uint32_t>(given["rounds"]),
                           nb::cast<double>(given["threshold"]),
                           nb::cast<double>(given["migration_bandwidth"])};
        cloud.memory_store = nb::cast<StoreId>(given["memory_store"]);
        cloud.suspends_locally = nb::cast<bool>(given["suspends_locally"]);
        cloud.messages = {
            nb::cast<NodeId>(given["client_node"]), nb::cast<NodeId>(given["controller_node"]),
            nb::cast<double>(given["request_bytes"]), nb::cast<double>(given["reply_bytes"])};
        cloud.billing = billing_from(nb::cast<nb::dict>(given["billing"]));
        cloud.seed = nb::cast<std::uint64_t>(given["seed"]);
        cloud.boot_times = reals(given, "boot_times");
        cloud.typical_boot = nb::cast<double>(given["typical_boot"]);
        if (std::ranges::any_of(cloud.boot_times,
                                [](double each) { return each < 0 || each == never; }))
            throw nb::value_error("a boot time is negative or infinite");
        self.providers.emplace_back(given["controllers"], given["names"]);
    }
    self.scenario->clouds = std::move(clouds);
}

// Runs in progress keep their failures until `extend_failures`.
void set_outages(ScenarioHandle& self, const Column<std::int64_t>& machines,
                 const Column<double>& starts, const Column<double>& ends, double until) {
    auto outages = std::make_shared<Outages>();
    outages->until = until;
    for (std::size_t i = 0; i < machines.shape(0); ++i)
        outages->list.push_back(
            {static_cast<MachineId>(machines.data()[i]), starts.data()[i], ends.data()[i]});
    std::ranges::stable_sort(outages->list, {}, &Outage::start);
    self.scenario->outages = std::move(outages);
}

// Mask of the tasks that the policy cannot place even if all machines are free.
nb::object find_impossible(const ScenarioHandle& self, nb::handle policy, double capacity) {
    const Scenario& all = *self.scenario;
    const std::unique_ptr<Controller> judge = policy_from(policy, self.names, 0);
    ModelValues values;
    values.effective_capacity = capacity;
    SchedulerState scheduler = all.make_scheduler_state(*judge, values);
    for (TaskId task = 0; task < all.size(); ++task)
        scheduler.set_planned_time(task, all.requested_or_recorded_time(task));
    std::vector<std::uint8_t> mask(all.size(), 0);
    for (TaskId task = 0; task < all.size(); ++task)
        mask[task] = judge->possible(scheduler, task) ? 0 : 1;
    return as_array(std::move(mask));
}

}  // namespace

void bind_scenario(nb::module_& module) {
    nb::list names;
    for (const ModelParameter& each : model_parameters())
        names.append(nb::str(each.name.data(), each.name.size()));
    module.attr("PARAMETER_NAMES") = nb::tuple(names);
    nb::class_<ValueColumns>(module, "ValueColumns", nb::is_final(),
                             "The parameter, index and item of each column of rows of values.")
        .def(
            "__init__",
            [](ValueColumns* self, const nb::list& columns) {
                new (self) ValueColumns(columns_from(columns));
            },
            nb::arg("columns"),
            nb::sig("def __init__(self, columns: list[tuple[str, int, int]]) -> None"))
        .def("__len__", &ValueColumns::size);
    nb::class_<ScenarioHandle>(
        module, "NativeScenario", nb::is_final(),
        "A scenario as native columns; see `twinloop.engine.CompiledScenario`.")
        .def(
            "__init__",
            [](ScenarioHandle* self, const nb::dict& machines, const nb::dict& tasks,
               const nb::dict& options, nb::object names) {
                auto scenario = std::make_shared<Scenario>();
                read_machines(*scenario, machines);
                read_tasks(*scenario, tasks);
                read_laws(*scenario, tasks);
                read_options(*scenario, options);
                scenario->complete();
                scenario->submissions =
                    std::make_shared<const Submissions>(*scenario->tasks, SessionColumns{});
                new (self) ScenarioHandle{std::move(scenario), std::move(names), {}};
            },
            nb::arg("machines"), nb::arg("tasks"), nb::arg("options"), nb::arg("names"),
            nb::sig("def __init__(self, machines: dict[str, typing.Any], tasks: dict[str, "
                    "typing.Any], options: dict[str, typing.Any], names: object) -> None"))
        .def("set_sessions", &set_sessions, nb::arg("sessions"),
             nb::sig("def set_sessions(self, sessions: dict[str, typing.Any]) -> None"))
        .def("set_network", &set_network, nb::arg("network"),
             nb::sig("def set_network(self, network: dict[str, typing.Any]) -> None"))
        .def("set_clouds", &set_clouds, nb::arg("clouds"),
             nb::sig("def set_clouds(self, clouds: list[dict[str, typing.Any]]) -> None"))
        .def("set_outages", &set_outages, nb::arg("machine"), nb::arg("start"), nb::arg("end"),
             nb::arg("until"))
        .def(
            "set_rejected",
            [](ScenarioHandle& self, const Column<std::uint8_t>& mask) {
                TaskTable& tasks = *self.scenario->tasks;
                for (std::size_t i = 0; i < mask.shape(0); ++i)
                    tasks.set_rejected(static_cast<TaskId>(i), mask.data()[i] != 0);
                self.scenario->submissions = std::make_shared<const Submissions>(
                    tasks, self.scenario->submissions->sessions());
            },
            nb::arg("mask"))
        .def("find_impossible", &find_impossible, nb::arg("policy"), nb::arg("capacity") = 1.0,
             nb::sig("def find_impossible(self, policy: object, capacity: float = 1.0) -> "
                     "numpy.typing.NDArray[numpy.uint8]"));
}

}  // namespace twinloop::bind
