#include "world_laws.hpp"

#include <bit>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "bytes.hpp"

using namespace twinloop;

namespace {

// --- capacity -----------------------------------------------------------------------------------

bool is_suitable(const World& world, const Request& request, MachineId machine) {
    const double mhz = world.scheduler().machines()[machine].mhz;
    if (mhz > 0 && mhz < request.mhz) return false;
    const auto& queues = world.state().scenario->queues;
    const auto queue = static_cast<std::size_t>(request.queue);
    if (request.queue < 0 || queue >= queues.size() || queues[queue].machines.empty()) return true;
    return machine < queues[queue].machines.size() && queues[queue].machines[machine] != 0;
}

bool is_open(const World& world, MachineId machine) {
    const MachineId host = world.scheduler().host_of(machine);
    return world.state().fleet[machine].running() &&
           (host == no_machine || world.state().fleet[host].running());
}

bool keeps_tasks(const World& world, MachineId machine) {
    const SchedulerState& scheduler = world.scheduler();
    const MachineId host = scheduler.host_of(machine);
    const StateId state = world.state().fleet[machine].state;
    return world.state().fleet[machine].is_up() &&
           scheduler.state_table(machine)[state].keeps_tasks &&
           (host == no_machine || keeps_tasks(world, host));
}

void check_capacity(const World& world, bool overcommits) {
    const SchedulerState& scheduler = world.scheduler();
    const Space& space = scheduler.space();
    std::vector<double> cores(space.size());
    std::vector<double> memory(space.size());
    std::vector<double> amounts(space.size() * space.resources());
    std::vector<std::uint32_t> instances(space.size());
    for (const TaskId task : scheduler.running()) {
        const Needs needs = scheduler.needs(task);
        const double whole = scheduler.placed_cores(task, scheduler.parts(task));
        double all = 0.0;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                const double share = part.share_of(whole);
                all += part.cores;
                cores[m] += part.cores;
                memory[m] += needs.memory * share;
                for (std::size_t r = 0; r < space.resources(); ++r)
                    amounts[m * space.resources() + r] += needs.amounts[r] * share;
                ++instances[m];
                if (scheduler.phase(task) == Phase::running)
                    require(keeps_tasks(world, m), "tasks are on machines that run or keep them");
                require(is_suitable(world, scheduler.request(task), m),
                        "tasks are on machines of their queue, with the clock they need");
            }
        require(near(all, whole, 1.0), "a running task has all its cores");
        if (scheduler.tasks()[task].moldable) {
            const SpeedupLaw& law = scheduler.tasks().law(task);
            require(all >= law.min_cores - slack && all <= law.max_cores + slack,
                    "a moldable task has as many cores as its law allows");
        }
    }
    for (MachineId m = 0; m < space.size(); ++m) {
        const MachineId host = scheduler.host_of(m);
        if (host == no_machine) continue;
        const MachineSpec& spec = scheduler.machines()[m];
        cores[host] += spec.cores;
        if (std::isfinite(spec.memory)) memory[host] += spec.memory;
        ++instances[host];
    }
    double total = 0.0;
    for (MachineId m = 0; m < space.size(); ++m) {
        const MachineSpec& spec = scheduler.machines()[m];
        require(near(space.cores(m) + cores[m], spec.cores, 1.0),
                "free and occupied cores are all cores");
        require(overcommits || space.cores(m) >= -slack, "no core is occupied twice");
        if (std::isfinite(spec.memory))
            require(near(space.memory(m) + memory[m], spec.memory, 1.0),
                    "free and occupied memory are all memory");
        for (std::size_t r = 0; r < space.resources(); ++r)
            require(near(space.amount(m, r) + amounts[m * space.resources() + r],
                         scheduler.empty_space().amount(m, r), 1.0),
                    "free and occupied amounts are all amounts");
        require(space.occupants(m) == instances[m],
                "the tasks and instances of a machine are counted");
        require(space.open(m) == is_open(world, m), "running machines are open");
        if (space.open(m)) total += std::max(0.0, space.cores(m));
    }
    require(near(space.total_cores(), total, 1.0), "the free cores are those of open machines");
}

