// The state of a world: a value, from which a copy continues in the same way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "control/scheduler_state.hpp"
#include "kernel/shared_rows.hpp"
#include "kernel/simulation.hpp"
#include "platform/fleet.hpp"
#include "record/records.hpp"
#include "work/execution.hpp"
#include "work/outcome.hpp"
#include "work/submitter.hpp"
#include "world/cloud_state.hpp"
#include "world/scenario.hpp"
#include "world/store_state.hpp"

namespace twinloop {

// A task in a run.
struct TaskRun : Outcome {
    std::uint32_t slot = Executions::no_slot;  // of its execution
    std::uint32_t missing_parents = 0;
    std::uint32_t ended_as = 0;  // its place among the tasks that have ended, from 1
};

// The sharing of machines: exclusive (no task can demand more than its cores provide), or by
// activities of the kernel, which delay tasks or (no delay) lose work.
enum class SharingMode : std::uint8_t { exclusive, delay, no_delay };

// The transfers of a run.
struct StagingState {
    struct Cursor {
        std::uint32_t next = 0;  // movement of the present step
        std::uint32_t leg = 0;   // of the present movement
        TransferId transfer = none;
        MachineId machine = no_machine;
        bool refused = false;
        StoreId home = none;   // the store of the present file
        StoreId local = none;  // the store of the host, if files pass through it
        double held = 0.0;     // bytes there that belong to the execution, until it ends
        double begun = 0.0;    // when the present movement was registered
    };
    // The node and the local store of a machine that was added in the run; an instance has neither.
    struct AddedNode {
        NodeId node = none;
        StoreId store = none;
    };
    // A copy of a file in the store of a host, for later tasks there.
    struct Copy {
        FileId file = none;
        StoreId store = none;

        bool operator<(const Copy& other) const {
            return std::pair(file, store) < std::pair(other.file, other.store);
        }
    };
    Transfers transfers;
    std::vector<Cursor> cursors;           // by slot of the execution
    std::vector<AddedNode> added;          // by machine, after those of the scenario
    std::map<Copy, std::uint64_t> copies;  // with the order of their last use
    std::uint64_t copy_uses = 0;
};

// Tasks that a workflow manager delays. All are delayed by the same time, so that they are released
// in the order in which they came.
class DelayedTasks {
  public:
    void add(TaskId task, double until) { tasks_.push_back({until, task}); }
    [[nodiscard]] double next_time() const { return tasks_.empty() ? never : tasks_.front().until; }
    [[nodiscard]] bool has(TaskId task) const {
        return std::ranges::find(tasks_, task, &Entry::task) != tasks_.end();
    }
    [[nodiscard]] bool empty() const { return tasks_.empty(); }
    TaskId take() {
        const TaskId task = tasks_.front().task;
        tasks_.pop_front();
        return task;
    }

  private:
    struct Entry {
        double until;
        TaskId task;
    };
    std::deque<Entry> tasks_;
};

// What a workflow manager has to do: hand jobs to the scheduler, and learn of their ends.
struct ManagerState {
    DelayedTasks submitted;
    DelayedTasks ended;
    double free_at = -never;  // when it has handed over the last job
    EventId submission = none;
    EventId end = none;
};

// The subjects of the kernel's events, encoded in their tokens.
enum class Subject : std::uint8_t {
    execution,
    submission,
    outage,
    recovery,
    transition,
    decision,
    usage,
    instance,
    price,
    job_submission,  // by the workflow manager
    job_end          // that the workflow manager learns of
};
[[nodiscard]] constexpr std::uint64_t make_token(Subject subject, std::uint64_t index = 0) {
    return index << 4 | static_cast<std::uint64_t>(subject);
}
[[nodiscard]] constexpr Subject subject_of(std::uint64_t token) {
    return static_cast<Subject>(token & 15U);
}
[[nodiscard]] constexpr std::uint32_t index_of(std::uint64_t token) {
    return static_cast<std::uint32_t>(token >> 4);
}

struct WorldState {
    std::shared_ptr<const Scenario> scenario;
    std::shared_ptr<const Outages> outages;  // the known ones of this run
    ModelValues values;
    Submitter submitter;
    double begin;
    Simulation simulation;
    StagingState staging;  // empty if no files are transferred
    StoreRequestState requests;
    ManagerState manager;
    Fleet fleet;
    // The hosts whose use is recorded, by resource; no_machine: of the network, or a lease.
    std::vector<MachineId> recorded;
    SchedulerState scheduler;
    std::vector<CloudState> clouds;
    std::vector<RentedInstance> rented;  // by machine, up to the last rented instance
    CloudMessages messages;              // between clients and controllers of clouds
    MachineId first_rented = no_machine;
    RentalTotals rental_totals;
    std::vector<InstanceGroup> groups;
    std::size_t passing_instances = 0;  // ordered from outside, in states that end by themselves
    bool watched = false;               // changes are noted
    std::vector<Notice> notices;
    SharingMode sharing = SharingMode::exclusive;
    std::shared_ptr<const Efficiency> efficiency;  // of shared machines
    Executions executions;
    SharedRows<TaskRun> tasks;
    SharedRows<double> saved;  // recorded seconds that interrupted tasks keep; empty: none
    SharedRows<double> spent;  // seconds of the requested time that preempted tasks have used
    Records records;
    Sum occupied;                     // core-seconds of executions that have ended
    std::size_t open;                 // tasks that have not ended
    std::size_t added_by_source = 0;  // tasks
    std::uint32_t ended = 0;
    // The tasks up to this place among the ended ones are in no record and no figure of the run:
    // they ended before it was copied without its history.
    std::uint32_t forgotten = 0;
    std::vector<double> earlier_energy;  // by machine, likewise; empty: none
    Interrupted after_preemption;
    // The controller is not the one for which the scenario rejects tasks: it has to be asked.
    bool asks_for_possible = false;
    std::uint64_t events = 0;
    bool call = false;    // the controller is to be called in this instant
    bool bids = false;    // it may rent at spot prices
    EventId submissions;  // timers
    EventId outage;
    EventId decision;
    std::size_t next_outage = 0;
    std::size_t usage_timers = 0;  // that are set
    std::size_t transitions = 0;   // timers of transitions that are set

