// The desk of a scheduler: what waits, what runs as far as anybody can know, and what is free. The
// simulator keeps one, and so does whoever runs tasks for real: the same policy decides at both.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/request.hpp"
#include "model/space.hpp"

namespace twinloop {

class Desk;

// Who decides. It is told what has happened, then asked; what it decides it does at the desk.
class Policy {
  public:
    virtual ~Policy() = default;
    [[nodiscard]] virtual std::unique_ptr<Policy> clone() const = 0;

    // A task has become ready and waits; also again, after it was interrupted.
    virtual void submitted(const Desk&, TaskId) {}
    // It waits no more, though nobody placed it.
    virtual void withdrawn(const Desk&, TaskId) {}
    // It has been given these machines, by the policy itself or because it ran already.
    virtual void placed(const Desk&, TaskId) {}
    // It has ended or was interrupted; its machines are free again.
    virtual void ended(const Desk&, TaskId) {}
    // It could not be started on these machines, and waits again. Only reality says so.
    virtual void refused(const Desk&, TaskId, std::span<const Part>, const char* /*why*/) {}
    // Machines came, went or changed in size.
    virtual void machines_changed(const Desk&) {}

    // Called when something has happened and a task waits, or at a time it asked for.
    virtual void decide(Desk&) = 0;

    // Whether it could place the task on the whole platform, if all of it were free.
    [[nodiscard]] virtual bool possible(const Desk&, TaskId) const;
    // Whether it may spread a task that does not ask for it over several machines.
    [[nodiscard]] virtual bool spreads() const { return true; }
    // Whether it may give away more cores than there are.
    [[nodiscard]] virtual bool overcommits() const { return false; }
    // Whether Python runs in it: then it can be neither copied nor run on other threads.
    [[nodiscard]] virtual bool foreign() const { return false; }

  protected:
    Policy() = default;
    Policy(const Policy&) = default;
    Policy& operator=(const Policy&) = default;
};

// A period in which machines are there for some tasks only, or for none.
struct Window {
    double start = 0.0;
    double end = never;
    std::vector<std::uint8_t> machines;  // by machine: is it concerned?
    std::vector<std::int32_t> users;     // whose tasks may run
    std::vector<std::int32_t> queues;
};

// Limits of a queue.
struct QueueRule {
    std::vector<std::uint8_t> machines;  // by machine: may its tasks run there? empty: anywhere
    std::uint32_t max_running = ~0U;
    std::uint32_t max_running_per_user = ~0U;
};

// A task that is ending is over, but its machines are not seen as free yet.
enum class Phase : std::uint8_t { absent, held, waiting, running, ending, gone };

class Desk {
  public:
    struct Running {
        double start = 0.0;        // since when it has its machines
        double planned_end = 0.0;  // as planned: it may end earlier, or have gone on for longer
    };

    Desk() = default;
    Desk(std::vector<MachineSpec> machines, std::size_t resources,
         std::vector<double> machine_amounts, std::vector<Window> windows,
         std::vector<QueueRule> queues);

    // --- for policies ---------------------------------------------------------------------------
    [[nodiscard]] double now() const { return now_; }
    [[nodiscard]] std::span<const MachineSpec> machines() const { return machines_; }
    [[nodiscard]] const Space& space() const { return space_; }
    [[nodiscard]] const Space& empty_space() const { return empty_; }
    // Cores are all that counts and any of them will do: free cores are then just a number.
    [[nodiscard]] bool pooled() const { return pooled_; }
    [[nodiscard]] double free_cores() const { return space_.total_cores(); }

    [[nodiscard]] std::size_t task_count() const { return requests_.size(); }
    [[nodiscard]] const Request& request(TaskId task) const { return requests_[task]; }
    [[nodiscard]] Needs needs(TaskId task) const;
    [[nodiscard]] Phase phase(TaskId task) const { return phases_[task]; }

    // Those that wait, in the order in which they became ready.
    [[nodiscard]] std::size_t waiting_count() const { return waiting_count_; }
    [[nodiscard]] TaskId first_waiting() const { return first_; }
    [[nodiscard]] TaskId next_waiting(TaskId task) const { return links_[task].next; }
    // When a task was submitted in this run, which users who wait for results make another time
    // than that of the record; NaN: not yet.
    [[nodiscard]] double submit_time(TaskId task) const { return submits_[task]; }
    // Counts up from the first task that became ready; one that was interrupted keeps its place.
    [[nodiscard]] std::uint64_t arrival(TaskId task) const { return arrivals_[task]; }

    // Those that run, in no order.
    [[nodiscard]] std::span<const TaskId> running() const { return running_; }
    [[nodiscard]] const Running& running(TaskId task) const { return runs_[task]; }
    [[nodiscard]] std::span<const Part> parts(TaskId task) const {
        const Range& range = ranges_[task];
        return std::span(parts_).subspan(range.first, range.count);
    }

    // May the task be on the machine for `time` seconds from `from` on? (Windows, queues, clocks.)
    [[nodiscard]] bool allowed(TaskId task, MachineId machine, double from, double time) const;
    // Nothing but free amounts decides where it may run.
    [[nodiscard]] bool unrestricted() const { return unrestricted_; }
    // Where the task could be in that space from `from` on, for as long as it is planned to take.
    bool find(TaskId task, const Space& space, double from, std::vector<Part>& parts) const;
    // Ends of windows later than now, in order: times at which more may be possible.
    [[nodiscard]] std::span<const double> window_ends() const;