void check_queues(const World& world) {
    const SchedulerState& scheduler = world.scheduler();
    const auto& rules = world.state().scenario->queues;
    std::map<std::int32_t, std::uint32_t> admitted;
    std::map<std::pair<std::int32_t, std::int32_t>, std::uint32_t> of_user;
    std::size_t waiting = 0;
    for (TaskId task = 0; task < scheduler.task_count(); ++task) {
        const Phase phase = scheduler.phase(task);
        if (phase == Phase::waiting) ++waiting;
        if (phase != Phase::waiting && phase != Phase::running && phase != Phase::ending) continue;
        const Request& request = scheduler.request(task);
        ++admitted[request.queue];
        ++of_user[{request.queue, request.user}];
    }
    require(waiting == scheduler.waiting_count(), "waiting tasks are counted");
    for (std::size_t i = 0; i < rules.size(); ++i)
        require(admitted[static_cast<std::int32_t>(i)] <= rules[i].max_running,
                "a queue admits at most its limit");
    for (const auto& [key, count] : of_user)
        if (key.first >= 0 && static_cast<std::size_t>(key.first) < rules.size())
            require(count <= rules[static_cast<std::size_t>(key.first)].max_running_per_user,
                    "a queue admits at most its limit of each user");
}

// Where machines are shared, and of transfers: no rate above its limit, no use above the capacity,
// none left over. An activity of an instance uses its lease and the host.
void check_rates(const World& world) {
    const WorldState& state = world.state();
    Simulation simulation(state.simulation);
    const auto used_by = [&](ActivityId id) {
        const auto route = simulation.activity(id).route.view();
        std::vector<ResourceId> all(route.begin(), route.end());
        if (simulation.is_lease(all.front())) all.push_back(simulation.lease(all.front()).host);
        return all;
    };
    std::vector<double> drawn(simulation.resource_count());
    for (const ActivityId id : simulation.activities()) {
        require(simulation.rate(id) <= simulation.activity(id).limit * (1 + 1e-9),
                "no task or transfer draws more than it demands");
        for (const ResourceId each : used_by(id)) drawn[each] += simulation.rate(id);
    }
    for (ResourceId m = 0; m < drawn.size(); ++m)
        require(drawn[m] <= simulation.capacity(m) * (1 + 1e-9), "no capacity is exceeded");
    for (const ActivityId id : simulation.activities()) {
        if (simulation.activity(id).state != State::running) continue;
        const bool full = std::ranges::any_of(used_by(id), [&](ResourceId each) {
            return drawn[each] >= simulation.capacity(each) * (1 - 1e-9);
        });
        require(simulation.rate(id) >= simulation.activity(id).limit * (1 - 1e-9) || full,
                "a task draws what it demands, or its machine is full; so does a transfer on its "
                "route");
    }
}

// --- transfers ----------------------------------------------------------------------------------

