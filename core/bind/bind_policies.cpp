#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "bind/arrays.hpp"
#include "bind/event.hpp"
#include "bind/policies.hpp"
#include "bind/rental_orders.hpp"
#include "control/controller_chain.hpp"
#include "control/policies/options.hpp"
#include "control/policies/static_plan.hpp"

namespace twinloop::bind {
namespace {

template <class Enum>
Enum chosen(const nb::dict& options, const char* key, const std::map<std::string, Enum>& names) {
    const auto text = nb::cast<std::string>(options[key]);
    const auto found = names.find(text);
    if (found == names.end())
        throw nb::value_error(("'" + text + "' is not a valid " + std::string(key)).c_str());
    return found->second;
}

template <class Enum>
std::vector<std::pair<Enum, double>> weighted(const nb::dict& options, const char* key,
                                              const std::map<std::string, Enum>& names) {
    std::vector<std::pair<Enum, double>> list;
    for (const auto& [text, value] :
         nb::cast<std::vector<std::pair<std::string, double>>>(options[key])) {
        const auto found = names.find(text);
        if (found == names.end())
            throw nb::value_error(("'" + text + "' is not one of the " + std::string(key)).c_str());
        list.emplace_back(found->second, value);
    }
    return list;
}

ClientOptions read_client(const nb::dict& options) {
    return {nb::cast<std::uint16_t>(options["cloud"]), nb::cast<std::uint16_t>(options["type"]),
            nb::cast<std::uint16_t>(options["image"]), nb::cast<double>(options["overcommit"]),
            nb::cast<double>(options["bid"])};
}

BrokerOptions read_broker(const nb::dict& options) {
    BrokerOptions broker;
    broker.client = read_client(options);
    broker.strategy = chosen<BrokerStrategy>(options, "strategy",
                                             {{"asap", BrokerStrategy::asap},
                                              {"afap", BrokerStrategy::afap},
                                              {"list", BrokerStrategy::list},
                                              {"deadline", BrokerStrategy::deadline},
                                              {"budget", BrokerStrategy::budget}});
    broker.margin = nb::cast<double>(options["margin"]);
    broker.boot_base = nb::cast<double>(options["boot_base"]);
    broker.boot_per_booting = nb::cast<double>(options["boot_per_booting"]);
    broker.interval = nb::cast<double>(options["interval"]);
    broker.later_interval = nb::cast<double>(options["later_interval"]);
    broker.instances = nb::cast<std::uint32_t>(options["instances"]);
    broker.attempts = nb::cast<std::uint32_t>(options["attempts"]);
    broker.retry = nb::cast<double>(options["retry"]);
    broker.deadline = nb::cast<double>(options["deadline"]);
    broker.budget = nb::cast<double>(options["budget"]);
    broker.published = nb::cast<bool>(options["published"]);
    broker.validation = nb::cast<bool>(options["validation"]);
    broker.boots_as_predicted = nb::cast<bool>(options["boots_as_predicted"]);
    broker.request_dates = nb::cast<std::vector<double>>(options["request_dates"]);
    broker.lags = nb::cast<std::vector<double>>(options["lags"]);
    broker.recorded_dates = nb::cast<std::vector<double>>(options["recorded_dates"]);
    return broker;
}

// The tables of a compiled scenario; without them, all machines are in one cluster.
std::shared_ptr<const WorkflowTables> read_tables(const nb::dict& options) {
    WorkflowTables tables;
    if (options.contains("clusters")) {
        tables.clusters = nb::cast<std::vector<std::uint32_t>>(options["clusters"]);
        tables.store_clusters = nb::cast<std::vector<std::uint32_t>>(options["store_clusters"]);
        tables.ranks = nb::cast<std::vector<std::uint32_t>>(options["ranks"]);
    }
    return std::make_shared<const WorkflowTables>(std::move(tables));
}

ListOptions read_list(const nb::dict& options) {
    ListOptions list;
    list.order = chosen<ListOrder>(options, "order",
                                   {{"bottom-level", ListOrder::bottom_level},
                                    {"children", ListOrder::children},
                                    {"data", ListOrder::data},
                                    {"work", ListOrder::work}});
    list.cluster = chosen<ClusterChoice>(options, "cluster",
                                         {{"fastest", ClusterChoice::fastest},
                                          {"most-idle", ClusterChoice::most_idle},
                                          {"most-idle-speed", ClusterChoice::most_idle_speed},
                                          {"most-data", ClusterChoice::most_data}});
    list.efficiency = nb::cast<double>(options["efficiency"]);
    list.cap = nb::cast<double>(options["cap"]);
    list.last_of_equals = nb::cast<std::string>(options["ties"]) == "last";
    list.input_only = nb::cast<std::string>(options["data"]) == "input";
    list.tables = read_tables(options);
    return list;
}

std::unique_ptr<Controller> make_policy(const nb::dict& options) {
    if (nb::cast<std::string>(options["kind"]) == "batch") {
        BatchOptions batch;
        batch.order = chosen<QueueOrder>(options, "order",
                                         {{"arrival", QueueOrder::arrival},
                                          {"shortest", QueueOrder::shortest},
                                          {"longest", QueueOrder::longest},
                                          {"priority", QueueOrder::priority},
                                          {"fair-share", QueueOrder::fair_share}});
        batch.backfill = chosen<Backfill>(options, "backfill",
                                          {{"none", Backfill::none},
                                           {"easy", Backfill::easy},
                                           {"easy-time", Backfill::easy_time},
                                           {"conservative", Backfill::conservative}});
        batch.compress = nb::cast<bool>(options["compress"]);
        batch.depth = nb::cast<std::uint32_t>(options["depth"]);
        batch.age = nb::cast<double>(options["age"]);
        batch.half_life = nb::cast<double>(options["half_life"]);
        batch.by_group = nb::cast<std::string>(options["share_by"]) == "group";
        batch.preemption = chosen<Preemption>(options, "preempt",
                                              {{"no", Preemption::no},
                                               {"restart", Preemption::restart},
                                               {"resume", Preemption::resume}});
        return make_batch(batch);
    }
    const auto kind = nb::cast<std::string>(options["kind"]);
    if (kind == "on-demand") return make_on_demand({nb::cast<bool>(options["one_at_a_time"])});
    if (kind == "consolidate") {
        ConsolidationOptions moves;
        moves.method = chosen<ConsolidationMethod>(
            options, "method",
            {{"draining", ConsolidationMethod::draining},
             {"first-fit", ConsolidationMethod::first_fit},
             {"best-fit-decreasing", ConsolidationMethod::best_fit_decreasing},
             {"cost", ConsolidationMethod::cost}});
        moves.interval = nb::cast<double>(options["interval"]);
        moves.threshold = nb::cast<double>(options["threshold"]);
        moves.horizon = nb::cast<double>(options["horizon"]);
        moves.idle_watts = nb::cast<double>(options["idle_watts"]);
        moves.off_watts = nb::cast<double>(options["off_watts"]);
        moves.switch_time = nb::cast<double>(options["switch_time"]);
        moves.switch_energy = nb::cast<double>(options["switch_energy"]);
        moves.bandwidth = nb::cast<double>(options["bandwidth"]);
        return make_consolidation(moves);
    }
    if (kind == "one-per-task" || kind == "one-instance") {
        const ClientOptions client = read_client(options);
        return kind == "one-instance" ? make_one_instance(client) : make_one_per_task(client);
    }
    if (kind == "broker") return make_broker(read_broker(options));
    if (kind == "list") return make_list_scheduling(read_list(options));
    if (kind == "static")
        return make_static_list({nb::cast<bool>(options["critical_path"]), read_tables(options)});
    if (kind == "completion-time")
        return make_completion_times({nb::cast<bool>(options["largest"]), read_tables(options)});
    if (kind == "power-saving")
        return make_power_saving(
            {nb::cast<double>(options["idle_time"]), nb::cast<std::size_t>(options["keep"])});
    FilterOptions filter;
    filter.filters = weighted<Filter>(options, "filters",
                                      {{"instance-count", Filter::instance_count},
                                       {"vcpu", Filter::vcpu},
                                       {"ram", Filter::ram},
                                       {"capacity", Filter::capacity},
                                       {"resource", Filter::resource}});
    filter.weighers = weighted<Weigher>(options, "weighers",
                                        {{"instance-count", Weigher::instance_count},
                                         {"vcpu", Weigher::vcpu},
                                         {"ram", Weigher::ram},
                                         {"capacity", Weigher::capacity}});
    filter.subset = nb::cast<std::uint32_t>(options["subset"]);
    filter.skip = nb::cast<bool>(options["skip"]);
    const auto queue = nb::cast<std::string>(options["queue"]);
    filter.refuse = queue == "refuse";
    filter.smallest_first = queue == "smallest-first";
    filter.waits = nb::cast<bool>(options["waits"]);
    filter.pick = chosen<Pick>(
        options, "pick",
        {{"first", Pick::first}, {"random", Pick::random}, {"round-robin", Pick::round_robin}});
    filter.seed = nb::cast<std::uint64_t>(options["seed"]);
    return make_filter(filter);
}

struct NativePolicy {
    std::unique_ptr<Controller> prototype;
};

// The kinds of decisions, as the Python package defines them.
struct DecisionTypes {
    nb::object place;
    nb::object wake;
    nb::object preempt;
    nb::object kill;
    nb::object reserve;
    nb::object set_state;
    nb::object rent;
    nb::object release;
    nb::object migrate;
    nb::object resize;
};

DecisionTypes& decision_types() {
    static auto* types = [] {
        const nb::module_ module = nb::module_::import_("twinloop.policy.decisions");
        return new DecisionTypes{module.attr("Place"),   module.attr("Wake"),
                                 module.attr("Preempt"), module.attr("Kill"),
                                 module.attr("Reserve"), module.attr("SetState"),
                                 module.attr("Rent"),    module.attr("Release"),
                                 module.attr("Migrate"), module.attr("Resize")};
    }();
    return *types;
}

nb::object name(const nb::object& names, const char* list, std::int64_t index) {
    if (index < 0 || names.is_none()) return nb::none();
    const nb::object all = names.attr(list);
    if (static_cast<std::size_t>(index) >= nb::len(all)) return nb::none();
    return all[static_cast<std::size_t>(index)];
}

class PythonPolicy final : public Controller {
  public:
    PythonPolicy(nb::object state, nb::object view)
        : state_(std::move(state)), view_(std::move(view)), decide_(state_.attr("decide")) {
        if (nb::hasattr(state_, "overcommit")) ratio_ = nb::cast<double>(state_.attr("overcommit"));
        if (nb::hasattr(state_, "decide_when_idle"))
            decides_when_idle_ = nb::cast<bool>(state_.attr("decide_when_idle"));
        listens_ = nb::hasattr(state_, "instance_changed");
        has_continues_ = nb::hasattr(state_, "continues");
    }

