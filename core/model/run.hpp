// One run of a compiled scenario: a value, which goes on from the same state when it is copied.
//
// All that happens at one instant happens before the policy is asked: first tasks that end, then
// machines that come and go, then submissions. A task whose cores are its own ends at a time that
// is known when it starts; where machines may be shared, its progress is the kernel's business.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel/key_heap.hpp"
#include "model/meter.hpp"
#include "model/problem.hpp"
#include "model/sharing.hpp"
#include "model/source.hpp"
#include "model/usage.hpp"

namespace twinloop {

enum class Status : std::uint8_t { none, completed, rejected, killed, failed, lost };
// Why an execution ended.
enum class Reason : std::uint8_t { completed, killed, failed, lost, preempted };

// What became of a task so far. Times are NaN as long as there is nothing to tell.
struct Outcome {
    double submit;
    double ready;
    double start;       // of the first execution
    double last_start;  // of the last one
    double end;
    double done = 0.0;    // reference core-seconds of work, those that were lost included
    double used = 0.0;    // seconds of a core of its machines: more, where neighbours cost
    double energy = 0.0;  // J
    std::uint32_t attempts = 0;
    Status status = Status::none;
    // Of the last execution, once that is over, also where the task itself is not.
    double last_end = std::numeric_limits<double>::quiet_NaN();
};

// Executions, a row for each part of the machines that it was on.
struct PlacementLog {
    std::vector<std::uint32_t> task;
    std::vector<std::uint32_t> attempt;
    std::vector<std::uint32_t> machine;
    std::vector<std::uint32_t> count;
    std::vector<double> cores;
    std::vector<double> start;
    std::vector<double> end;
    std::vector<std::uint8_t> reason;
};

// The use of machines over time: at `t` a machine begins to be used so much.
struct UseLog {
    std::vector<std::uint32_t> machine;
    std::vector<double> t;
    std::vector<double> used;  // reference core-seconds per second; NaN: it is off
};

// From a place in the log of use on, a machine has another capacity.
struct Resize {
    std::size_t place = 0;
    MachineId machine = 0;
    double capacity = 0.0;
};

// The periods in which machines were not there (kind 0) or switched off (kind 1); NaN: no end yet.
struct StateLog {
    std::vector<std::uint32_t> machine;
    std::vector<double> start;
    std::vector<double> end;
    std::vector<std::uint8_t> kind;
};

struct DecisionLog {
    std::vector<double> t;
    std::vector<std::uint8_t> kind;
    std::vector<std::uint32_t> task;
    std::vector<std::uint32_t> machine;
};

struct Recording {
    bool placements = false;
    bool use = false;
    bool decisions = false;
    bool machines = false;      // where each task ran last
    double usage_step = never;  // of the windows in which CPU time is counted; infinite: in none
    double usage_rows = never;  // how many of these windows there may be
};

class Run {
  public:
    Run(std::shared_ptr<const Problem> problem, std::shared_ptr<const Downs> downs, Values values,
        std::unique_ptr<Policy> policy, Recording recording);
    Run(const Run& other);
    Run(Run&&) = delete;
    Run& operator=(const Run&) = delete;
    Run& operator=(Run&&) = delete;
    ~Run() = default;

    [[nodiscard]] double now() const { return now_; }
    [[nodiscard]] double next_time();
    // All that happens at the next instant; false if nothing ever will, if the log of usage is
    // full, or if it has outrun the failures of machines that are known: it goes on when these are
    // extended.
    bool step();
    // All up to and including that time, at which the clock then stands, unless it has outrun them.
    void run_until(double time);
    [[nodiscard]] bool outran() const { return outran_; }
    void extend(std::shared_ptr<const Downs> downs);

