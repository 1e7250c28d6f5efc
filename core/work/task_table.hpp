// The tasks of a scenario as constant rows that all its runs share, and the tasks of one run: the
// shared rows followed by the rows that appeared during the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/measure.hpp"
#include "kernel/shared_rows.hpp"
#include "work/request.hpp"
#include "work/speedup.hpp"

namespace twinloop {

// A period of constant demand.
struct Fragment {
    double duration = 0.0;  // s, as recorded
    double rate = 0.0;      // reference core-seconds per second
};

// In two cache lines.
struct alignas(64) Task {
    Request request;
    double work = 0.0;    // reference core-seconds
    double limit = 0.0;   // reference core-seconds per second, at most
    double length = 0.0;  // recorded run time (s)
    double speed = 1.0;   // of the machine on which it was recorded
    double deadline = never;
    std::uint32_t first_fragment = 0;
    std::uint32_t fragments = 0;  // 0: its demand is constant
    std::uint32_t first_child = 0;
    std::uint32_t children = 0;
    std::uint32_t parents = 0;
    std::uint16_t kind = 0;  // of contention
    bool rejected = false;   // before the run: it can never be placed
    bool moldable = false;   // it has a speed-up law
};

class TaskTable {
  public:
    explicit TaskTable(std::size_t resources = 0) : resources_(resources) {}

    // Adds a row; its length follows from the rest. `amounts`: of each other resource.
    TaskId add(const Task& task, std::span<const double> amounts,
               std::span<const Fragment> fragments = {}, std::span<const TaskId> children = {});
    void reserve(std::size_t tasks, std::size_t fragments) {
        rows_.reserve(tasks);
        fragments_.reserve(fragments);
    }
    void set_rejected(TaskId task, bool rejected) { rows_[task].rejected = rejected; }
    void set_law(TaskId task, SpeedupLaw law);
    // Whether some task has a speed-up law.
    [[nodiscard]] bool has_laws() const { return !laws_.empty(); }
    // The law of a task that has one.
    [[nodiscard]] const SpeedupLaw& law(TaskId task) const { return laws_[law_of_[task]]; }

    [[nodiscard]] std::size_t size() const { return rows_.size(); }
    [[nodiscard]] std::size_t resources() const { return resources_; }
    [[nodiscard]] std::size_t fragment_count() const { return fragments_.size(); }
    [[nodiscard]] const Task& operator[](TaskId task) const { return rows_[task]; }
    [[nodiscard]] std::span<const double> amounts(TaskId task) const {
        return std::span(amounts_).subspan(task * resources_, resources_);
    }
    [[nodiscard]] std::span<const Fragment> fragments(TaskId task) const {
        return std::span(fragments_).subspan(rows_[task].first_fragment, rows_[task].fragments);
    }
    [[nodiscard]] std::span<const TaskId> children(TaskId task) const {
        return std::span(children_).subspan(rows_[task].first_child, rows_[task].children);
    }

    // The requests of all rows together, so that a run need not look at each.
    struct Extent {
        bool memory = false;            // some row requests memory
        bool amounts = false;           // some row requests another resource
        bool nodes = false;             // some row requests nodes
        bool nodes_beyond_one = false;  // some row requests nodes other than one per core
        bool parents = false;           // some row depends on another
        double mhz = 0.0;               // highest minimum clock

        void include(const Task& task, std::span<const double> amounts);
    };
    [[nodiscard]] const Extent& extent() const { return extent_; }

  private:
    std::size_t resources_;
    std::vector<Task> rows_;
    std::vector<double> amounts_;
    std::vector<Fragment> fragments_;
    std::vector<TaskId> children_;
    std::vector<SpeedupLaw> laws_;
    std::vector<std::uint32_t> law_of_;  // by task; empty without laws
    Extent extent_;
};

// Whether a request for nodes can be met by as many cores of single-core machines.
[[nodiscard]] inline bool is_node_per_core(const Request& request) {
    return request.nodes > 0 && request.cores == request.nodes && request.memory == 0;
}

// The tasks that depend on others and were added in one run: an edge for each parent, which is any
// task of the run. Nothing is stored before the first one.
class AddedChildren {
  public:
    struct Edge {
        TaskId parent = no_task;
        TaskId child = no_task;
        std::uint32_t next = none;  // edge of that parent
    };

    void add(TaskId parent, TaskId child);
    // The edges by child, in the order in which these were added.
    [[nodiscard]] const SharedRows<Edge>& edges() const { return edges_; }
    [[nodiscard]] bool has(TaskId parent) const {
        return parent < ends_.size() && ends_[parent].first != none;
    }
    // Calls `visit(child)` for the children of a task, in the order in which they were added.
    template <class Visit>
    void each(TaskId parent, Visit&& visit) const {
        if (parent >= ends_.size()) return;
        for (std::uint32_t at = ends_[parent].first; at != none; at = edges_[at].next)
            visit(edges_[at].child);
    }

  private:
    static constexpr std::uint32_t none = ~0U;
    struct Ends {
        std::uint32_t first = none;
        std::uint32_t last = none;
    };

    SharedRows<Edge> edges_;
    SharedRows<Ends> ends_;  // by parent, up to the last one that has such children
};

// The tasks that were added in one run: rows of constant demand, which are shared with the copies
// of the run.
class AddedTasks {
  public:
    explicit AddedTasks(std::size_t resources) : resources_(resources) {}