    ~PythonPolicy() override = default;
    PythonPolicy(const PythonPolicy&) = delete;
    PythonPolicy(PythonPolicy&&) = delete;
    PythonPolicy& operator=(const PythonPolicy&) = delete;
    PythonPolicy& operator=(PythonPolicy&&) = delete;

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        nb::object view = nb::cast(View{nullptr, nb::cast<View&>(view_).names, nullptr});
        const nb::module_ run_state = nb::module_::import_("twinloop.description.run_state");
        nb::object state =
            run_state.attr("copy_run_state")(state_, run_state.attr("describe_policy")(state_),
                                             nb::make_tuple(nb::make_tuple(view_, view)));
        auto copy = std::make_unique<PythonPolicy>(std::move(state), std::move(view));
        copy->events_ = events_;
        return copy;
    }
    [[nodiscard]] bool foreign() const override { return true; }
    [[nodiscard]] bool overcommits() const override { return ratio_ > 1; }
    [[nodiscard]] Overcommit overcommit() const override { return {.cores = ratio_}; }
    [[nodiscard]] bool decides_when_idle() const override { return decides_when_idle_; }
    [[nodiscard]] bool continues() const override {
        if (!has_continues_) return false;
        return nb::cast<bool>(state_.attr("continues"));
    }
    // The instances of a client do not exist before it rents them.
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        return !scheduler.clouds().empty() || Controller::possible(scheduler, task);
    }
    [[nodiscard]] View& view() { return nb::cast<View&>(view_); }
    [[nodiscard]] const nb::object& state() const { return state_; }