// The streams and the space of stores are those of the transfers in progress and of the files.
void check_stores(const World& world) {
    const WorldState& state = world.state();
    const Transfers& transfers = state.staging.transfers;
    std::vector<std::uint32_t> active(transfers.stores.size());
    std::vector<std::uint32_t> waiting(transfers.stores.size());
    std::vector<double> promised(transfers.stores.size());
    std::vector<double> held(transfers.stores.size());
    FileId last = none;
    transfers.files().each([&](FileId file, StoreId store, double bytes) {
        held[store] += bytes;
        if (state.staging.copies.contains({file, store})) return;
        require(file != last, "a file is in one store, apart from copies on hosts");
        last = file;
        const StoreId given = state.scenario->files->files[file].store;
        require(given == none || given == store, "a file is in the store that it belongs to");
    });
    std::size_t live = 0;
    for (const StagingState::Cursor& cursor : state.staging.cursors) {
        if (cursor.held > 0) promised[cursor.local] += cursor.held;
        if (cursor.transfer == none) continue;
        ++live;
        const Transfers::Transfer& each = transfers[cursor.transfer];
        require(each.used && state.simulation.alive(each.activity),
                "a transfer in progress has an activity");
        if (each.spec.target != none) promised[each.spec.target] += each.spec.bytes;
        bool first = true;
        for (const StoreId store : {each.spec.source, each.spec.target}) {
            if (store == none) continue;
            ++(each.waits ? waiting[store] : active[store]);
            first = first && each.waits && transfers.stores[store].has_stream() &&
                    transfers.stores[store].waiting.front() == cursor.transfer;
        }
        require(!each.waits || !first, "no transfer waits for a stream that is free");
    }
    require(live == transfers.live(), "every transfer belongs to an execution");
    for (StoreId id = 0; id < transfers.stores.size(); ++id) {
        const DataStore& store = transfers.stores[id];
        require(near(store.used(), held[id], 1.0), "the use of a store is that of its files");
        require(near(store.promised(), promised[id], 1.0),
                "a store promises the bytes of its incoming transfers");
        require(store.used() + store.promised() <= store.spec.capacity * (1 + 1e-9),
                "no store holds more than its capacity");
        require(store.active == active[id] && store.active <= store.spec.streams,
                "the streams of a store are those of its transfers");
        require(store.waiting.size() == waiting[id], "the queue of a store has waiting transfers");
    }
}

// The least time of a transfer: the latency of its route, and its bytes over the narrowest
// resource. 0 for instances and for machines that were added in the run.
double least_transfer_time(const WorldState& state, const TransferRow& row, double bytes) {
    if (row.machine >= state.scenario->machines.size()) return 0.0;
    Network network = state.staging.transfers.network;
    const DataStore& its_store = state.staging.transfers.stores[row.store];
    const DataStoreSpec& store = its_store.spec;
    const NodeId here = row.machine;
    const Network::Path& path =
        row.read ? network.path(store.node, here) : network.path(here, store.node);
    std::vector<ResourceId> resources = path.resources;
    if (const ResourceId own = row.read ? store.read : store.write;
        own != none && !its_store.page_cache.is_open())
        resources.push_back(own);
    double bandwidth = largest;
    for (const ResourceId each : resources)
        bandwidth = std::min(bandwidth, state.simulation.capacity(each));
    return network.latency(path) + bytes / bandwidth;
}

void check_transfers(const World& world) {
    const WorldState& state = world.state();
    const TransferLog& log = state.records.transfers;
    for (std::size_t i = 0; i < log.size(); ++i) {
        const double size = state.scenario->files->files[log[i].file].bytes;
        require(!log[i].finished || log[i].bytes == size, "a finished transfer has moved its file");
        require(log[i].bytes >= 0 && log[i].bytes <= size * (1 + 1e-9),
                "a transfer moves at most its file");
        require(log[i].end <= world.now(), "records are of the past");
        const double least = least_transfer_time(state, log[i], log[i].bytes);
        if (log[i].bytes > 0 || log[i].finished)
            require(log[i].end - log[i].start >= least - 1e-9 * (1 + log[i].end),
                    "no transfer is faster than its route");
    }
}