    [[nodiscard]] const Problem& problem() const { return *problem_; }
    [[nodiscard]] const Values& values() const { return values_; }
    [[nodiscard]] const Desk& desk() const { return desk_; }
    [[nodiscard]] Desk& desk() { return desk_; }
    [[nodiscard]] bool foreign() const { return policy_->foreign(); }
    [[nodiscard]] bool shared() const { return sharing_.has_value(); }
    [[nodiscard]] std::span<const Outcome> outcomes() const { return outcomes_; }
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] double begin() const { return begin_; }
    [[nodiscard]] const PlacementLog& placements() const { return placements_; }
    [[nodiscard]] const UseLog& use() const { return use_; }
    [[nodiscard]] std::span<const Resize> resizes() const { return resizes_; }
    [[nodiscard]] const DecisionLog& decisions() const { return decisions_; }
    [[nodiscard]] const StateLog& states() const { return states_; }
    // The first of the machines that each task ran on last; no_machine: it never ran.
    [[nodiscard]] std::span<const MachineId> last_machines() const { return last_machines_; }
    // None, if nobody asked for it.
    [[nodiscard]] const std::optional<UsageLog>& usage() const { return usage_; }
    [[nodiscard]] const PowerModel& power_of(MachineId machine) const {
        return values_.power ? *values_.power : problem_->powers[problem_->power_of[machine]];
    }
    // Core-seconds that executions which are over have had machines for.
    [[nodiscard]] double occupied() const { return occupied_.value(); }
    // Energy of a machine up to now (J).
    [[nodiscard]] double energy(MachineId machine) const;
    // The share of its work that a running task has done, kept parts of earlier runs included.
    [[nodiscard]] double progress(TaskId task) const;
    [[nodiscard]] bool is_down(MachineId machine) const { return down_[machine] > 0; }
    // Energy charged to a task up to now (J).
    [[nodiscard]] double energy_of(TaskId task) const;

    // --- changes from outside ------------------------------------------------------------------
    TaskId inject(const Request& request, std::span<const double> amounts, double work,
                  double limit, std::uint16_t kind);
    void fail(MachineId machine);
    void restore(MachineId machine);
    void set_cores(MachineId machine, double cores);
    // To start from a state: what is known of a task; those that are over come first. Then those
    // that wait, may not start yet, or run, with such a share of their work done.
    void adopt(TaskId task, const Outcome& known);
    void adopt_waiting(TaskId task, double done_share);
    void adopt_held(TaskId task);
    void adopt_running(TaskId task, std::span<const Part> parts, double done_share);
    // The clock and all meters start there.
    void begin_at(double time);

  private:
    enum class Stage : std::uint8_t { dispatching, starting, working, releasing };
    // A task that has machines.
    struct Live {
        TaskId task = no_task;
        std::uint64_t tag = 0;  // of its next transition
        std::uint32_t fragment = 0;
        Stage stage = Stage::dispatching;
        bool idle = false;        // where machines are shared: it draws on none at the moment
        double due = never;       // when its next transition is
        double begun = 0.0;       // the present fragment
        double work_begun = 0.0;  // the whole of it
        double from = 0.0;        // seconds of the record that were kept from earlier
        double inside = 0.0;      // and those in the present fragment
        double factor = 1.0;      // seconds here per second of the record
        double speed = 1.0;       // of its slowest machine
        double stretch = 1.0;     // work here per work of the record, in the same time
        double stop = never;      // when it is killed
        double length = 0.0;      // of the present fragment, here
        double overhead = 0.0;    // of checkpoints, at its end
        double rate_here = 0.0;   // reference core-seconds per second, over all parts
        double rate = 0.0;        // the same, as the meters of its machines know it
        double mark = 0.0;        // charge of its machines when this rate began
        double lost_mark = 0.0;   // and what they could not give
        double since = 0.0;       // when this rate began
        std::size_t usage = 0;    // place of its first part in the log of usage
    };

    void make_requests();
    [[nodiscard]] bool may_share() const;
    // Whether a task may need more than its cores can give, on machines of `fewest` cores or more.
    [[nodiscard]] bool exceeds(double cores, double limit, double speed, double fewest) const;
    [[nodiscard]] double plan(TaskId task) const;
    // Times the work of a task.
    [[nodiscard]] double service_factor(TaskId task) const {
        return values_.service_factor * values_.service_factors[problem_->kind[task]];
    }
    [[nodiscard]] double checkpoints(double length) const;
    Problem& own();