    // The order is that of the decision that is being converted.
    void refused(const SchedulerState&, const Order&, std::span<const Part>,
                 const char* why) override {
        refuse(decision_, why);
    }

    void start_failed(const SchedulerState& scheduler, TaskId task, std::span<const Part> parts,
                      const char* why) override {
        if (!wants_failures()) return;
        const Connection connected(view(), const_cast<SchedulerState&>(scheduler));
        nb::list machines;
        nb::list cores;
        for (const Part& part : parts)
            for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                machines.append(m);
                cores.append(part.cores);
            }
        const nb::object decision =
            decision_types().place(task, nb::tuple(machines), nb::tuple(cores));
        state_.attr("failed")(decision, why);
    }

    // An exception of the program must not leave the world in the middle of a change: the program
    // is told before its next decision.
    void rental_changed(const SchedulerState&, MachineId instance, RentalEvent event) override {
        if (listens_) events_.emplace_back(instance, event);
    }

    void decide(SchedulerState& scheduler) override {
        const Connection connected(view(), scheduler);
        for (const auto& [instance, event] : std::exchange(events_, {}))
            state_.attr("instance_changed")(instance, event_name(event));
        const nb::object answer = decide_(view_);
        if (answer.is_none()) return;
        if (!nb::hasattr(answer, "__iter__"))
            throw nb::type_error(("`decide` must return an iterable of decisions, not " +
                                  nb::cast<std::string>(nb::repr(answer)))
                                     .c_str());
        const DecisionTypes& types = decision_types();
        for (const nb::handle decision : answer) {
            const nb::handle type = decision.type();
            decision_ = decision;
            if (type.is(types.place)) {
                place(scheduler, decision);
            } else if (type.is(types.wake)) {
                scheduler.wake(number(decision, "time"));
            } else if (type.is(types.preempt)) {
                scheduler.preempt(task_of(scheduler, decision));
            } else if (type.is(types.kill)) {
                scheduler.kill(task_of(scheduler, decision));
            } else if (type.is(types.reserve)) {
                const nb::object machines = decision.attr("machines");
                const nb::object first =
                    PyLong_Check(machines.ptr()) ? machines : nb::object(machines[0]);
                scheduler.reserve(task_of(scheduler, decision), machine_of(scheduler, first),
                                  number(decision, "time"));
            } else if (type.is(types.set_state)) {
                set_state(scheduler, decision);
            } else if (!order_instance(scheduler, decision)) {
                throw nb::type_error(("`decide` returned " +
                                      nb::cast<std::string>(nb::repr(decision)) +
                                      ", which is not a decision: see twinloop.policy.decisions")
                                         .c_str());
            }
        }
    }

  private:
    // Connects the view with the scheduler state during a call: the program may keep a reference to
    // the view, and use it when the state has changed or is gone.
    class Connection {
      public:
        Connection(View& view, SchedulerState& scheduler) : view_(view) {
            view_.scheduler = &scheduler;
        }
        Connection(const Connection&) = delete;
        Connection& operator=(const Connection&) = delete;
        Connection(Connection&&) = delete;
        Connection& operator=(Connection&&) = delete;
        ~Connection() { view_.scheduler = nullptr; }

      private:
        View& view_;
    };

    // An integer of Python or NumPy; otherwise an error that names the argument.
    static std::int64_t index(nb::handle given, const char* what) {
        if (!PyIndex_Check(given.ptr()))
            throw nb::type_error((std::string(what) + " must be an index from the view, not " +
                                  nb::cast<std::string>(nb::repr(given)))
                                     .c_str());
        const nb::object number = nb::steal(PyNumber_Index(given.ptr()));
        if (!number.is_valid()) throw nb::python_error();
        return nb::cast<std::int64_t>(number);
    }

    // A number of a decision; otherwise an error that names it.
    static double number(nb::handle decision, const char* field) {
        const nb::object given = decision.attr(field);
        double value = 0.0;
        if (!nb::try_cast(given, value))
            throw nb::type_error((std::string("the ") + field +
                                  " must be a number: " + nb::cast<std::string>(nb::repr(decision)))
                                     .c_str());
        return value;
    }

    static TaskId task_of(const SchedulerState& scheduler, nb::handle decision) {
        return task_at(scheduler, index(nb::object(decision.attr("task")), "a task"));
    }

    static MachineId machine_of(const SchedulerState& scheduler, nb::handle given) {
        return machine_at(scheduler, index(given, "a machine"));
    }

    void set_state(SchedulerState& scheduler, nb::handle decision) {
        const MachineId machine = machine_of(scheduler, nb::object(decision.attr("machine")));
        const nb::object state = decision.attr("state");
        if (!PyUnicode_Check(state.ptr()))
            throw nb::type_error(
                ("the state must be a text: " + nb::cast<std::string>(nb::repr(decision))).c_str());
        scheduler.set_state(machine, state_of(scheduler, nb::cast<std::string>(state)));
    }

    // Gives an order about a rented instance; false: it is another kind of decision.
    bool order_instance(SchedulerState& scheduler, nb::handle decision) {
        const DecisionTypes& types = decision_types();
        const nb::handle type = decision.type();
        if (type.is(types.rent)) {
            const MachineId instance =
                scheduler.rent(rental_from(scheduler, decision, view().names));
            if (instance != no_machine && listens_)
                state_.attr("instance_changed")(instance, "requested");
        } else if (type.is(types.release)) {
            scheduler.release(machine_of(scheduler, nb::object(decision.attr("instance"))));
        } else if (type.is(types.migrate)) {
            scheduler.migrate(instance_of(scheduler, decision),
                              machine_of(scheduler, nb::object(decision.attr("host"))));
        } else if (type.is(types.resize)) {
            const double cores = number(decision, "cores");
            scheduler.resize_instance(instance_of(scheduler, decision), cores);
        } else {
            return false;
        }
        return true;
    }

    // The instance of an order of a cloud, which is a task there. Any other scheduler refuses the
    // order.
    static TaskId instance_of(const SchedulerState& scheduler, nb::handle decision) {
        const std::int64_t given = index(nb::object(decision.attr("instance")), "an instance");
        return scheduler.is_provider() ? task_at(scheduler, given) : no_task;
    }

    void place(SchedulerState& scheduler, nb::handle decision) {
        const TaskId task = task_of(scheduler, decision);
        const nb::object machines = decision.attr("machines");
        const nb::object given = decision.attr("cores");
        chosen_.clear();
        if (PyIndex_Check(machines.ptr()) || PyUnicode_Check(machines.ptr())) {
            chosen_.push_back(index(machines, "a machine"));
        } else {
            for (const nb::handle each : machines) chosen_.push_back(index(each, "a machine"));
        }
        parts_.clear();
        const Needs needs = scheduler.needs(task);
        const auto count = static_cast<double>(chosen_.size());
        const bool each_its_own = nb::hasattr(given, "__len__");
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            const MachineId machine = machine_at(scheduler, chosen_[i]);
            double cores = needs.cores / count;
            if (each_its_own) {
                cores = nb::cast<double>(given[i]);
            } else if (!given.is_none()) {
                cores = nb::cast<double>(given);
            }
            parts_.push_back({machine, 1, cores});
        }
        scheduler.place(task, parts_);
    }

    [[nodiscard]] bool wants_failures() const {
        return nb::hasattr(state_, "failed") && !state_.attr("failed").is_none();
    }

    void refuse(nb::handle decision, const char* why) {
        if (wants_failures()) {
            state_.attr("failed")(decision, why);
            return;
        }
        throw nb::value_error(("the policy decided " + nb::cast<std::string>(nb::repr(decision)) +
                               describe(decision) + ", but " + why)
                                  .c_str());
    }

    // The name of the task or machine of a decision, which has its index.
    [[nodiscard]] std::string describe(nb::handle decision) const {
        for (const auto& [field, list] :
             {std::pair("task", "tasks"), {"machine", "machines"}, {"instance", ""}}) {
            if (!nb::hasattr(decision, field)) continue;
            const auto at = index(nb::object(decision.attr(field)), field);
            const bool is_instance = std::string_view(field) == "instance" ||
                                     (std::string_view(field) == "task" && is_provider());
            const nb::object found =
                is_instance ? name_instance(at) : name(nb::cast<View&>(view_).names, list, at);
            if (!found.is_none())
                return std::string(" (") + field + " " + nb::cast<std::string>(nb::repr(found)) +
                       ")";
        }
        return "";
    }

    [[nodiscard]] bool is_provider() const { return nb::cast<View&>(view_).get().is_provider(); }
    [[nodiscard]] nb::object name_instance(std::int64_t at) const {
        const SchedulerState& scheduler = nb::cast<View&>(view_).get();
        const auto number = static_cast<std::uint32_t>(at);
        std::uint32_t rental = none;
        if (scheduler.is_provider()) rental = scheduler.rental_of(number);
        else if (scheduler.is_rented(number)) rental = scheduler.rental_number(number);
        return rental == none ? nb::none() : nb::object(nb::cast(instance_name(rental)));
    }

    nb::object state_;
    nb::object view_;
    nb::object decide_;
    nb::handle decision_;  // that is being converted
    double ratio_ = 1.0;
    bool decides_when_idle_ = false;
    bool has_continues_ = false;
    bool listens_ = false;                                   // to changes of instances
    std::vector<std::pair<MachineId, RentalEvent>> events_;  // since the last decision
    std::vector<std::int64_t> chosen_;
    std::vector<Part> parts_;
};