// The seconds of the transfers of a completed task; those of its last execution are its files, in
// order.
double check_files(const World& world, TaskId task) {
    const WorldState& state = world.state();
    if (!state.has_files()) return 0.0;
    const auto reads = state.scenario->files->read_by(task);
    const auto writes = state.scenario->files->written_by(task);
    std::vector<FileId> files(reads.begin(), reads.end());
    files.insert(files.end(), writes.begin(), writes.end());
    std::vector<TransferRow> rows;
    double seconds = 0.0;
    const bool stages = state.scenario->files->handling.through_local;
    for (std::size_t i = 0; i < state.records.transfers.size(); ++i) {
        const TransferRow& row = state.records.transfers[i];
        if (row.task != task) continue;
        seconds += row.end - row.start;
        require(!row.staged || stages, "files are staged only where stores of hosts are used");
        // Copies on hosts decide which files are staged.
        if (!row.staged) rows.push_back(row);
    }
    require(rows.size() >= files.size(), "a completed task has transferred its files");
    for (std::size_t i = 0; i < files.size(); ++i) {
        const TransferRow& row = rows[rows.size() - files.size() + i];
        require(row.finished && row.file == files[i] && row.read == (i < reads.size()),
                "a completed task has read its files and then written others");
    }
    return seconds;
}

// --- energy -------------------------------------------------------------------------------------

struct Integrals {
    double energy = 0.0;
    double idle = 0.0;  // the energy while the machine was not used
    double use = 0.0;   // reference core-seconds
};

// The slow way: all recorded changes of use, from one to the next.
std::vector<Integrals> integrate_use(const World& world) {
    const WorldState& state = world.state();
    const UseLog& log = state.records.use;
    std::vector<Integrals> made(state.fleet.size());
    std::vector<double> since(made.size(), state.begin);
    std::vector<double> used(made.size(), unknown);
    std::vector<double> capacity(made.size());
    std::vector<double> then(made.size());   // the capacity at the last record
    std::vector<double> watts(made.size());  // in a state other than running
    for (MachineId m = 0; m < state.scenario->machines.size(); ++m) {
        const MachineSpec& spec = state.scenario->machines[m];
        capacity[m] = spec.cores * spec.speed * state.values.speed_factor;
    }
    const auto close = [&](MachineId m, double now) {
        const double seconds = now - since[m];
        require(seconds >= 0, "records are in the order of time");
        since[m] = now;
        if (std::isnan(used[m])) {
            made[m].energy += watts[m] * seconds;
            made[m].idle += watts[m] * seconds;
            return;
        }
        require(used[m] >= 0 && used[m] <= then[m] * (1 + 1e-9), "use is within the capacity");
        made[m].use += used[m] * seconds;
        if (!state.fleet[m].power) return;
        const double joules =
            seconds * state.fleet[m].power->at(then[m] > 0 ? used[m] / then[m] : 0.0);
        made[m].energy += joules;
        if (used[m] <= 1e-12 * then[m]) made[m].idle += joules;
    };
    std::size_t resize = 0;
    std::size_t power = 0;
    for (std::size_t i = 0; i < log.size(); ++i) {
        const MachineId m = log[i].machine;
        close(m, log[i].t);
        watts[m] = 0.0;
        if (power < log.state_powers.size() && log.state_powers[power].place == i)
            watts[m] = log.state_powers[power++].watts;
        for (; resize < log.resizes.size() && log.resizes[resize].place == i; ++resize)
            capacity[log.resizes[resize].machine] = log.resizes[resize].capacity;
        used[m] = log[i].used;
        then[m] = capacity[m];
    }
    for (MachineId m = 0; m < made.size(); ++m) close(m, world.now());
    return made;
}

void check_energy(const World& world) {
    const std::vector<Integrals> expected = integrate_use(world);
    double machines = 0.0;
    double idle = 0.0;
    double instances = 0.0;
    for (MachineId m = 0; m < expected.size(); ++m) {
        if (world.state().fleet[m].is_instance) {
            instances += world.energy(m);
            continue;
        }
        require(near(world.energy(m), expected[m].energy, 1.0),
                "the energy of a machine is the integral of its power");
        machines += expected[m].energy;
        idle += expected[m].idle;
    }
    double tasks = 0.0;
    for (TaskId task = 0; task < world.tasks().size(); ++task) {
        const double energy = world.energy_of(task);
        require(energy >= -1e-9 * std::max(machines, 1.0), "the energy of a task is not negative");
        tasks += energy;
    }
    require(instances <= tasks + 1e-9 * std::max(machines, 1.0),
            "the energy of instances is that of their tasks");
    require(near(tasks + idle, machines, 1.0),
            "the energy of tasks and idle machines is that of all machines");
}

