#include "random_scenario.hpp"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "control/policies/options.hpp"

using namespace twinloop;

namespace {

constexpr std::size_t kinds = 3;

// A number up to `most`, more often 0.
std::size_t pick_few(Bytes& bytes, std::size_t most) {
    const std::size_t drawn = bytes.below(2 * most + 2);
    return drawn > most ? 0 : drawn;
}

std::vector<std::uint8_t> pick_mask(Bytes& bytes, std::size_t size) {
    std::vector<std::uint8_t> mask;
    for (std::size_t i = 0; i < size; ++i)
        mask.push_back(static_cast<std::uint8_t>(bytes.below(2)));
    return mask;
}

void add_machines(Scenario& all, Bytes& bytes) {
    const bool limited = bytes.below(2) == 0;
    const bool alike = bytes.below(2) == 0;
    const bool metered = bytes.below(4) != 0;
    const std::size_t resources = bytes.below(3) == 0 ? 1 : 0;
    const std::size_t count = 1 + bytes.below(4);
    for (std::size_t i = 0; i < count; ++i) {
        all.machines.push_back(pick_machine(bytes, limited));
        if (alike) all.machines.back().speed = 1.0;
        if (metered) all.powers.push_back(pick_power(bytes));
        if (resources > 0) all.machine_amounts.push_back(pick(bytes, {0, 1, 2}));
    }
    all.tasks = std::make_shared<TaskTable>(resources);
    for (std::size_t i = pick_few(bytes, 2); i > 0; --i) {
        AccessWindow window;
        window.start = pick(bytes, {2, 5, 9});
        window.end = window.start + pick(bytes, {1, 4, 4.1, never});
        window.machines = pick_mask(bytes, count);
        if (bytes.below(2)) window.users.push_back(static_cast<std::int32_t>(bytes.below(2)));
        if (bytes.below(2)) window.queues.push_back(static_cast<std::int32_t>(bytes.below(2)));
        all.windows.push_back(std::move(window));
    }
    for (std::size_t i = pick_few(bytes, 2); i > 0; --i) {
        QueueRule rule;
        if (bytes.below(3) == 0) rule.machines = pick_mask(bytes, count);
        if (bytes.below(2)) rule.max_running = static_cast<std::uint32_t>(1 + bytes.below(2));
        if (bytes.below(3) == 0) rule.max_running_per_user = 1;
        all.queues.push_back(std::move(rule));
    }
}

// Off, and a state that keeps tasks, each with a transition to it and from it.
void add_states(Scenario& all, Bytes& bytes) {
    if (bytes.below(2) == 0) return;
    auto tables = std::make_shared<StateTables>();
    tables->names = {"running",        "off",   "switching-off", "switching-on", "asleep",
                     "falling-asleep", "waking"};
    StateTable& table = tables->tables.front();
    const auto watts = [&] {
        auto model = std::make_shared<PowerModel>();
        model->idle = model->max = pick(bytes, {0, 5, 70});
        return model;
    };
    const auto phases = [&] {
        std::vector<StatePhase> made{{pick(bytes, {1, 2.5, 0}), 0.0}};
        if (bytes.below(3) == 0) made.push_back({0.4, 0.0});
        return made;
    };
    table.add_state(off_state, watts(), false);
    table.add_transition(2, running_state, off_state, watts(), phases());
    table.add_transition(3, off_state, running_state, watts(), phases());
    table.add_state(4, watts(), true);
    table.add_transition(5, running_state, 4, watts(), phases());
    table.add_transition(6, 4, running_state, watts(), phases());
    all.states = std::move(tables);
}

void add_tasks(Scenario& all, Bytes& bytes) {
    const bool related = bytes.below(2) == 0;
    std::vector<Task> tasks(1 + bytes.below(12));
    std::vector<std::vector<Fragment>> fragments(tasks.size());
    std::vector<std::vector<TaskId>> children(tasks.size());
    for (TaskId i = 0; i < tasks.size(); ++i) {
        Task& task = tasks[i];
        task = pick_task(bytes);
        task.speed = pick(bytes, {1, 1, 1, 0.5});
        if (bytes.below(3) == 0) {
            const double cores = std::max(task.request.cores, 0.1);
            task.work = task.limit = 0.0;
            for (std::size_t f = 1 + bytes.below(4); f > 0; --f) {
                const Fragment piece{pick(bytes, {0.5, 1, 3, 0.1}),
                                     cores * pick(bytes, {1, 0.5, 0, 0.3})};
                fragments[i].push_back(piece);
                task.work += piece.duration * piece.rate;
                task.limit = std::max(task.limit, piece.rate);
            }
        }
        if (related && i > 0 && bytes.below(4) == 0) {
            children[bytes.below(i)].push_back(i);
            ++task.parents;
        }
    }
    const std::size_t resources = all.tasks->resources();
    for (TaskId i = 0; i < tasks.size(); ++i) {
        const std::array<double, 1> amounts = {resources > 0 ? pick(bytes, {0, 0, 1}) : 0.0};
        all.tasks->add(tasks[i], std::span(amounts).first(resources), fragments[i], children[i]);
    }
    // Linear, by the law of Amdahl, or a table.
    for (TaskId i = 0; i < tasks.size(); ++i) {
        const double cores = tasks[i].request.cores;
        if (cores <= 0 || tasks[i].request.nodes > 1 || bytes.below(4) != 1) continue;
        SpeedupLaw law{pick(bytes, {1, 0.9, 0}), {}, std::min(1.0, cores), cores};
        if (bytes.below(3) == 0) law.points = {{1, 1}, {2, 1.8}, {4, 3.1}};
        law.max_cores += pick(bytes, {0, 1, 3});
        all.tasks->set_law(i, std::move(law));
    }
}

// A star, or a switch with a link to most nodes and sometimes a direct link with a route of its
// own.
void add_links(NetworkPlan& plan, StoreId store, Bytes& bytes) {
    const auto link = [&](NodeId a, NodeId b) {
        plan.links.push_back({a, b, pick(bytes, {1, 2, 0.7, never}), pick(bytes, {0, 0.25}),
                              bytes.below(3) == 0, 0});
        return static_cast<LinkId>(plan.links.size() - 1);
    };
    plan.latency = pick(bytes, {0, 0, 0.5});
    if (bytes.below(2) == 0) return;
    const auto middle = static_cast<NodeId>(plan.nodes.size());
    plan.nodes.push_back({never, never});
    for (NodeId node = 0; node < middle; ++node)
        if (bytes.below(8) != 0) link(node, middle);
    if (bytes.below(2) == 0) return;
    const NodeId there = plan.stores[store].node;
    const LinkId direct = link(0, there);
    plan.routes.push_back({there, 0, {direct}, pick(bytes, {unknown, 0, 1}), 0});
}

// Up to two stores with nodes of their own, then those of some hosts.
std::shared_ptr<const NetworkPlan> pick_network(std::size_t machines, Bytes& bytes) {
    const auto bandwidth = [&] { return pick(bytes, {1, 2, never, 0.5, never}); };
    auto plan = std::make_shared<NetworkPlan>();
    for (std::size_t i = 0; i < machines; ++i) plan->nodes.push_back({bandwidth(), bandwidth()});
    const auto add_store = [&](NodeId node) {
        plan->stores.push_back(
            {node, pick(bytes, {never, 20, 8, 4}), bandwidth(), bandwidth(),
             bytes.below(2) ? none : static_cast<std::uint32_t>(1 + bytes.below(2)),
             pick(bytes, {0, 0, never, 3}), bandwidth()});
        return static_cast<StoreId>(plan->stores.size() - 1);
    };
    for (std::size_t i = 1 + bytes.below(2); i > 0; --i) {
        plan->nodes.push_back({bandwidth(), bandwidth()});
        add_store(static_cast<NodeId>(plan->nodes.size() - 1));
    }
    add_links(*plan, 0, bytes);
    if (bytes.below(2) == 0) return plan;
    for (NodeId machine = 0; machine < machines; ++machine)
        plan->local_stores.push_back(bytes.below(3) ? add_store(machine) : none);
    return plan;
}

// Files in stores that have room for them, and files that tasks write, also to the stores of hosts.
void add_files(Scenario& all, Bytes& bytes) {
    if (bytes.below(2) == 0) return;
    all.network = pick_network(all.machines.size(), bytes);
    auto table = std::make_shared<FileTable>();
    const auto& stores = all.network->stores;
    std::vector<double> used(stores.size());
    for (std::size_t i = 1 + bytes.below(6); i > 0; --i) {
        FileTable::File file{pick(bytes, {1, 2.5, 4, 0, 0.3}), none, false};
        if (bytes.below(4) != 0) {
            file.store = static_cast<StoreId>(bytes.below(stores.size()));
            double& held = used[file.store];
            file.exists = bytes.below(4) != 0 && held + file.bytes <= stores[file.store].capacity;
            if (file.exists) held += file.bytes;
        }
        table->files.push_back(file);
    }
    const auto add_some = [&](std::vector<std::size_t>& offsets, std::vector<FileId>& list) {
        for (std::size_t i = pick_few(bytes, 2); i > 0; --i)
            list.push_back(static_cast<FileId>(bytes.below(table->files.size())));
        offsets.push_back(list.size());
    };
    table->read_offsets = table->write_offsets = {0};
    for (TaskId task = 0; task < all.size(); ++task) {
        add_some(table->read_offsets, table->reads);
        add_some(table->write_offsets, table->writes);
    }
    if (bytes.below(2) == 0)
        table->handling = {bytes.below(3) != 0, bytes.below(2) != 0, bytes.below(3) == 0};
    table->handling.keeps_copies = table->handling.keeps_copies && table->handling.through_local;
    all.files = std::move(table);
}

SessionColumns pick_sessions(std::size_t tasks, Bytes& bytes) {
    SessionColumns made;
    if (bytes.below(3) != 0) return made;
    std::array<std::vector<TaskId>, 3> members;
    for (TaskId task = 0; task < tasks; ++task)
        if (const std::size_t which = bytes.below(4); which < members.size())
            members[which].push_back(task);
    std::vector<std::vector<TaskId>> sessions;
    for (auto& each : members)
        if (!each.empty()) sessions.push_back(std::move(each));
    made.job_offsets = made.successor_offsets = {0};
    made.dependencies.assign(sessions.size(), 0);
    for (std::uint32_t s = 0; s < sessions.size(); ++s) {
        double delay = 0.0;
        for (const TaskId task : sessions[s]) {
            made.jobs.push_back(task);
            made.delays.push_back(delay);
            delay += pick(bytes, {0, 1, 2.5});
        }
        made.job_offsets.push_back(static_cast<std::uint32_t>(made.jobs.size()));
        for (std::uint32_t later = s + 1; later < sessions.size(); ++later)
            if (bytes.below(2)) {
                made.successors.push_back(later);
                made.think_times.push_back(pick(bytes, {0, 1.5}));
                ++made.dependencies[later];
            }
        made.successor_offsets.push_back(static_cast<std::uint32_t>(made.successors.size()));
        made.starts.push_back(pick(bytes, {0, 1, 4}));
    }
    return made;
}

ModelOptions pick_options(Bytes& bytes) {
    static constexpr std::array<std::uint8_t, 3> orders[] = {
        {0, 1, 2}, {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 1, 2}};
    ModelOptions made;
    made.fixed_demand = bytes.below(2) == 0;
    made.no_delay = bytes.below(3) == 0;
    made.kill = bytes.below(3) == 0;
    made.decide_events = bytes.below(4) == 0;
    made.after_failure = static_cast<Interrupted>(bytes.below(3));
    made.after_preemption = static_cast<Interrupted>(bytes.below(2));
    if (bytes.below(4) == 0) made.max_failures = static_cast<std::uint32_t>(1 + bytes.below(2));
    if (bytes.below(3) == 0) {
        made.checkpoint_interval = pick(bytes, {1, 2, 0.3});
        made.checkpoint_cost = pick(bytes, {0, 0.25});
    }
    made.instant_order = orders[bytes.below(std::size(orders))];
    return made;
}

std::shared_ptr<const ContentionRule> pick_contention(Bytes& bytes) {
    auto rule = std::make_shared<ContentionRule>();
    if (bytes.below(2)) return rule;
    rule->kind = static_cast<ContentionRule::Kind>(bytes.below(4));
    rule->slope = 0.5;
    rule->loads = {1.0, 2.0};
    rule->inflations = {1.0, 1.5};
    rule->pressures = {0.4, 0.1, 0.0};
    rule->sensitivities = {0.1, 0.5, 0.0};
    rule->within_core = bytes.below(2) == 0;
    return rule;
}

ModelValues pick_values(const Scenario& all, Bytes& bytes) {
    ModelValues made;
    made.speed_factor = pick(bytes, {1, 0.5, 2, 0.7});
    made.service_factor = pick(bytes, {1, 1.5});
    made.startup_overhead = pick(bytes, {0, 0, 0.5});
    made.effective_capacity = pick(bytes, {1, 1, 1, 0.5, 2});
    made.dispatch_latency = pick(bytes, {0, 0, 0.25});
    made.release_latency = pick(bytes, {0, 0, 0.25});
    made.decision_interval = pick(bytes, {0, 0, 0, 2, 0.1});
    made.submission_cycle = pick(bytes, {0, 0, 1.5});
    made.submission_before = pick(bytes, {0, 0.5, 2});
    made.submission_after = pick(bytes, {0, 0.5, 2});
    made.submission_interval = pick(bytes, {0, 0, 0.3});
    made.service_factors = all.service_factors;
    made.contention = all.contention;
    return made;
}

std::unique_ptr<Controller> pick_batch(Bytes& bytes) {
    BatchOptions options;
    options.order = static_cast<QueueOrder>(bytes.below(5));
    options.backfill = static_cast<Backfill>(bytes.below(4));
    options.compress = bytes.below(2) == 0;
    options.depth = static_cast<std::uint32_t>(bytes.below(3));
    options.age = pick(bytes, {0, 0, 0.5});
    options.half_life = pick(bytes, {10, 604800});
    options.by_group = bytes.below(2) == 0;
    if (options.order == QueueOrder::priority && options.backfill == Backfill::none)
        options.preemption = static_cast<Preemption>(bytes.below(3));
    return make_batch(options);
}

std::unique_ptr<Controller> pick_filter(Bytes& bytes) {
    FilterOptions options;
    if (bytes.below(4) != 0)
        options.filters.emplace_back(Filter::vcpu, pick(bytes, {1, 1, 1.5, 2}));
    if (bytes.below(2)) options.filters.emplace_back(Filter::ram, pick(bytes, {1, 1, 2}));
    if (bytes.below(2)) options.filters.emplace_back(Filter::resource, 1.0);
    if (bytes.below(3) == 0)
        options.filters.emplace_back(Filter::instance_count, pick(bytes, {1, 2, 5}));
    if (bytes.below(3) == 0) options.filters.emplace_back(Filter::capacity, 1.0);
    for (std::size_t i = bytes.below(3); i > 0; --i)
        options.weighers.emplace_back(static_cast<Weigher>(bytes.below(4)),
                                      pick(bytes, {1, -1, 0.5}));
    options.subset = static_cast<std::uint32_t>(1 + bytes.below(2));
    options.skip = bytes.below(2) == 0;
    options.pick = static_cast<Pick>(bytes.below(3));
    options.seed = bytes.byte();
    return make_filter(options);
}

std::unique_ptr<Controller> pick_workflow(const Scenario& all, Bytes& bytes) {
    auto tables = std::make_shared<WorkflowTables>();
    for (std::size_t i = 0; i < all.machines.size(); ++i)
        tables->clusters.push_back(static_cast<std::uint32_t>(bytes.below(3)));
    // The stores with nodes of their own come first.
    if (all.network != nullptr)
        for (const NetworkPlan::PlannedStore& each : all.network->stores)
            if (each.node >= all.machines.size())
                tables->store_clusters.push_back(bytes.below(4) ? bytes.byte() % 3U : ~0U);
    switch (bytes.below(4)) {
        case 0:
            return make_completion_times({bytes.below(2) == 0, tables});
        case 1:
            return make_static_list({bytes.below(2) == 0, tables});
        default:
            break;
    }
    ListOptions options;
    options.order = static_cast<ListOrder>(bytes.below(4));
    options.cluster = static_cast<ClusterChoice>(bytes.below(4));
    options.efficiency = pick(bytes, {0, 0.5, 0.9});
    options.cap = pick(bytes, {never, 2});
    options.last_of_equals = bytes.below(2) == 0;
    options.input_only = bytes.below(2) == 0;
    options.tables = std::move(tables);
    return make_list_scheduling(options);
}

// Tasks that the policy cannot place on empty machines are rejected in advance.
void reject_impossible(Scenario& all, const Controller& controller, double capacity) {
    ModelValues values;
    values.effective_capacity = capacity;
    SchedulerState scheduler = all.make_scheduler_state(controller, values);
    for (TaskId task = 0; task < all.size(); ++task)
        scheduler.set_planned_time(task, all.requested_or_recorded_time(task));
    for (TaskId task = 0; task < all.size(); ++task)
        all.tasks->set_rejected(task, !controller.possible(scheduler, task));
}

std::shared_ptr<const Outages> pick_outages(std::size_t machines, Bytes& bytes) {
    auto made = std::make_shared<Outages>();
    for (std::size_t i = pick_few(bytes, 4); i > 0; --i) {
        Outage outage;
        outage.machine = static_cast<MachineId>(bytes.below(machines));
        outage.start = pick(bytes, {1, 3, 4.5, 8});
        outage.end = outage.start + pick(bytes, {1, 2.5, 0.3, 6, never});
        made->list.push_back(outage);
    }
    std::ranges::stable_sort(made->list, {}, &Outage::start);
    return made;
}

}  // namespace

