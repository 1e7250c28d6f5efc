// Who submits: a clock, or users who wait for what they have submitted.
#pragma once

#include <algorithm>
#include <vector>

#include "kernel/key_heap.hpp"
#include "model/problem.hpp"

namespace twinloop {

class Source {
  public:
    Source() = default;
    explicit Source(const Problem& problem);

    [[nodiscard]] double next_time() const {
        return due_.empty() ? next_submit_ : std::min(next_submit_, due_.front().key);
    }
    // Calls `submit(task)` for each that is due, in the order of the log.
    template <class Submit>
    void submit_due(const Problem& problem, double now, Submit&& submit) {
        if (progress_.empty()) {
            take_own(problem, now, submit);
            return;
        }
        while (next_time() <= now) {
            together_.clear();
            const auto collect = [&](TaskId task) { together_.push_back(task); };
            take_own(problem, now, collect);
            while (!due_.empty() && due_.front().key <= now) {
                const auto session = static_cast<std::uint32_t>(due_.front().tag);
                due_.pop();
                advance(problem.sessions, session, now, collect);
            }
            std::ranges::sort(together_);
            for (const TaskId task : together_) submit(task);
        }
    }
    // One of its tasks is over, whatever became of it.
    void ended(const Problem& problem, TaskId task, double now);
    // A task that came later submits itself at its time.
    void add(const Problem& problem, TaskId task);

  private:
    struct Progress {
        double start = 0.0;
        std::uint32_t waits_for = 0;
        std::uint32_t next = 0;  // job to be submitted
        std::uint32_t unfinished = 0;
    };

    template <class Submit>
    void take_own(const Problem& problem, double now, Submit&& submit) {
        while (next_ < order_.size() && problem.requests[order_[next_]].submit <= now)
            submit(order_[next_++]);
        next_submit_ = next_ < order_.size() ? problem.requests[order_[next_]].submit : never;
    }

    template <class Submit>
    void advance(const SessionColumns& all, std::uint32_t session, double now, Submit&& submit) {
        Progress& mine = progress_[session];
        const std::uint32_t end = all.job_offsets[session + 1];
        while (mine.next < end && mine.start + all.delays[mine.next] <= now)
            submit(all.jobs[mine.next++]);
        if (mine.next < end) due_.push(mine.start + all.delays[mine.next], session);
    }

    std::vector<TaskId> order_;  // those that submit themselves at their time
    std::size_t next_ = 0;
    double next_submit_ = never;
    std::vector<Progress> progress_;
    std::vector<std::uint32_t> session_of_;
    KeyHeap due_;
    std::vector<TaskId> together_;  // those that submit in this instant
};

}  // namespace twinloop
