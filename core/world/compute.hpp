// Compute steps: the demand of an execution on its machines, fragment by fragment. Where no task
// can demand more than its cores provide, a step is a timer and a change of meters; where machines
// are shared, it is an activity of the kernel on each machine.
#pragma once

#include <algorithm>
#include <span>

#include "world/state.hpp"

namespace twinloop {

class Compute {
  public:
    explicit Compute(WorldState& world) : world_(world) {}

    // Begins the first step, or the one that an earlier execution has reached.
    void begin(std::uint32_t slot);
    // Whether the current step is the last one.
    [[nodiscard]] static bool is_last(const Execution& execution) {
        return execution.fragment + 1 >= execution.fragment_count;
    }
    // Begins the next step.
    void next(std::uint32_t slot);
    // The current step, to go on in another run, and in that run.
    void save(std::uint32_t slot, SavedExecution& saved) const;
    void restore(std::uint32_t slot, const SavedExecution& saved);
    // The tag of its first activity; 0: none.
    [[nodiscard]] std::uint64_t first_tag(std::uint32_t slot) const;
    // Whether the current step has ended by itself, not by a kill, when the timer fires.
    [[nodiscard]] bool has_ended(std::uint32_t slot) const;
    // The demand ends while a machine of the execution is not running, and begins again.
    void pause(std::uint32_t slot);
    void resume(std::uint32_t slot);
    // The time up to which the execution has continued.
    [[nodiscard]] double clock(const Execution& execution) const {
        return std::min(world_.now(), execution.paused);
    }
    // The current step of an execution that does not share, to go on in the same world when its
    // machines are shared: up to now, all of its demand was served.
    [[nodiscard]] SavedExecution save_unshared(std::uint32_t slot);
    // Ends the current step and begins one with the rest of the work, on machines of another speed.
    void begin_again(std::uint32_t slot);
    // Ends the demand, and accounts for work, use and energy.
    void stop(std::uint32_t slot, std::span<const Part> parts);
    // An activity of the execution has ended; true if it was the last one and has finished.
    bool end_activity(std::uint32_t slot, std::uint32_t member, Ending how, const Final& figures);

    // The recorded seconds of its task that an execution has reached.
    [[nodiscard]] double reached(std::uint32_t slot) const;
    // The recorded seconds that are kept after an interruption.
    [[nodiscard]] double kept(std::uint32_t slot, Interrupted then) const;
    // The energy charged to an execution and not yet added to its task (J).
    [[nodiscard]] double energy(std::uint32_t slot) const;

    // The usage record: begin and end of an execution, and the end of a window with sharing.
    void open_usage(std::uint32_t slot, std::span<const Part> parts);
    void close_usage(std::uint32_t slot, std::span<const Part> parts);
    void record_window(std::uint32_t slot);
    // Windows of an execution that is in progress when its machines become shared.
    void open_windows(std::uint32_t slot);

  private:
    void set_table(Execution& execution, const Task& task);
    void begin_fragment(std::uint32_t slot, double from, bool first);
    [[nodiscard]] ActivityId launch(std::uint32_t slot, const Part& part, MachineId machine,
                                    double work);
    void start_activities(std::uint32_t slot, double work);
    void set_limits(std::uint32_t slot);
    void cancel_activities(std::uint32_t slot);
    void set_rate(Execution& execution, double rate) {
        if (execution.machine != no_machine && world_.fleet.metered() && !world_.records.usage) {
            meter_single_rate(execution, rate);
        } else {
            set_rate(execution, rate, world_.scheduler.parts(execution.task));
        }
    }
    void set_rate(Execution& execution, double rate, std::span<const Part> parts) {
        if (world_.fleet.metered() || world_.records.recording.use || world_.records.usage) {
            meter_rate(execution, rate, parts);
        } else {
            execution.metered = rate;
        }
    }
    void meter_single_rate(Execution& execution, double rate);
    void meter_rate(Execution& execution, double rate, std::span<const Part> parts);
    void record_exclusive(UsageLog& usage, Execution& execution, std::span<const Part> parts);
    void record_member(UsageLog& usage, std::uint32_t slot, std::uint32_t member, double consumed);
    void set_timer(Execution& execution, double time, bool keep_rank);
    void set_window_timer(const UsageLog& usage, const Execution& execution);
    [[nodiscard]] double effort(std::uint32_t slot) const;
    [[nodiscard]] double checkpointing(std::uint32_t slot) const;
    [[nodiscard]] double done(std::uint32_t slot) const;
    [[nodiscard]] static double passed(const Execution& execution);
    [[nodiscard]] double work_between(TaskId task, double from, double to) const;

    WorldState& world_;
};

}  // namespace twinloop