    // `command`: a text that is kept with the row.
    void add(const Task& task, std::span<const double> amounts, std::string_view name,
             std::string_view command);
    void set_rejected(std::size_t row) { rows_.edit(row).rejected = true; }
    // Another task, without name, command and other resources, in the place of one that is gone.
    void replace(std::size_t row, const Task& task) { rows_.edit(row) = task; }

    [[nodiscard]] std::size_t size() const { return rows_.size(); }
    [[nodiscard]] const Task& operator[](std::size_t row) const { return rows_[row]; }
    // Valid until a row is added.
    [[nodiscard]] std::span<const double> amounts(std::size_t row) const {
        if (resources_ == 0) return {};
        return {&amounts_[place_of_amounts(row)], resources_};
    }
    [[nodiscard]] std::string name(std::size_t row) const;
    [[nodiscard]] std::string command(std::size_t row) const;
    // The row with that name, or the number of rows.
    [[nodiscard]] std::size_t find(const std::string& name) const;
    [[nodiscard]] const TaskTable::Extent& extent() const { return extent_; }

  private:
    // The rows by name. It is filled when a name is looked up, and stays behind in a copy.
    struct Index {
        std::unordered_map<std::string, std::size_t> rows;

        Index() = default;
        Index(const Index& /*other*/) {}  // NOLINT(bugprone-copy-constructor-init)
        Index(Index&&) = default;
        Index& operator=(const Index& other) {
            if (this != &other) rows.clear();
            return *this;
        }
        Index& operator=(Index&&) = default;
        ~Index() = default;
    };

    // The amounts of a row are in one chunk.
    [[nodiscard]] std::size_t place_of_amounts(std::size_t row) const {
        constexpr std::size_t chunk = SharedRows<double>::chunk_rows;
        const std::size_t rows = chunk / resources_;
        return row / rows * chunk + row % rows * resources_;
    }

    std::size_t resources_;
    SharedRows<Task> rows_;
    SharedRows<double> amounts_;
    SharedRows<char> letters_;           // of the names, one after the other
    SharedRows<std::size_t> name_ends_;  // in the letters
    SharedRows<char> commands_;
    SharedRows<std::size_t> command_ends_;  // up to the last row that has one
    mutable Index index_;
    TaskTable::Extent extent_;
};

class Tasks {
  public:
    Tasks() : Tasks(std::make_shared<const TaskTable>()) {}
    explicit Tasks(std::shared_ptr<const TaskTable> shared)
        : shared_(std::move(shared)), shared_size_(static_cast<TaskId>(shared_->size())),
          own_(shared_->resources()) {}

    [[nodiscard]] std::size_t size() const { return shared_size_ + own_.size(); }
    [[nodiscard]] const TaskTable& shared() const { return *shared_; }
    [[nodiscard]] const AddedTasks& own() const { return own_; }
    [[nodiscard]] const Task& operator[](TaskId task) const {
        return task < shared_size_ ? (*shared_)[task] : own_[task - shared_size_];
    }
    [[nodiscard]] std::span<const double> amounts(TaskId task) const {
        return task < shared_size_ ? shared_->amounts(task) : own_.amounts(task - shared_size_);
    }
    [[nodiscard]] std::span<const Fragment> fragments(TaskId task) const {
        return task < shared_size_ ? shared_->fragments(task) : std::span<const Fragment>();
    }
    // The law of a moldable task: tasks that appeared during the run have none.
    [[nodiscard]] const SpeedupLaw& law(TaskId task) const { return shared_->law(task); }
    [[nodiscard]] bool has_children(TaskId task) const {
        return (*this)[task].children > 0 || children_.has(task);
    }
    // Calls `visit(child)` for the tasks that depend on a task.
    template <class Visit>
    void each_child(TaskId task, Visit&& visit) const {
        if (task < shared_size_)
            for (const TaskId child : shared_->children(task)) visit(child);
        children_.each(task, visit);
    }
    [[nodiscard]] const AddedChildren& added_children() const { return children_; }

    TaskId add(const Task& task, std::span<const double> amounts, std::string_view name,
               std::string_view command = {}) {
        own_.add(task, amounts, name, command);
        return static_cast<TaskId>(size() - 1);
    }
    void add_child(TaskId parent, TaskId child) { children_.add(parent, child); }
    // The name and the command of a task that appeared during the run.
    [[nodiscard]] std::string name(TaskId task) const { return own_.name(task - shared_size_); }
    [[nodiscard]] std::string command(TaskId task) const {
        return own_.command(task - shared_size_);
    }
    // The task with that name that appeared during the run, or `no_task`.
    [[nodiscard]] TaskId find(const std::string& name) const {
        const std::size_t row = own_.find(name);
        return row < own_.size() ? static_cast<TaskId>(shared_size_ + row) : no_task;
    }
    [[nodiscard]] bool is_own(TaskId task) const { return task >= shared_size_; }
    void set_rejected(TaskId task) { own_.set_rejected(task - shared_size_); }
    void replace(TaskId task, const Task& row) { own_.replace(task - shared_size_, row); }

  private:
    std::shared_ptr<const TaskTable> shared_;
    TaskId shared_size_;
    AddedTasks own_;
    AddedChildren children_;
};

}  // namespace twinloop
