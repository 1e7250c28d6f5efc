// Sources of submissions: those in Python, and the submissions of a run without a simulation.
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <string>

#include "bind/event.hpp"
#include "bind/sources.hpp"
#include "work/submitter.hpp"

namespace twinloop::bind {
namespace {

struct End {
    TaskId task;
    double end;
    Status status;
};

}  // namespace

NewTask new_task_from(nb::handle given) {
    NewTask made;
    made.name = nb::cast<std::string>(given.attr("id"));
    Task& row = made.row;
    row.request.cores = nb::cast<double>(given.attr("cores"));
    row.request.memory = nb::cast<double>(given.attr("memory"));
    row.request.time = nb::cast<double>(given.attr("requested_time"));
    row.request.submit = nb::cast<double>(given.attr("submit"));
    row.request.priority = nb::cast<double>(given.attr("priority"));
    row.request.nodes = nb::cast<std::int32_t>(given.attr("nodes"));
    row.request.user = nb::cast<std::int32_t>(given.attr("user"));
    row.request.group = nb::cast<std::int32_t>(given.attr("group"));
    row.request.queue = nb::cast<std::int32_t>(given.attr("queue"));
    row.work = nb::cast<double>(given.attr("work"));
    row.limit = nb::cast<double>(given.attr("limit"));
    row.kind = nb::cast<std::uint16_t>(given.attr("kind"));
    row.deadline = nb::cast<double>(given.attr("deadline"));
    made.amounts = nb::cast<std::vector<double>>(given.attr("amounts"));
    made.command = nb::cast<std::string>(given.attr("command"));
    made.parents = nb::cast<decltype(made.parents)>(given.attr("parents"));
    return made;
}

nb::dict new_task_dict(const NewTask& given) {
    const Request& request = given.row.request;
    nb::dict row;
    row["id"] = given.name;
    row["submit"] = request.submit;
    row["cores"] = request.cores;
    row["memory"] = request.memory;
    row["requested_time"] = request.time;
    row["work"] = given.row.work;
    row["limit"] = given.row.limit;
    row["nodes"] = request.nodes;
    row["user"] = request.user;
    row["group"] = request.group;
    row["queue"] = request.queue;
    row["priority"] = request.priority;
    row["kind"] = given.row.kind;
    row["deadline"] = given.row.deadline;
    row["amounts"] = given.amounts;
    if (!given.command.empty()) row["command"] = given.command;
    if (!given.parents.empty()) row["parents"] = given.parents;
    return row;
}

nb::dict added_task_dict(const Tasks& tasks, TaskId task, const std::vector<TaskId>& parents) {
    const std::span<const double> amounts = tasks.amounts(task);
    return new_task_dict({tasks[task],
                          {amounts.begin(), amounts.end()},
                          tasks.name(task),
                          tasks.command(task),
                          {parents.begin(), parents.end()}});
}

std::vector<std::vector<TaskId>> parents_of_added(const Tasks& tasks) {
    std::vector<std::vector<TaskId>> parents(tasks.own().size());
    tasks.added_children().edges().each([&](const AddedChildren::Edge& edge) {
        parents[edge.child - tasks.shared().size()].push_back(edge.parent);
    });
    return parents;
}

namespace {

constexpr std::size_t most_idle = 1'000'000;  // answers without tasks in a row

// A source in Python. Its answer is kept until it is due, or until ends are reported: then the
// source is asked again, in the same instant.
class PythonSource final : public Source {
  public:
    PythonSource(nb::object state, std::size_t rows, double start)
        : state_(std::move(state)), next_(state_.attr("next")), most_answers_(10'000 + 10 * rows) {
        ask(start, nullptr);
    }

    ~PythonSource() override = default;
    PythonSource(const PythonSource&) = delete;
    PythonSource(PythonSource&&) = delete;
    PythonSource& operator=(const PythonSource&) = delete;
    PythonSource& operator=(PythonSource&&) = delete;

    [[nodiscard]] std::unique_ptr<Source> clone() const override {
        nb::object copied = state_.attr("copy")();
        nb::object next = copied.attr("next");
        return std::unique_ptr<Source>(new PythonSource(*this, std::move(copied), std::move(next)));
    }
    [[nodiscard]] bool foreign() const override { return true; }
    [[nodiscard]] double next_time() const override { return ends_.empty() ? time_ : -never; }
    [[nodiscard]] bool continues() const override { return next_time() < never; }