template <class Get>
nb::object per_machine(const View& view, Get&& get) {
    const SchedulerState& scheduler = view.get();
    std::vector<double> values(scheduler.machines().size());
    for (MachineId m = 0; m < values.size(); ++m) values[m] = get(scheduler, m);
    return as_array(std::move(values));
}

// The law of a task; nullptr: it runs on its requested cores.
const SpeedupLaw* law_of(const SchedulerState& scheduler, TaskId task) {
    const Tasks& tasks = scheduler.tasks();
    return tasks[task].moldable ? &tasks.law(task) : nullptr;
}

// The numbers of cores that a task may be given on one machine, and how fast it is on them.
void bind_speedup_members(nb::class_<View>& view) {
    view.def(
            "min_cores",
            [](const View& self, std::int64_t task) {
                const TaskId found = task_at(self.get(), task);
                const SpeedupLaw* const law = law_of(self.get(), found);
                return law != nullptr ? law->min_cores : self.get().request(found).cores;
            },
            nb::arg("task"),
            "The fewest cores of a task on one machine: without a speed-up law, those it requests.")
        .def(
            "max_cores",
            [](const View& self, std::int64_t task) {
                const TaskId found = task_at(self.get(), task);
                const SpeedupLaw* const law = law_of(self.get(), found);
                return law != nullptr ? law->max_cores : self.get().request(found).cores;
            },
            nb::arg("task"),
            "The most cores of a task on one machine: without a speed-up law, those it requests.")
        .def(
            "speedup",
            [](const View& self, std::int64_t task, double cores) -> nb::object {
                if (!(cores > 0)) throw nb::value_error("`cores` must be positive");
                const SpeedupLaw* const law = law_of(self.get(), task_at(self.get(), task));
                return law != nullptr ? nb::object(nb::float_(law->speedup(cores))) : nb::none();
            },
            nb::arg("task"), nb::arg("cores"),
            nb::sig("def speedup(self, task: int, cores: float) -> float | None"),
            "The speed of a task on so many cores of one machine, as a multiple of that on one "
            "core; None if it has no speed-up law.")
        .def(
            "efficiency",
            [](const View& self, std::int64_t task, double cores) -> nb::object {
                if (!(cores > 0)) throw nb::value_error("`cores` must be positive");
                const SpeedupLaw* const law = law_of(self.get(), task_at(self.get(), task));
                return law != nullptr ? nb::object(nb::float_(law->efficiency(cores))) : nb::none();
            },
            nb::arg("task"), nb::arg("cores"),
            nb::sig("def efficiency(self, task: int, cores: float) -> float | None"),
            "The speed-up of a task divided by the cores; None if it has no speed-up law.");
}