double pick(Bytes& bytes, std::initializer_list<double> values) {
    return values.begin()[bytes.below(values.size())];
}

std::shared_ptr<const PowerModel> pick_power(Bytes& bytes) {
    auto model = std::make_shared<PowerModel>();
    model->kind = static_cast<PowerKind>(bytes.below(9));
    model->idle = pick(bytes, {0, 50});
    model->max = pick(bytes, {50, 200});
    // With a smaller exponent of `mse`, watts would be negative.
    model->parameter = model->kind == PowerKind::mse ? 1.4 : 0.3;
    model->dvfs = bytes.below(2) == 0;
    model->levels = {0.0, 0.5, 1.0};
    model->watts = {30.0, 120.0, 150.0};
    return model;
}

MachineSpec pick_machine(Bytes& bytes, bool limited) {
    return {pick(bytes, {1, 2, 4, 1.5}), limited ? pick(bytes, {4, 8}) : never,
            pick(bytes, {1, 0.5, 2, 0.3}), pick(bytes, {0, 1000, 2000})};
}

Task pick_task(Bytes& bytes) {
    static const double none = std::numeric_limits<double>::quiet_NaN();
    Task task;
    Request& request = task.request;
    // A task without cores that demands some lets all machines be shared: rarely.
    request.cores = bytes.below(40) == 1 ? 0.0 : pick(bytes, {1, 2, 3, 1, 0.5, 0.7, 1});
    request.memory = pick(bytes, {0, 0, 1, 3});
    request.time = pick(bytes, {none, 1, 2, 5, 30});
    request.submit = static_cast<double>(bytes.below(12));
    request.priority = static_cast<double>(bytes.below(4));
    request.mhz = pick(bytes, {0, 0, 0, 1500});
    request.nodes = request.cores >= 1 && bytes.below(3) == 0
                        ? static_cast<std::int32_t>(1 + bytes.below(2))
                        : 0;
    request.user = static_cast<std::int32_t>(bytes.below(3)) - 1;
    request.group = static_cast<std::int32_t>(bytes.below(2));
    request.queue = static_cast<std::int32_t>(bytes.below(3)) - 1;
    task.limit = std::max(request.cores, 0.1) * pick(bytes, {1, 0.5, 0.3});
    task.work = task.limit * pick(bytes, {2, 0, 1, 3.5, 7, 0.1});
    task.kind = static_cast<std::uint16_t>(bytes.below(kinds));
    return task;
}