    bool record_end(TaskId task, double end, Status status) override {
        ends_.push_back({task, end, status});
        return true;
    }

    void take(double now, const Tasks& tasks, Submission& submission) override {
        if (now > asked_) answers_ = 0;
        // With ends, the answer is replaced even if it is due: the new one may submit more tasks at
        // this time, in another order.
        while (!ends_.empty() || time_ <= now) {
            if (ends_.empty()) move_answer(submission);
            ask(now, &tasks);
            if (time_ <= now && ++answers_ > most_answers_)
                throw SourceError("answers for the same time again and again (" +
                                  std::to_string(answers_) + " times)");
        }
    }

    // The ends that the source does not know, its answer, and its own state.
    [[nodiscard]] nb::dict save() const {
        nb::list ended;
        for (const End& each : ends_)
            ended.append(nb::make_tuple(each.task, each.end, static_cast<int>(each.status)));
        nb::list tasks;
        std::size_t added = 0;
        for (const TaskId task : answer_.tasks) {
            if (task == no_task) tasks.append(new_task_dict(answer_.added[added++]));
            else tasks.append(task);
        }
        nb::dict saved;
        saved["ended"] = ended;
        saved["time"] = time_;
        saved["tasks"] = tasks;
        saved["asked"] = asked_;
        saved["source"] = state_.attr("save")();
        return saved;
    }
    void restore(nb::handle saved) {
        state_.attr("load")(saved["source"]);
        ends_.clear();
        for (const nb::handle each : nb::cast<nb::list>(saved["ended"]))
            ends_.push_back({nb::cast<TaskId>(each[0]), nb::cast<double>(each[1]),
                             static_cast<Status>(nb::cast<std::uint8_t>(each[2]))});
        time_ = nb::cast<double>(saved["time"]);
        asked_ = nb::cast<double>(saved["asked"]);
        answers_ = idle_ = 0;
        read_tasks(nb::cast<nb::list>(saved["tasks"]));
    }

  private:
    PythonSource(const PythonSource& other, nb::object state, nb::object next)
        : state_(std::move(state)), next_(std::move(next)), ends_(other.ends_), time_(other.time_),
          answer_(other.answer_), asked_(other.asked_), answers_(other.answers_),
          idle_(other.idle_), most_answers_(other.most_answers_) {}

    void move_answer(Submission& submission) {
        submission.tasks.insert(submission.tasks.end(), answer_.tasks.begin(), answer_.tasks.end());
        std::ranges::move(answer_.added, std::back_inserter(submission.added));
        answer_.clear();
        time_ = never;
    }

    // Replaces the answer. `tasks`: those of the run, for the names of new ones; nullptr before it.
    void ask(double now, const Tasks* tasks) {
        answer_.clear();
        time_ = never;
        asked_ = now;
        std::ranges::sort(ends_, [](const End& a, const End& b) {
            return a.end != b.end ? a.end < b.end : a.task < b.task;
        });
        nb::list finished;
        for (const End& each : ends_) {
            const nb::object task = tasks != nullptr && tasks->is_own(each.task)
                                        ? nb::object(nb::cast(tasks->name(each.task)))
                                        : nb::object(nb::int_(each.task));
            finished.append(nb::make_tuple(task, each.end, static_cast<std::uint8_t>(each.status)));
        }
        idle_ = ends_.empty() ? idle_ : 0;
        ends_.clear();
        const nb::object answer = next_(now, finished);
        if (answer.is_none()) return;
        time_ = std::max(now, nb::cast<double>(answer[0]));
        read_tasks(nb::cast<nb::list>(answer[1]));
        idle_ = answer_.tasks.empty() ? idle_ + 1 : 0;
        if (idle_ > most_idle)
            throw SourceError("answers without tasks again and again (" + std::to_string(idle_) +
                              " times) while no task ends");
    }

    // The tasks of an answer: rows by index, or new rows.
    void read_tasks(const nb::list& tasks) {
        answer_.clear();
        for (const nb::handle each : tasks) {
            if (PyLong_Check(each.ptr())) {
                answer_.tasks.push_back(nb::cast<TaskId>(each));
            } else {
                answer_.tasks.push_back(no_task);
                answer_.added.push_back(new_task_from(each));
            }
        }
    }