// What a client and the controllers of a cloud may read about instances.
void bind_rental_members(nb::class_<View>& view) {
    view.def_prop_ro(
            "clouds",
            [](const View& self) { return nb::getattr(self.names, "clouds", nb::tuple()); },
            nb::sig("def clouds(self) -> tuple[typing.Any, ...]"),
            "The descriptions of the clouds, for their client.")
        .def_prop_ro(
            "rented",
            [](const View& self) {
                const SchedulerState& scheduler = self.get();
                std::vector<MachineId> instances;
                for (MachineId m = 0; m < scheduler.machines().size(); ++m)
                    if (scheduler.is_rented(m)) instances.push_back(m);
                return instances;
            },
            "The machines that are rented instances, also those that have not started yet.")
        .def_prop_ro(
            "spot_prices",
            [](const View& self) {
                nb::list prices;
                for (const CloudPlan& cloud : self.get().clouds()) {
                    const SpotPrices& spot = cloud.billing.spot;
                    prices.append(spot.used() ? nb::object(nb::float_(spot.at(self.get().now())))
                                              : nb::none());
                }
                return nb::tuple(prices);
            },
            nb::sig("def spot_prices(self) -> tuple[float | None, ...]"),
            "The present spot price of each cloud, for its client; None if it has none.")
        .def(
            "is_starting",
            [](const View& self, std::int64_t task) {
                return self.get().is_starting(task_at(self.get(), task));
            },
            nb::arg("task"), "Of a cloud: whether an instance has not reached the end of its boot.")
        .def(
            "is_migrating",
            [](const View& self, std::int64_t task) {
                return self.get().other_end(task_at(self.get(), task)) != no_task;
            },
            nb::arg("task"), "Of a cloud: whether an instance moves to another host.")
        .def(
            "used_cores",
            [](const View& self, std::int64_t task) {
                return self.get().used_cores(task_at(self.get(), task));
            },
            nb::arg("task"), "Of a cloud: the cores of an instance that its tasks use.");
}

}  // namespace

TaskId task_at(const SchedulerState& scheduler, std::int64_t task) {
    if (task < 0 || static_cast<std::size_t>(task) >= scheduler.task_count())
        throw nb::index_error(("there is no task " + std::to_string(task)).c_str());
    return static_cast<TaskId>(task);
}