    // --- decisions ------------------------------------------------------------------------------
    // Places a waiting task. Nothing is checked here; the space shows it at once.
    void place(TaskId task, std::span<const Part> parts);
    // Takes a running task off its machines; it waits again. The driver stops it.
    void preempt(TaskId task);
    // Ends a task for good, whether it waits or runs.
    void kill(TaskId task);
    // Switches a machine that nobody uses off or on; nobody is placed on one that is off.
    void switch_machine(MachineId machine, bool on);
    // Says what is meant for later. It binds nobody; the policy is asked again at that time.
    void reserve(TaskId task, MachineId machine, double time);
    // Ask again at that time, if nothing happens before.
    void wake(double time);

    // --- for the driver -------------------------------------------------------------------------
    struct Decision {
        enum class Kind : std::uint8_t { place, preempt, kill, open, close, reserve };
        Kind kind = Kind::place;
        TaskId task = no_task;
        MachineId machine = no_machine;
        std::uint32_t first = 0;  // of the parts that the task had before
        std::uint32_t count = 0;
    };
    [[nodiscard]] std::span<const Part> vacated(const Decision& decision) const {
        return std::span(vacated_).subspan(decision.first, decision.count);
    }
    void set_policy(Policy* policy) { policy_ = policy; }
    void set_now(double now) { now_ = now; }
    TaskId add_task(const Request& request, std::span<const double> amounts);
    void reserve_tasks(std::size_t count);
    // For a task that is submitted before it may start.
    void set_submit_time(TaskId task, double time) { submits_[task] = time; }
    // The task may start from now on, as far as the limits of its queue let it.
    void submit(TaskId task);
    void withdraw(TaskId task);
    // A running task is over, but keeps its machines until its end is told.
    void set_ending(TaskId task) { phases_[task] = Phase::ending; }
    // A running task is over: its machines are free.
    void end(TaskId task);
    // It runs already, since then.
    void adopt(TaskId task, std::span<const Part> parts, double since);
    void set_open(MachineId machine, bool open);
    void resize(MachineId machine, double cores);
    // Asks the policy. Returns what it decided, valid until the next call.
    std::span<const Decision> decide();
    // The same, also if the policy did not come to an end.
    [[nodiscard]] std::span<const Decision> decisions() const { return decisions_; }
    [[nodiscard]] double wake_time() const { return wake_; }
    void clear_wake() { wake_ = never; }
    [[nodiscard]] bool must_decide() const { return waiting_count_ > 0; }

  private:
    struct Link {
        TaskId before = no_task;
        TaskId next = no_task;
    };
    struct Range {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };
    // What a user has in a queue.
    struct Line {
        std::uint32_t running = 0;
        TaskId first = no_task;  // of those that are held, in order
        TaskId last = no_task;
        std::uint64_t offered = 0;  // when the one was held that may go next; 0: none may
    };
    struct QueueState {
        std::uint32_t running = 0;
        std::vector<Line> lines;  // by user, from -1 on
        // The first that is held of each user below the limit, by when it was: only the limit of
        // the queue keeps these.
        std::map<std::uint64_t, TaskId> next;
    };

    void enqueue(TaskId task);
    void unlink(TaskId task);
    void decided(Decision::Kind kind, TaskId task, MachineId machine);
    bool undo_place(TaskId task);
    void reopen(MachineId machine);
    void occupy(TaskId task, std::span<const Part> parts, double since);
    void vacate(TaskId task);
    [[nodiscard]] bool in_queue(const Request& request) const {
        return request.queue >= 0 && static_cast<std::size_t>(request.queue) < queues_.size();
    }
    [[nodiscard]] Line& line(const Request& request);
    [[nodiscard]] bool within_limits(const Request& request);
    void count_running(const Request& request, std::int32_t by);
    void offer(const Request& request);
    void hold(TaskId task);
    void let_go(TaskId task);
    void release_held(const Request& ended);
    [[nodiscard]] bool only_cores(const Request& request, std::span<const double> amounts) const;
    void compact();

    Policy* policy_ = nullptr;
    double now_ = 0.0;
    double wake_ = never;
    std::vector<MachineSpec> machines_;
    std::size_t resources_ = 0;
    Space space_;
    Space empty_;
    std::vector<Window> windows_;
    std::vector<double> window_ends_;
    std::vector<QueueRule> queues_;
    bool pooled_ = true;
    bool unrestricted_ = true;
    bool limited_ = false;
    bool single_cores_ = false;   // every machine has one core
    bool finite_memory_ = false;  // some machine says how much memory it has
    double slowest_mhz_ = never;  // of those that say

    std::vector<Request> requests_;
    std::vector<double> amounts_;
    std::vector<Phase> phases_;
    std::vector<Link> links_;  // among those that wait, or that are held
    std::vector<double> submits_;
    std::vector<std::uint64_t> arrivals_;
    std::vector<Running> runs_;
    std::vector<Range> ranges_;
    std::vector<std::uint32_t> places_;  // in running_
    std::vector<TaskId> running_;
    std::vector<Part> parts_;
    std::size_t live_parts_ = 0;
    TaskId first_ = no_task;
    TaskId last_ = no_task;
    std::size_t waiting_count_ = 0;
    std::uint64_t next_arrival_ = 1;
    std::vector<QueueState> queue_states_;
    std::vector<std::uint64_t> holds_;  // when a task was held by the limits of its queue
    std::uint64_t next_hold_ = 1;
    std::vector<Decision> decisions_;
    std::vector<Part> vacated_;
    std::vector<std::uint8_t> gone_;  // machines that are not there
    std::vector<std::uint8_t> off_;   // machines that the policy has switched off
};

}  // namespace twinloop