// --- outcomes -----------------------------------------------------------------------------------

bool is_ordered(double earlier, double later) {
    return std::isnan(earlier) || std::isnan(later) || earlier <= later;
}

void check_task(const World& world, TaskId id) {
    const WorldState& state = world.state();
    const TaskRun& run = world.tasks()[id];
    const Task& task = state.task(id);
    require(run.status != Status::none, "every task has a status at the end");
    require(is_ordered(run.submit, run.ready) && is_ordered(run.ready, run.start) &&
                is_ordered(run.start, run.last_start) && is_ordered(run.last_start, run.end),
            "the events of a task are in order");
    require(run.attempts > 0 || run.status != Status::completed, "a completed task has started");
    require(run.failures <= run.attempts && run.failures <= state.options().max_failures,
            "failures are limited");
    const double work = task.work * state.service_factor(task);
    // Without delay, demand that is not met during the pauses of checkpoints counts as lost work.
    const bool pauses =
        state.sharing == SharingMode::no_delay && state.options().checkpoint_cost > 0;
    require((run.done >= -1e-9 || pauses) && run.done <= run.attempts * work * (1 + 1e-9) + 1e-9,
            "each execution does at most the work");
    if (run.status == Status::completed && run.attempts == 1 &&
        state.sharing != SharingMode::no_delay)
        // The cores of a placement add up to the request but for `slack`.
        require(std::abs(run.done - work) <=
                    2 * slack * std::max(1.0, work / std::max(task.request.cores, slack)),
                "a completed execution has done the work");
    if (run.status == Status::completed) (void)check_files(world, id);
    state.scheduler.tasks().each_child(id, [&](TaskId child) {
        const TaskRun& then = world.tasks()[child];
        if (then.attempts == 0) return;
        require(run.status == Status::completed && run.end <= then.ready,
                "a child starts after its parents have completed");
    });
}

// The duration of the first execution of a task without sharing; NaN where that is not simple.
double expected_duration(const World& world, TaskId id, std::span<const Part> parts) {
    const WorldState& state = world.state();
    const Task& task = state.task(id);
    if (task.fragments > 0 || state.options().checkpoint_interval < never ||
        state.values.startup_overhead > 0)
        return unknown;
    const double speed = state.fleet.slowest_of(parts);
    const double stretch = state.options().fixed_demand ? 1.0 : speed / task.speed;
    return task.length * (state.service_factor(task) / stretch) *
           state.scheduler.time_scale(id, parts);
}

bool uses_files(const WorldState& state, TaskId task) {
    return state.has_files() && !(state.scenario->files->read_by(task).empty() &&
                                  state.scenario->files->written_by(task).empty());
}

void check_executions(const World& world) {
    const WorldState& state = world.state();
    // Executions wait for machines in states that keep them, and instances change their speed.
    if (state.records.states.size() > 0 || state.records.instances.size() > 0) return;
    const PlacementLog& log = state.records.placements;
    const auto& order = state.options().instant_order;
    for (std::size_t i = 0; i < log.size();) {
        std::vector<Part> parts;
        const std::size_t first = i;
        for (; i < log.size() && log[i].task == log[first].task &&
               log[i].attempt == log[first].attempt;
             ++i)
            parts.push_back({log[i].machine, log[i].count, log[i].cores});
        const double start = log[first].start;
        const double end = log[first].end;
        require(start <= end, "no execution ends before its start");
        const TaskId task = log[first].task;
        const Reason reason = log[first].reason;
        double duration = expected_duration(world, task, parts);
        if (log[first].attempt > 0 || std::isnan(duration)) continue;
        if (uses_files(state, task)) {
            if (reason != Reason::completed) continue;
            duration += check_files(world, task);
            const double spent = end - start;
            require(state.sharing == SharingMode::delay ? spent >= duration - 1e-9 * (1 + end)
                                                        : near(spent, duration, 1 + end),
                    "an execution takes its run time and that of its transfers");
            continue;
        }
        if (reason == Reason::completed && state.sharing == SharingMode::delay)
            require(end - start >= duration * (1 - 1e-9) - 1e-9 * end,
                    "shared machines do not make tasks faster");
        if (reason == Reason::completed && state.sharing != SharingMode::delay)
            require(end == start + duration, "an execution without delay takes its run time");
        if ((reason == Reason::failed || reason == Reason::lost) && duration > 0 &&
            state.sharing != SharingMode::delay && order[0] < order[1])
            require(end < start + duration, "a task that ends when its machine fails has ended");
    }
}