MachineId machine_at(const SchedulerState& scheduler, std::int64_t machine) {
    if (machine < 0 || static_cast<std::size_t>(machine) >= scheduler.machines().size())
        throw nb::index_error(("there is no machine " + std::to_string(machine)).c_str());
    return static_cast<MachineId>(machine);
}

StateId state_of(const SchedulerState& scheduler, const std::string& name) {
    const StateTables& states = scheduler.state_tables();
    const StateId found = states.find(name);
    if (found != no_state) return found;
    std::string known = "'on'";
    for (std::size_t id = 1; id < states.names.size(); ++id)
        if (states.find(states.names[id]) != no_state) known += ", '" + states.names[id] + "'";
    throw nb::value_error(
        ("a machine has no state '" + name + "' that can be ordered: one of " + known).c_str());
}

std::string state_name(const SchedulerState& scheduler, MachineId machine) {
    if (!scheduler.is_present(machine) && scheduler.is_rented(machine))
        return scheduler.has_booted(machine) ? "stopped" : "starting";
    if (!scheduler.is_present(machine)) return "down";
    // An instance that runs has the state of its host.
    const MachineId host = scheduler.host_of(machine);
    if (host != no_machine && scheduler.status(machine).state == running_state)
        return state_name(scheduler, host);
    return scheduler.state_tables().names[scheduler.status(machine).state];
}

SchedulerState& View::get() const {
    if (scheduler == nullptr)
        throw nb::value_error("the view of a policy is valid only until `decide` returns");
    if (guard) guard->check_thread();
    return *scheduler;
}

std::unique_ptr<Controller> policy_from(nb::handle policy, const nb::object& names,
                                        std::uint64_t seed) {
    if (nb::isinstance<nb::list>(policy)) {
        std::vector<std::unique_ptr<Controller>> controllers;
        for (const nb::handle each : nb::borrow<nb::list>(policy))
            controllers.push_back(policy_from(each, names, seed));
        return std::make_unique<ControllerChain>(std::move(controllers));
    }
    if (nb::isinstance<NativePolicy>(policy))
        return nb::cast<NativePolicy&>(policy).prototype->clone();
    nb::object view = nb::cast(View{nullptr, names, nullptr});
    const nb::object random = nb::module_::import_("numpy.random").attr("default_rng")(seed);
    nb::object state = policy.attr("start")(view, random);
    if (!nb::hasattr(state, "decide"))
        throw nb::type_error("a policy must have a method `decide(view)`");
    return std::make_unique<PythonPolicy>(std::move(state), std::move(view));
}

std::vector<std::unique_ptr<Controller>> providers_from(const ScenarioHandle& scenario,
                                                        std::uint64_t seed) {
    std::vector<std::unique_ptr<Controller>> made;
    made.reserve(scenario.providers.size());
    for (const auto& [policy, names] : scenario.providers)
        made.push_back(policy_from(policy, names, seed));
    return made;
}

nb::object save_policy(const Controller& policy) {
    if (const auto* chain = dynamic_cast<const ControllerChain*>(&policy)) {
        nb::list memories;
        for (const auto& each : chain->controllers()) memories.append(save_policy(*each));
        return memories;
    }
    const auto* python = dynamic_cast<const PythonPolicy*>(&policy);
    if (python == nullptr) return nb::none();
    return nb::module_::import_("twinloop.description.run_state")
        .attr("save_run_state")(python->state());
}

void restore_policy(Controller& policy, nb::handle memory) {
    if (memory.is_none()) return;
    if (const auto* chain = dynamic_cast<ControllerChain*>(&policy)) {
        for (std::size_t i = 0; i < chain->count() && i < nb::len(memory); ++i)
            restore_policy(*chain->controllers()[i], memory[i]);
        return;
    }
    auto* python = dynamic_cast<PythonPolicy*>(&policy);
    if (python == nullptr) return;
    nb::module_::import_("twinloop.description.run_state")
        .attr("restore_run_state")(python->state(), memory);
}

void attach(Controller& policy, std::shared_ptr<InUse> guard) {
    if (const auto* chain = dynamic_cast<ControllerChain*>(&policy))
        for (const auto& each : chain->controllers()) attach(*each, guard);
    auto* python = dynamic_cast<PythonPolicy*>(&policy);
    if (python == nullptr) return;
    python->view().guard = std::move(guard);
}

void rename(Controller& policy, const nb::object& names) {
    if (const auto* chain = dynamic_cast<ControllerChain*>(&policy))
        for (const auto& each : chain->controllers()) rename(*each, names);
    if (auto* python = dynamic_cast<PythonPolicy*>(&policy)) python->view().names = names;
}