    nb::object state_;
    nb::object next_;
    std::vector<End> ends_;  // since the last call
    double time_ = never;    // of the answer; infinite: none
    Submission answer_;
    double asked_ = -never;
    std::size_t answers_ = 0;  // that were due at once, at that time
    std::size_t idle_ = 0;     // successive answers without tasks, while no task ended
    std::size_t most_answers_;
};

// The submissions of a run without a simulation, for real executions.
struct SourceHandle {
    std::shared_ptr<Scenario> scenario;
    Submitter submitter;
    Tasks tasks;

    // The tasks that are submitted up to now: rows by index, new tasks by their values.
    nb::list pop_due(double now) {
        nb::list due;
        submitter.submit_due(
            now, tasks, [&](TaskId task) { due.append(task); },
            [&](NewTask& given) {
                given.row.request.submit = now;
                const std::vector<TaskId> parents = find_parents(tasks, given);
                const TaskId id = tasks.add(given.row, given.amounts, given.name, given.command);
                due.append(added_task_dict(tasks, id, parents));
            });
        return due;
    }
    void record_end(std::int64_t task, double now, std::uint8_t status) {
        if (task < 0 || static_cast<std::size_t>(task) >= tasks.size())
            throw nb::index_error(("there is no task " + std::to_string(task)).c_str());
        submitter.record_end(static_cast<TaskId>(task), now, static_cast<Status>(status));
    }
};

double first_submission(const Scenario& scenario) {
    double first = 0.0;
    for (TaskId task = 0; task < scenario.size(); ++task)
        first = std::min(first, (*scenario.tasks)[task].request.submit);
    return first;
}

}  // namespace

std::unique_ptr<Source> source_from(nb::handle state, const ScenarioHandle& scenario) {
    if (state.is_none()) return nullptr;
    const Scenario& all = *scenario.scenario;
    return std::make_unique<PythonSource>(nb::borrow(state), all.size(), first_submission(all));
}

nb::object save_source(const Source& source) {
    const auto* const python = dynamic_cast<const PythonSource*>(&source);
    return python == nullptr ? nb::object(nb::none()) : nb::object(python->save());
}

void restore_source(Source& source, nb::handle saved) {
    if (auto* const python = dynamic_cast<PythonSource*>(&source)) python->restore(saved);
}

void bind_sources(nb::module_& module) {
    // The object registers the class; it need not be kept.
    [[maybe_unused]] const nb::exception<SourceError> type(module, "SourceError",
                                                           PyExc_RuntimeError);
    nb::class_<SourceHandle>(module, "NativeSource", nb::is_final(),
                             "The submissions of a compiled scenario without a simulation, by its "
                             "source: rigid submission times, users with sessions, or Python.")
        .def(
            "__init__",
            [](SourceHandle* self, const ScenarioHandle& scenario, nb::handle state) {
                new (self) SourceHandle{
                    scenario.scenario,
                    Submitter(scenario.scenario->submissions, source_from(state, scenario)),
                    Tasks(scenario.scenario->tasks)};
            },
            nb::arg("scenario"), nb::arg("source") = nb::none(),
            nb::sig("def __init__(self, scenario: NativeScenario, source: object | None = None) -> "
                    "None"))
        .def_prop_ro(
            "next_time", [](const SourceHandle& self) { return self.submitter.next_time(); },
            "The time of the next submission (s); infinite if it depends on a task that runs.")
        .def_prop_ro(
            "continues", [](const SourceHandle& self) { return self.submitter.continues(); },
            "Whether it is to be asked again even if no task is left.")
        .def(
            "pop_due", [](SourceHandle& self, double now) { return self.pop_due(now); },
            nb::arg("now"),
            nb::sig("def pop_due(self, now: float) -> list[int | dict[str, typing.Any]]"),
            "Return the tasks submitted up to `now`, in their order: rows of the workload by "
            "index, new tasks by the values of their rows, with the rows of their parents.")
        .def(
            "record_end",
            [](SourceHandle& self, std::int64_t task, double now, std::uint8_t status) {
                self.record_end(task, now, status);
            },
            nb::arg("task"), nb::arg("now"), nb::arg("status") = 1,
            "Record the end of a task; `status`: as in `outcomes` of a run.");
}

}  // namespace twinloop::bind
