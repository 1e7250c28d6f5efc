// Sources of submissions: recorded times, or users with sessions whose submissions depend on the
// ends of earlier tasks (Algorithm 1 of Madon et al., FGCS 155, 2024).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/key_heap.hpp"
#include "kernel/measure.hpp"
#include "work/task_table.hpp"

namespace twinloop {

struct SessionColumns {
    std::vector<std::uint32_t> job_offsets;  // jobs of a session, in the order of submission
    std::vector<TaskId> jobs;
    std::vector<double> delays;  // of each job after the start of its session
    std::vector<std::uint32_t> successor_offsets;
    std::vector<std::uint32_t> successors;
    std::vector<double> think_times;
    std::vector<std::uint32_t> dependencies;  // number of sessions that each session waits for
    std::vector<double> starts;               // of the sessions without dependencies

    [[nodiscard]] std::size_t size() const {
        return job_offsets.empty() ? 0 : job_offsets.size() - 1;
    }
};

// The submissions of a scenario, shared by its runs.
class Submissions {
  public:
    struct Entry {
        double time = 0.0;
        TaskId task = no_task;
    };

    Submissions() = default;
    // The tasks that are not rejected; those of no session are submitted at their recorded times.
    Submissions(const TaskTable& tasks, SessionColumns sessions);

    [[nodiscard]] const std::vector<Entry>& timed() const { return timed_; }
    [[nodiscard]] const SessionColumns& sessions() const { return sessions_; }
    static constexpr std::uint32_t no_session = ~0U;
    [[nodiscard]] std::uint32_t session_of(TaskId task) const {
        return task < session_of_.size() ? session_of_[task] : no_session;
    }

  private:
    std::vector<Entry> timed_;  // by time, then in the order of the log
    SessionColumns sessions_;
    std::vector<std::uint32_t> session_of_;
};

class Source {
  public:
    Source() = default;
    explicit Source(std::shared_ptr<const Submissions> submissions);

    // The time of the next submission; infinite if there is none, or if it depends on a task.
    [[nodiscard]] double next_time() const {
        return due_.empty() ? next_timed_ : std::min(next_timed_, due_.front().key());
    }
    // Calls `submit(task)` for each submission up to now, in the order of the log.
    template <class Submit>
    void submit_due(double now, Submit&& submit) {
        if (sessions_.empty()) {
            take_timed(now, submit);
            return;
        }
        while (next_time() <= now) {
            together_.clear();
            const auto collect = [&](TaskId task) { together_.push_back(task); };
            take_timed(now, collect);
            while (!due_.empty() && due_.front().key() <= now) {
                const auto session = static_cast<std::uint32_t>(due_.front().tag);
                due_.pop();
                advance(session, now, collect);
            }
            std::ranges::sort(together_);
            for (const TaskId task : together_) submit(task);
        }
    }
    // A task has ended, with any status; true if the time of the next submission may change.
    bool record_end(TaskId task, double now) {
        return !sessions_.empty() && record_session_end(task, now);
    }
    // Adds the submission of a task that is not in the scenario.
    void add(double time, TaskId task);

  private:
    struct Progress {
        double start = 0.0;
        std::uint32_t waits_for = 0;
        std::uint32_t next = 0;  // job to be submitted
        std::uint32_t unfinished = 0;
    };

    bool record_session_end(TaskId task, double now);
    void find_next_timed();

    template <class Submit>
    void take_timed(double now, Submit&& submit) {
        while (next_timed_ <= now) {
            const std::vector<Submissions::Entry>& timed = submissions_->timed();
            const bool added =
                next_ == timed.size() ||
                (next_added_ < added_.size() && added_[next_added_].time < timed[next_].time);
            const TaskId task = added ? added_[next_added_++].task : timed[next_++].task;
            find_next_timed();
            submit(task);
        }
    }

    template <class Submit>
    void advance(std::uint32_t session, double now, Submit&& submit) {
        const SessionColumns& all = submissions_->sessions();
        Progress& mine = sessions_[session];
        const std::uint32_t end = all.job_offsets[session + 1];
        while (mine.next < end && mine.start + all.delays[mine.next] <= now)
            submit(all.jobs[mine.next++]);
        if (mine.next < end) due_.push(mine.start + all.delays[mine.next], session);
    }

    std::shared_ptr<const Submissions> submissions_;
    std::size_t next_ = 0;                   // of the timed submissions
    std::vector<Submissions::Entry> added_;  // by time
    std::size_t next_added_ = 0;
    double next_timed_ = never;
    std::vector<Progress> sessions_;
    KeyHeap due_;  // sessions by their next submission
    std::vector<TaskId> together_;
};

}  // namespace twinloop