void bind_policies(nb::module_& module) {
    module.def(
        "plan_static_list",
        [](const std::string& method, const std::vector<std::vector<double>>& costs,
           const std::vector<std::tuple<std::uint32_t, std::uint32_t, double>>& edges,
           const std::vector<std::size_t>& slots, const std::vector<std::size_t>& widths) {
            PlanInput input;
            input.slots = slots;
            input.widths = widths;
            input.earliest.assign(costs.size(), 0.0);
            for (std::size_t task = 0; task < costs.size(); ++task) {
                if (costs.size() != widths.size() || costs[task].size() != slots.size())
                    throw nb::value_error("a cost for each task on each machine is needed");
                input.costs.insert(input.costs.end(), costs[task].begin(), costs[task].end());
                input.ranks.push_back(task);
            }
            for (const auto& [parent, child, cost] : edges) {
                if (parent >= costs.size() || child >= costs.size())
                    throw nb::index_error("there is no such task");
                input.edges.push_back({parent, child, cost});
            }
            nb::list planned;
            for (const PlannedTask& each : method == "cpop" ? plan_cpop(input) : plan_heft(input))
                planned.append(nb::make_tuple(each.machine, each.start, each.end));
            return planned;
        },
        nb::arg("method"), nb::arg("costs"), nb::arg("edges"), nb::arg("slots"), nb::arg("widths"),
        nb::sig("def plan_static_list(method: str, costs: list[list[float]], edges: "
                "list[tuple[int, int, float]], slots: list[int], widths: list[int]) -> "
                "list[tuple[int, float, float]]"),
        "Plan tasks with the method `heft` or `cpop`, from their cost on each machine: the "
        "machine, "
        "the start and the end of each.");
    nb::class_<NativePolicy>(
        module, "NativePolicy", nb::is_final(),
        "A built-in policy, created from the options of `native()` of its description.")
        .def(
            "__init__",
            [](NativePolicy* self, const nb::dict& options) {
                new (self) NativePolicy{make_policy(options)};
            },
            nb::arg("options"), nb::sig("def __init__(self, options: dict[str, object]) -> None"));

    nb::class_<View> view(
        module, "View", nb::is_final(),
        "The state that a policy may read: waiting and running tasks, free capacity. "
        "Tasks and machines are indices from 0.");
    view.def_prop_ro(
            "now", [](const View& self) { return self.get().now(); }, "The current time (s).")
        .def_prop_ro(
            "waiting",
            [](const View& self) {
                const SchedulerState& scheduler = self.get();
                std::vector<TaskId> tasks;
                tasks.reserve(scheduler.waiting_count());
                for (TaskId t = scheduler.first_waiting(); t != no_task;
                     t = scheduler.next_waiting(t))
                    tasks.push_back(t);
                return tasks;
            },
            "The waiting tasks, in the order in which they became ready.")
        .def_prop_ro(
            "first_waiting",
            [](const View& self) -> nb::object {
                const TaskId task = self.get().first_waiting();
                return task == no_task ? nb::none() : nb::object(nb::int_(task));
            },
            nb::sig("def first_waiting(self) -> int | None"),
            "The task that has waited longest; None if no task waits.")
        .def_prop_ro(
            "running",
            [](const View& self) {
                const auto tasks = self.get().running();
                return std::vector<TaskId>(tasks.begin(), tasks.end());
            },
            "The running tasks, in no order.")
        .def_prop_ro(
            "machines", [](const View& self) { return self.get().machines().size(); },
            "The number of machines.")
        .def_prop_ro(
            "free_cores",
            [](const View& self) {
                return per_machine(self, [](const SchedulerState& scheduler, MachineId m) {
                    return scheduler.space().open(m) ? scheduler.space().cores(m) : 0.0;
                });
            },
            nb::sig("def free_cores(self) -> numpy.typing.NDArray[numpy.float64]"),
            "The free cores of each machine; 0 if it is down.")
        .def_prop_ro(
            "free_memory",
            [](const View& self) {
                return per_machine(self, [](const SchedulerState& scheduler, MachineId m) {
                    return scheduler.space().open(m) ? scheduler.space().memory(m) : 0.0;
                });
            },
            nb::sig("def free_memory(self) -> numpy.typing.NDArray[numpy.float64]"),
            "The free memory of each machine (bytes); infinite if not specified.")
        .def(
            "free",
            [](const View& self, std::int64_t machine) {
                const SchedulerState& scheduler = self.get();
                const MachineId m = machine_at(scheduler, machine);
                return scheduler.space().open(m) ? scheduler.space().cores(m) : 0.0;
            },
            nb::arg("machine"), "The free cores of one machine.")
        .def_prop_ro(
            "capacity",
            [](const View& self) {
                return per_machine(self, [](const SchedulerState& scheduler, MachineId m) {
                    return scheduler.machines()[m].cores;
                });
            },
            nb::sig("def capacity(self) -> numpy.typing.NDArray[numpy.float64]"),
            "The cores of each machine.")
        .def_prop_ro(
            "task_counts",
            [](const View& self) {
                return per_machine(self, [](const SchedulerState& scheduler, MachineId m) {
                    return static_cast<double>(scheduler.count_tasks(m));
                });
            },
            nb::sig("def task_counts(self) -> numpy.typing.NDArray[numpy.float64]"),
            "The number of tasks on each machine.")
        .def(
            "cores",
            [](const View& self, std::int64_t task) {
                return self.get().request(task_at(self.get(), task)).cores;
            },
            nb::arg("task"), "The requested cores of a task.")
        .def(
            "memory",
            [](const View& self, std::int64_t task) {
                return self.get().request(task_at(self.get(), task)).memory;
            },
            nb::arg("task"), "The requested memory of a task (bytes).")
        .def(
            "nodes",
            [](const View& self, std::int64_t task) {
                return self.get().request(task_at(self.get(), task)).nodes;
            },
            nb::arg("task"), "The requested nodes of a task; 0 if its cores may be on any nodes.")
        .def(
            "requested_time",
            [](const View& self, std::int64_t task) {
                return self.get().planned_time(task_at(self.get(), task));
            },
            nb::arg("task"), "The planned run time of a task (s).")
        .def(
            "predicted_time",
            [](const View& self, std::int64_t task) {
                return self.get().predicted_time(task_at(self.get(), task));
            },
            nb::arg("task"), "The run time that the user predicts (s).")
        .def(
            "submit",
            [](const View& self, std::int64_t task) {
                return self.get().submit_time(task_at(self.get(), task));
            },
            nb::arg("task"),
            "The submission time of a task in this run (s); NaN before the submission.")
        .def(
            "submit_recorded",
            [](const View& self, std::int64_t task) {
                return self.get().request(task_at(self.get(), task)).submit;
            },
            nb::arg("task"),
            "The submission time of a task in the recorded run (s). Users with sessions submit "
            "earlier or later in this run.")
        .def(
            "priority",
            [](const View& self, std::int64_t task) {
                return self.get().request(task_at(self.get(), task)).priority;
            },
            nb::arg("task"), "The priority of the queue of a task.")
        .def(
            "user",
            [](const View& self, std::int64_t task) {
                return name(self.names, "users",
                            self.get().request(task_at(self.get(), task)).user);
            },
            nb::arg("task"), nb::sig("def user(self, task: int) -> str | None"),
            "The user of a task.")
        .def(
            "queue",
            [](const View& self, std::int64_t task) {
                return name(self.names, "queues",
                            self.get().request(task_at(self.get(), task)).queue);
            },
            nb::arg("task"), nb::sig("def queue(self, task: int) -> str | None"),
            "The queue of a task.")
        .def(
            "id",
            [](const View& self, std::int64_t task) {
                const Tasks& tasks = self.get().tasks();
                const TaskId found = task_at(self.get(), task);
                if (const std::uint32_t rental = self.get().rental_of(found); rental != none)
                    return nb::object(nb::cast(instance_name(rental)));
                if (tasks.is_own(found)) return nb::object(nb::cast(tasks.name(found)));
                return name(self.names, "tasks", found);
            },
            nb::arg("task"), nb::sig("def id(self, task: int) -> str | None"),
            "The name of a task.")
        .def(
            "machine_name",
            [](const View& self, std::int64_t machine) {
                const auto number = static_cast<MachineId>(machine);
                if (self.scheduler != nullptr && self.get().is_rented(number))
                    return nb::object(nb::cast(instance_name(self.get().rental_number(number))));
                return name(self.names, "machines", machine);
            },
            nb::arg("machine"), nb::sig("def machine_name(self, machine: int) -> str | None"),
            "The name of a machine.")
        .def(
            "state",
            [](const View& self, std::int64_t machine) {
                return state_name(self.get(), machine_at(self.get(), machine));
            },
            nb::arg("machine"),
            R"(The state of a machine: "running", "off", "down", or another of its states.)")
        .def(
            "hosted_since",
            [](const View& self, std::int64_t machine) -> nb::object {
                const MachineId number = machine_at(self.get(), machine);
                if (!self.get().is_rented(number)) return nb::none();
                const double time = self.get().hosted_since(number);
                return std::isnan(time) ? nb::object(nb::none()) : nb::cast(time);
            },
            nb::arg("machine"), nb::sig("def hosted_since(self, machine: int) -> float | None"),
            R"(The time at which an instance that the client has rented got its first host.

None for other machines, and before it has one.)")
        .def(
            "host",
            [](const View& self, std::int64_t machine) -> nb::object {
                const MachineId host = self.get().host_of(machine_at(self.get(), machine));
                return host == no_machine ? nb::object(nb::none()) : nb::cast(host);
            },
            nb::arg("machine"), nb::sig("def host(self, machine: int) -> int | None"),
            "The host of an instance; None of other machines.")
        .def_prop_ro(
            "states",
            [](const View& self) {
                const SchedulerState& scheduler = self.get();
                std::vector<std::string> names;
                names.reserve(scheduler.machines().size());
                for (MachineId m = 0; m < scheduler.machines().size(); ++m)
                    names.push_back(state_name(scheduler, m));
                return names;
            },
            "The state of each machine.")
        .def(
            "transition_end",
            [](const View& self, std::int64_t machine) -> nb::object {
                const SchedulerState& scheduler = self.get();
                const MachineId m = machine_at(scheduler, machine);
                const double end = scheduler.state_table(m).end(scheduler.status(m));
                return end < never && scheduler.is_present(m) ? nb::object(nb::float_(end))
                                                              : nb::none();
            },
            nb::arg("machine"), nb::sig("def transition_end(self, machine: int) -> float | None"),
            "The time at which the current transition of a machine ends (s); None if it is in no "
            "transition.")
        .def(
            "planned_end",
            [](const View& self, std::int64_t task) {
                return self.get().planned_end(task_at(self.get(), task));
            },
            nb::arg("task"), "The planned end of a running task (s).")
        .def(
            "started",
            [](const View& self, std::int64_t task) {
                return self.get().start_time(task_at(self.get(), task));
            },
            nb::arg("task"), "The start time of a running task (s).")
        .def(
            "placement",
            [](const View& self, std::int64_t task) {
                std::vector<std::pair<std::uint32_t, double>> parts;
                for (const Part& part : self.get().parts(task_at(self.get(), task)))
                    for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                        parts.emplace_back(m, part.cores);
                return parts;
            },
            nb::arg("task"), "The machines of a running task and its cores on each.");
    bind_speedup_members(view);
    bind_rental_members(view);
}

}  // namespace twinloop::bind