// What a workflow manager adds between a task and the scheduler, and between parents and children.
void check_submissions(const World& world) {
    const WorldState& state = world.state();
    if (!state.options().managed) return;
    const ModelValues& values = state.values;
    for (TaskId task = 0; task < world.tasks().size(); ++task) {
        const TaskRun& mine = world.tasks()[task];
        if (mine.attempts > 0 && !std::isnan(mine.start))
            require(mine.start >= mine.ready + values.submission_interval +
                                      values.submission_before + values.dispatch_latency -
                                      1e-9 * (1 + mine.start),
                    "a job is not started before the scheduler sees it");
        if (mine.status != Status::completed) continue;
        state.scheduler.tasks().each_child(task, [&](TaskId child) {
            // A program that adds a task knows that its parent has ended.
            if (child >= state.scenario->size()) return;
            const double ready = world.tasks()[child].ready;
            require(std::isnan(ready) ||
                        ready >= mine.end + values.submission_after - 1e-9 * (1 + ready),
                    "children are ready when the workflow manager knows of the end");
        });
    }
    // The manager hands over one job after the other.
    if (!(values.submission_interval > 0)) return;
    std::vector<double> starts;
    world.tasks().each([&](const TaskRun& each) {
        if (each.attempts > 0 && !std::isnan(each.start)) starts.push_back(each.start);
    });
    std::ranges::sort(starts);
    for (std::size_t i = 1; i < starts.size(); ++i)
        require(starts[i] >= state.begin + static_cast<double>(i + 1) * values.submission_interval -
                                 1e-9 * (1 + starts[i]),
                "no more jobs start than the workflow manager has handed over");
}

void check_windows(const World& world) {
    const WorldState& state = world.state();
    const PlacementLog& log = state.records.placements;
    for (std::size_t i = 0; i < log.size(); ++i) {
        const Request& request = state.task(log[i].task).request;
        const double placed = log[i].start - state.values.dispatch_latency;
        for (const AccessWindow& window : state.scenario->windows) {
            if (!(placed > window.start - 1e-9 && placed < window.end - 1e-9)) continue;
            if (std::ranges::find(window.users, request.user) != window.users.end() ||
                std::ranges::find(window.queues, request.queue) != window.queues.end())
                continue;
            for (MachineId m = log[i].machine; m < log[i].machine + log[i].count; ++m)
                require(m >= window.machines.size() || window.machines[m] == 0,
                        "no task is placed in a window of others");
        }
    }
}

// Where all machines are equally fast, the CPU time of tasks is the use of machines.
void check_use(const World& world) {
    const WorldState& state = world.state();
    if (!state.fleet.equally_fast()) return;
    double machines = 0.0;
    for (const Integrals& each : integrate_use(world)) machines += each.use;
    double tasks = 0.0;
    world.tasks().each([&](const TaskRun& each) { tasks += each.used * state.fleet.slowest(); });
    require(near(tasks, machines, 1.0), "the CPU time of tasks is the use of machines");
}