    void submit(TaskId task);
    void make_ready(TaskId task);
    void decide();
    void carry_out(std::span<const Desk::Decision> made);
    [[nodiscard]] std::uint32_t make_live(TaskId task);
    void start(TaskId task);
    void begin_execution(Live& live, std::uint32_t slot);
    void begin_work(Live& live, std::uint32_t slot);
    double begin_fragment(Live& live, double from);
    void begin_fragment(Live& live, std::uint32_t slot, double from);
    void next_fragment(Live& live, std::uint32_t slot);
    [[nodiscard]] bool last_fragment(const Live& live) const;
    void transition(std::uint32_t slot);
    void take_finished();
    void account(Live& live, std::uint32_t slot, std::span<const Part> parts);
    void end_execution(Live& live, std::uint32_t slot, Status status);
    void release(std::uint32_t slot);
    void free_slot(std::uint32_t slot);
    void interrupt(TaskId task, Reason reason, Interrupted then, std::span<const Part> parts);
    // `seen`: the scheduler knows it at once, not when it sees the machines free.
    void conclude(TaskId task, Status status, double at, bool seen = true);
    void free_children(TaskId task);
    [[nodiscard]] double effort(const Live& live, std::uint32_t slot) const;
    [[nodiscard]] double without_checkpoints(double length) const;
    [[nodiscard]] double writing(const Live& live, std::uint32_t slot) const;
    [[nodiscard]] double passed(const Live& live) const;
    [[nodiscard]] double reached(const Live& live, std::uint32_t slot) const;
    [[nodiscard]] double kept(const Live& live, std::uint32_t slot, Interrupted then) const;
    [[nodiscard]] double work_between(TaskId task, double from, double to) const;

    void schedule(std::uint32_t slot, double time);
    void cancel(Live& live);
    void switch_machines();
    void go_down(const Down& down);
    void set_off(MachineId machine, bool off, std::uint8_t kind);
    void set_rate(Live& live, double rate, std::span<const Part> parts);
    void note_use(MachineId machine);
    void advance_meter(MachineId machine);
    void update(Sharing& sharing);
    void note_drawn(UsageLog& usage, Live& live, std::span<const Part> parts);
    void set_power();
    void keep(TaskId task, double seconds);
    void log_execution(const Live& live, Reason reason, std::span<const Part> parts);
    void log_decision(const Desk::Decision& decision);
    void kill(TaskId task, std::span<const Part> parts);

    std::shared_ptr<const Problem> problem_;
    std::shared_ptr<const Downs> downs_;  // its own: others may extend those of the problem
    Values values_;
    std::unique_ptr<Policy> policy_;
    Recording recording_;
    Desk desk_;
    Source source_;
    double now_ = 0.0;
    double begin_ = 0.0;
    bool asked_ = false;  // something has happened that the policy should see
    double decide_at_ = never;
    std::uint64_t events_ = 0;
    std::uint64_t sequence_ = 0;
    std::vector<Outcome> outcomes_;
    std::vector<double> saved_;  // seconds of the record that are kept; empty: of nobody
    std::vector<double> spent_;  // seconds of its requested time that are gone; likewise
    std::vector<std::uint32_t> missing_parents_;
    std::vector<Live> lives_;
    std::vector<std::uint32_t> free_lives_;
    std::vector<std::uint32_t> slot_of_;  // of tasks that have machines
    KeyHeap transitions_;
    std::vector<Meter> meters_;
    std::vector<std::uint32_t> down_;
    std::size_t next_down_ = 0;
    bool outran_ = false;
    KeyHeap ups_;
    std::optional<Sharing> sharing_;
    PlacementLog placements_;
    UseLog use_;
    std::vector<Resize> resizes_;
    DecisionLog decisions_;
    StateLog states_;
    std::vector<MachineId> last_machines_;
    std::optional<UsageLog> usage_;
    // By machine, where CPU time is counted and machines may not give what they are asked for:
    // when its use changed, and the integral of the part that it had not given until then.
    struct Missed {
        double t = 0.0;
        double missing = 0.0;
    };
    std::vector<std::vector<Missed>> missed_;
    std::vector<std::uint32_t> finished_;
    std::size_t stuck_ = 0;    // steps that time has stood still for
    std::size_t in_vain_ = 0;  // times that the policy was woken and did nothing
    std::uint64_t last_events_ = 0;
    Sum occupied_;
    std::size_t open_ = 0;  // tasks that are not over
    double slowest_ = 1.0;  // speed of a core
    bool loses_ = false;    // machines may be asked for more than they have, and not give
};

}  // namespace twinloop