    WorldState(std::shared_ptr<const Scenario> scenario, std::shared_ptr<const Outages> outages,
               ModelValues values, const Controller& controller,
               std::span<const std::unique_ptr<Controller>> providers, const Recording& recording,
               std::unique_ptr<Source> source);

    [[nodiscard]] double now() const { return simulation.now(); }
    // Whether tasks are left, or may still come, or orders from outside are being carried out.
    [[nodiscard]] bool is_open() const {
        return open > 0 || submitter.continues() || passing_instances > 0 || !requests.open.empty();
    }
    [[nodiscard]] const ModelOptions& options() const { return scenario->options; }
    [[nodiscard]] const Task& task(TaskId id) const { return scheduler.tasks()[id]; }
    // Whether a workflow manager submits tasks to the scheduler, which takes time.
    [[nodiscard]] bool delays_jobs() const {
        return options().managed &&
               (values.submission_before > 0 || values.submission_interval > 0);
    }
    // Whether the files of tasks are transferred.
    [[nodiscard]] bool has_files() const {
        return scenario->files != nullptr && scenario->files->is_used();
    }
    // Whether its network is open: it has nodes for the machines.
    [[nodiscard]] bool has_network() const { return staging.transfers.unlimited != none; }
    [[nodiscard]] ResourceId resource_of(MachineId machine) const {
        return fleet[machine].resource;
    }
    [[nodiscard]] bool is_shared() const { return sharing != SharingMode::exclusive; }
    // The factor of the work of a task.
    [[nodiscard]] double service_factor(const Task& task) const {
        return values.service_factor * values.service_factors[task.kind];
    }
    // The demand of a task on machines of that speed, per recorded demand.
    [[nodiscard]] double stretch(const Task& task, double speed) const {
        if (options().fixed_demand) return 1.0;
        // Without the division in the common case.
        return task.speed == 1.0 ? speed : speed / task.speed;
    }
    // The seconds of a task with that stretch, per recorded second.
    [[nodiscard]] double time_factor(const Task& task, double stretch) const {
        const double factor = service_factor(task);
        return stretch == 1.0 ? factor : factor / stretch;
    }
    [[nodiscard]] bool is_forgotten(const TaskRun& run) const {
        return run.ended_as != 0 && run.ended_as <= forgotten;
    }
    // The scheduler state that decides about a machine, and the number of the machine in it: that
    // of its cloud, or else that of the tasks.
    struct Place {
        SchedulerState& scheduler;
        MachineId number;
    };
    [[nodiscard]] Place place_of(MachineId machine);
    // The state of a machine, or whether it exists, changes for all who see it.
    void set_status(MachineId machine, MachineStatus status);
    void set_present(MachineId machine, bool present);
    void resize(MachineId machine, double cores);
    void remove_machine(MachineId machine);
    // The number of machines before the rented instances, whose numbers are used again.
    [[nodiscard]] std::size_t machine_count() const {
        return std::min<std::size_t>(first_rented, fleet.size());
    }
    // The number of a machine in records: those of rented instances are used again in a run.
    [[nodiscard]] MachineId label(MachineId machine) const {
        return machine < rented.size() && rented[machine].serial != none
                   ? RentedInstance::label_bit | rented[machine].serial
                   : machine;
    }
    // The same for parts; `scratch` keeps the result.
    [[nodiscard]] std::span<const Part> label(std::span<const Part> parts,
                                              std::vector<Part>& scratch) const;
    // Stores the recorded seconds of work that a task keeps.
    void save_work(TaskId id, double seconds);
    void set_submission_timer();
    void set_outage_timer();
    // Changes of the spot price are events while a client or an instance depends on them.
    void set_price_timer(std::size_t cloud);
    void open_staging();
    MachineId add_machine(const MachineSpec& spec, std::shared_ptr<const PowerModel> power);
    // Machines that are added from now on are resources of the kernel.
    void set_sharing();
    void add_resource(MachineId machine);
    // Writes the present use of a machine into the record, if that is kept.
    void record_use(MachineId machine);

  private:
    // Changes a machine for the scheduler of the tasks, and for that of its cloud.
    template <class Change>
    void change_places(MachineId machine, Change change);
};

}  // namespace twinloop
