// The submissions of one run: those of its source, and of tasks that are added from outside. Rigid
// submissions, the recorded times of a scenario, need no source: they are a cursor over the sorted
// list that all runs share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernel/measure.hpp"
#include "work/source.hpp"

namespace twinloop {

class Submitter {
  public:
    // Without a source: the users with sessions of the scenario, or else its recorded times.
    explicit Submitter(std::shared_ptr<const Submissions> submissions,
                       std::unique_ptr<Source> source = nullptr);
    Submitter(const Submitter& other);
    Submitter(Submitter&&) = default;
    Submitter& operator=(const Submitter&) = delete;
    Submitter& operator=(Submitter&&) = default;
    ~Submitter() = default;

    // The time of the next submission; infinite if there is none, or if it depends on an end.
    [[nodiscard]] double next_time() const {
        return source_ ? std::min(next_timed_, source_->next_time()) : next_timed_;
    }
    // Calls `submit(task)`, or `add(new task)`, for each submission up to now: first those of the
    // source in its order, then the tasks with a time.
    template <class Submit, class Add>
    void submit_due(double now, const Tasks& tasks, Submit&& submit, Add&& add) {
        if (source_ && source_->next_time() <= now) {
            submission_.clear();
            source_->take(now, tasks, submission_);
            std::size_t added = 0;
            for (const TaskId task : submission_.tasks) {
                if (task == no_task) {
                    add(submission_.added[added++]);
                } else {
                    submit(task);
                }
            }
        }
        take_timed(now, submit);
    }
    // A task has ended; true if the time of the next submission may have changed.
    bool record_end(TaskId task, double end, Status status) {
        return source_ && source_->record_end(task, end, status);
    }
    // Adds the submission of a task from outside.
    void add(double time, TaskId task);
    // Whether the run must go on even if no task is left.
    [[nodiscard]] bool continues() const { return source_ && source_->continues(); }
    [[nodiscard]] bool submits_all() const { return !source_ || source_->submits_all(); }
    // Skips the recorded times up to now of tasks that a run before this one has submitted.
    template <class Submitted>
    void skip(double now, Submitted&& submitted) {
        while (next_ != timed_end_ && next_->time <= now && submitted(next_->task)) ++next_;
        find_next_timed();
    }
    [[nodiscard]] Source* source() const { return source_.get(); }
    // The source is not asked any more.
    void close() { source_.reset(); }
    [[nodiscard]] bool has_source() const { return source_ != nullptr; }
    [[nodiscard]] bool foreign() const { return source_ && source_->foreign(); }

  private:
    void find_next_timed() {
        next_timed_ = next_ != timed_end_ ? next_->time : never;
        if (next_added_ < added_.size())
            next_timed_ = std::min(next_timed_, added_[next_added_].time);
    }

    template <class Submit>
    void take_timed(double now, Submit&& submit) {
        while (next_timed_ <= now) {
            const bool added = next_ == timed_end_ || (next_added_ < added_.size() &&
                                                       added_[next_added_].time < next_->time);
            const TaskId task = added ? added_[next_added_++].task : (next_++)->task;
            find_next_timed();
            submit(task);
        }
    }

    std::shared_ptr<const Submissions> submissions_;
    std::unique_ptr<Source> source_;  // nullptr: rigid
    // The recorded times that are left, in the list of the scenario; none if there is a source.
    const Submissions::Entry* next_ = nullptr;
    const Submissions::Entry* timed_end_ = nullptr;
    std::vector<Submissions::Entry> added_;  // by time
    std::size_t next_added_ = 0;
    double next_timed_ = never;
    Submission submission_;
};

}  // namespace twinloop