// Usage windows add up to the CPU time.
void check_usage(const World& world) {
    if (!world.state().records.usage) return;
    std::vector<double> counted(world.tasks().size());
    for (const UsageLog::Row& row : world.state().records.usage->rows())
        for (const double cpu : row.cpu) counted[row.task] += cpu;
    for (TaskId task = 0; task < counted.size(); ++task)
        require(near(counted[task], world.tasks()[task].used, 1.0),
                "the windows of a task add up to its CPU time");
}

void check_leaks(const World& world, double instant) {
    const WorldState& state = world.state();
    Simulation simulation(state.simulation);
    simulation.wait(simulation.now());  // settles the changes after the last instant
    require(state.open == 0, "no task is open at the end");
    require(simulation.live() == 0, "no activity is left at the end");
    require(state.usage_timers == 0, "no usage timer is left at the end");
    require(state.staging.transfers.live() == 0, "no transfer is left at the end");
    std::size_t expected = 0;
    for (TaskId task = 0; task < world.tasks().size(); ++task) {
        const std::uint32_t slot = world.tasks()[task].slot;
        if (slot == Executions::no_slot) continue;
        require(state.executions[slot].task == task && state.executions[slot].step == Step::release,
                "only executions that release their machines are left at the end");
        ++expected;
    }
    // Recoveries after the last instant; up to now, transitions may have led to later instants.
    std::size_t later = 0;
    std::size_t left = 0;
    for (std::size_t i = 0; i < state.next_outage; ++i) {
        const double end = state.outages->list[i].end;
        if (end < never && end > world.now()) ++later;
        if (end < never && end > instant) ++left;
    }
    expected += state.transitions;
    // The workflow manager may learn later of ends on which no open task depends.
    for (const EventId timer : {state.submissions, state.outage, state.decision,
                                state.manager.submission, state.manager.end})
        if (timer != none && simulation.timer_set(timer)) ++expected;
    require(expected + later <= simulation.pending() && simulation.pending() <= expected + left,
            "no event is left at the end but of the background");
}

// --- equality -----------------------------------------------------------------------------------

bool is_same(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
template <class T>
bool is_same(const T& a, const T& b) {
    return a == b;
}
template <class T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
    return std::ranges::equal(a, b, [](const T& x, const T& y) { return is_same(x, y); });
}
// Whether `same(row, other row)` holds for all rows.
template <class Row, class Same>
bool is_same(const SharedRows<Row>& a, const SharedRows<Row>& b, Same&& same) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same(a[i], b[i])) return false;
    return true;
}

}  // namespace

void check_state(const World& world, bool overcommits) {
    check_capacity(world, overcommits);
    check_queues(world);
    check_rates(world);
    check_stores(world);
    check_energy(world);
}

void check_end(const World& world, double instant) {
    for (TaskId task = 0; task < world.tasks().size(); ++task) check_task(world, task);
    check_leaks(world, instant);
    check_transfers(world);
    check_executions(world);
    check_submissions(world);
    check_windows(world);
    check_use(world);
    check_usage(world);
}

