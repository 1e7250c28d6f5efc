// Sources of submissions. A source says when the next tasks are submitted, and learns of all ends.
//
// `Submitter` (work/submitter.hpp) asks it, in a simulation and in a real execution alike:
// - at the start, after each submission, and after ends for which `record_end` returned true, in
//   the same instant, for the time of its next submission;
// - at that time, for the tasks. Until then the source may change its mind: only the last time
//   counts.
// So a source never depends on how a run is advanced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernel/key_heap.hpp"
#include "kernel/measure.hpp"
#include "kernel/shared_rows.hpp"
#include "work/outcome.hpp"
#include "work/task_table.hpp"

namespace twinloop {

// An answer of a source that cannot be carried out.
class SourceError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A task that is not a row of the scenario.
struct NewTask {
    Task row;
    std::vector<double> amounts;  // of the other resources
    std::string name;
    std::string command = {};  // a text that is kept with the row
    // The tasks that it depends on; by name if they were added during the run.
    std::vector<std::variant<TaskId, std::string>> parents = {};
};

// The parents of a new task among the tasks of a run. Throws `SourceError` for an unknown one.
[[nodiscard]] std::vector<TaskId> find_parents(const Tasks& tasks, const NewTask& given);

// The tasks of a submission, in their order: rows, or new tasks (`no_task`) in the order of
// `added`.
struct Submission {
    std::vector<TaskId> tasks;
    std::vector<NewTask> added;

    void clear() {
        tasks.clear();
        added.clear();
    }
};

class Source {
  public:
    virtual ~Source() = default;
    [[nodiscard]] virtual std::unique_ptr<Source> clone() const = 0;

    // The time of the next submission; infinite if there is none, or if it depends on an end. A
    // time in the past means at once.
    [[nodiscard]] virtual double next_time() const = 0;
    // Adds the tasks of all submissions up to now.
    virtual void take(double now, const Tasks& tasks, Submission& submission) = 0;
    // A task has ended; true if the time of the next submission may have changed.
    virtual bool record_end(TaskId task, double end, Status status) = 0;
    // Whether the run must go on until it is asked again, even if no task is left.
    [[nodiscard]] virtual bool continues() const { return false; }
    // Whether it submits every task, sooner or later: then a task that was not submitted when
    // nothing can happen any more has failed with the tasks that it depends on; otherwise it is
    // cancelled.
    [[nodiscard]] virtual bool submits_all() const { return false; }
    // Whether it runs Python code: it can then not run on other threads.
    [[nodiscard]] virtual bool foreign() const { return false; }
    // What it needs to go on in another run, and in that run.
    [[nodiscard]] virtual std::vector<double> memory() const { return {}; }
    virtual void restore_memory(std::span<const double> /*memory*/) {}

  protected:
    Source() = default;
    Source(const Source&) = default;
    Source& operator=(const Source&) = default;
};

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

// Users with sessions whose submissions depend on the ends of earlier tasks (Algorithm 1 of Madon
// et al., FGCS 155, 2024). Tasks of one time are submitted in the order of the log.
class SessionSource final : public Source {
  public:
    explicit SessionSource(std::shared_ptr<const Submissions> submissions);

    [[nodiscard]] std::unique_ptr<Source> clone() const override {
        return std::make_unique<SessionSource>(*this);
    }
    [[nodiscard]] double next_time() const override {
        const double timed = next_timed_ < submissions_->timed().size()
                                 ? submissions_->timed()[next_timed_].time
                                 : never;
        return due_.empty() ? timed : std::min(timed, due_.front().key());
    }
    void take(double now, const Tasks& tasks, Submission& submission) override;
    bool record_end(TaskId task, double end, Status status) override;
    [[nodiscard]] bool submits_all() const override { return true; }
    // The sessions that have begun, or of which fewer are to be awaited than at the start.
    [[nodiscard]] std::vector<double> memory() const override;
    void restore_memory(std::span<const double> memory) override;

  private:
    struct Progress {
        double start = 0.0;
        std::uint32_t waits_for = 0;
        std::uint32_t next = 0;  // job to be submitted
        std::uint32_t unfinished = 0;
        bool operator==(const Progress&) const = default;
    };

    [[nodiscard]] Progress initial(std::uint32_t session) const;
    void advance(std::uint32_t session, double now, std::vector<TaskId>& tasks);

    std::shared_ptr<const Submissions> submissions_;
    std::size_t next_timed_ = 0;  // of the tasks of no session
    SharedRows<Progress> sessions_;
    KeyHeap due_;  // sessions by their next submission
};

}  // namespace twinloop