RandomScenario::RandomScenario(Bytes& bytes) : scenario(std::make_shared<Scenario>()) {
    Scenario& made = *scenario;
    add_machines(made, bytes);
    add_states(made, bytes);
    add_tasks(made, bytes);
    add_files(made, bytes);
    made.options = pick_options(bytes);
    made.options.managed = bytes.below(3) == 0;
    made.contention = pick_contention(bytes);
    for (std::size_t kind = 0; kind < kinds; ++kind)
        made.service_factors.push_back(pick(bytes, {1, 1, 0.5, 1.25}));
    values = pick_values(made, bytes);
    batch = bytes.below(2) == 0;
    if (batch && bytes.below(3) == 0) controller = pick_workflow(made, bytes);
    else controller = batch ? pick_batch(bytes) : pick_filter(bytes);
    made.complete();
    reject_impossible(made, *controller, values.effective_capacity);
    made.submissions =
        std::make_shared<const Submissions>(*made.tasks, pick_sessions(made.size(), bytes));
    all = pick_outages(made.machines.size(), bytes);
    auto first = std::make_shared<Outages>(*all);
    if (bytes.below(3) == 0) {
        first->until = 4.0;
        std::erase_if(first->list, [&](const Outage& each) { return each.start >= first->until; });
    }
    made.outages = known = std::move(first);
    recording.placements = recording.use = true;
    recording.orders = bytes.below(2) == 0;
    recording.machines = bytes.below(2) == 0;
    recording.usage_step = pick(bytes, {never, never, 0.7, 1, 3});
    recording.usage_rows = pick(bytes, {never, never, never, 20});
}