void check_equal(const World& left, const World& right) {
    const WorldState& a = left.state();
    const WorldState& b = right.state();
    require(is_same(left.now(), right.now()) && a.events == b.events && a.open == b.open &&
                a.simulation.pending() == b.simulation.pending(),
            "copies are at the same time, after the same events");
    require(left.tasks().size() == right.tasks().size(), "copies have the same tasks");
    for (TaskId task = 0; task < left.tasks().size(); ++task) {
        const TaskRun& x = left.tasks()[task];
        const TaskRun& y = right.tasks()[task];
        require(is_same(x.submit, y.submit) && is_same(x.ready, y.ready) &&
                    is_same(x.start, y.start) && is_same(x.last_start, y.last_start) &&
                    is_same(x.end, y.end) && is_same(x.last_end, y.last_end) &&
                    is_same(x.done, y.done) && is_same(x.used, y.used) && x.slot == y.slot &&
                    x.attempts == y.attempts && x.failures == y.failures && x.status == y.status,
                "copies have the same outcomes");
        require(is_same(left.energy_of(task), right.energy_of(task)) &&
                    is_same(left.progress(task), right.progress(task)),
                "copies have the same progress");
    }
    for (MachineId m = 0; m < a.fleet.size(); ++m)
        require(is_same(left.energy(m), right.energy(m)), "copies have the same energy");
    require(is_same(a.records.placements, b.records.placements,
                    [](const PlacementRow& x, const PlacementRow& y) {
                        return x.task == y.task && x.attempt == y.attempt &&
                               x.machine == y.machine && x.count == y.count &&
                               is_same(x.cores, y.cores) && is_same(x.start, y.start) &&
                               is_same(x.end, y.end) && x.reason == y.reason;
                    }),
            "copies have the same placements");
    require(is_same(a.records.use, b.records.use,
                    [](const UseRow& x, const UseRow& y) {
                        return x.machine == y.machine && is_same(x.t, y.t) &&
                               is_same(x.used, y.used);
                    }),
            "copies have the same use");
    require(is_same(a.records.orders, b.records.orders,
                    [](const OrderRow& x, const OrderRow& y) {
                        return is_same(x.t, y.t) && x.kind == y.kind && x.task == y.task &&
                               x.machine == y.machine;
                    }) &&
                is_same(a.records.last_machines, b.records.last_machines,
                        [](MachineId x, MachineId y) { return x == y; }),
            "copies have the same orders");
    require(is_same(a.records.states, b.records.states,
                    [](const StateRow& x, const StateRow& y) {
                        return x.machine == y.machine && is_same(x.start, y.start) &&
                               is_same(x.finish, y.finish) && x.kind == y.kind;
                    }),
            "copies have the same states");
    require(is_same(a.records.instances, b.records.instances,
                    [](const InstanceRow& x, const InstanceRow& y) {
                        return x.instance == y.instance && x.host == y.host &&
                               is_same(x.cores, y.cores) && is_same(x.start, y.start) &&
                               is_same(x.finish, y.finish) && x.reason == y.reason;
                    }),
            "copies have the same instances");
    require(is_same(a.records.transfers, b.records.transfers,
                    [](const TransferRow& x, const TransferRow& y) {
                        return x.task == y.task && x.file == y.file && x.store == y.store &&
                               x.machine == y.machine && x.read == y.read &&
                               x.finished == y.finished && is_same(x.bytes, y.bytes) &&
                               is_same(x.start, y.start) && is_same(x.end, y.end);
                    }),
            "copies have the same transfers");
    for (StoreId id = 0; id < a.staging.transfers.stores.size(); ++id) {
        const DataStore& x = a.staging.transfers.stores[id];
        const DataStore& y = b.staging.transfers.stores[id];
        require(is_same(x.used(), y.used()) && is_same(x.promised(), y.promised()) &&
                    x.active == y.active && x.waiting == y.waiting,
                "copies have the same stores");
    }
    const auto list = [](const WorldState& state) {
        std::vector<std::tuple<FileId, StoreId, double>> files;
        state.staging.transfers.files().each([&](FileId file, StoreId store, double bytes) {
            files.emplace_back(file, store, bytes);
        });
        return files;
    };
    require(list(a) == list(b), "copies have the same files");
    require(a.records.usage.has_value() == b.records.usage.has_value(), "copies keep usage alike");
    if (!a.records.usage) return;
    const auto rows = a.records.usage->rows();
    const auto others = b.records.usage->rows();
    require(rows.size() == others.size(), "copies have as many usage rows");
    for (std::size_t i = 0; i < rows.size(); ++i)
        require(rows[i].task == others[i].task && rows[i].machine == others[i].machine &&
                    is_same(rows[i].start, others[i].start) &&
                    is_same(rows[i].end, others[i].end) && is_same(rows[i].cpu, others[i].cpu),
                "copies have the same usage");
}
