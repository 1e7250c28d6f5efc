// List scheduling: ready tasks in a fixed order of priority; for each, a cluster, a number of cores
// on one of its machines, and the first machine that has them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/idle_cores.hpp"
#include "control/policies/options.hpp"
#include "control/policies/workflow_tasks.hpp"
#include "platform/transfers.hpp"
#include "work/file_table.hpp"

namespace twinloop {
namespace {

class ListScheduling final : public Controller {
  public:
    explicit ListScheduling(ListOptions options) : options_(std::move(options)) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<ListScheduling>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    // Whether some machine has room for the fewest cores of the task.
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        return fits_some_machine(scheduler, task, range(scheduler, task).first);
    }

    void submitted(const SchedulerState& scheduler, TaskId task) override {
        waiting_.insert({-key(scheduler, task), rank(task), task});
    }
    void withdrawn(const SchedulerState& scheduler, TaskId task) override {
        waiting_.erase({-key(scheduler, task), rank(task), task});
    }
    void placed(const SchedulerState& scheduler, TaskId task) override {
        withdrawn(scheduler, task);
        update(scheduler, scheduler.parts(task));
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        update(scheduler, scheduler.parts(task));
    }
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override {
        if (idle_.is_complete(scheduler)) idle_.update(scheduler, machine);
    }

    void decide(SchedulerState& scheduler) override {
        if (!idle_.is_complete(scheduler)) idle_.build(scheduler, *options_.tables);
        for (auto at = waiting_.begin(); at != waiting_.end();) {
            if (scheduler.space().total_cores() <= slack) return;
            const TaskId task = std::get<TaskId>(*at++);
            // A placement takes the task out of the queue.
            place(scheduler, task);
        }
    }

  private:
    using Entry = std::tuple<double, std::uint64_t, TaskId>;

    // By task, computed once: a waiting task keeps its place if it gets another child.
    double key(const SchedulerState& scheduler, TaskId task) {
        if (!keys_) keys_ = std::make_shared<const std::vector<double>>(all_keys(scheduler));
        if (task < keys_->size()) return (*keys_)[task];
        const std::size_t row = task - keys_->size();
        if (row >= added_keys_.size())
            added_keys_.resize(row + 1, std::numeric_limits<double>::quiet_NaN());
        if (std::isnan(added_keys_[row])) added_keys_[row] = key_of(scheduler, task);
        return added_keys_[row];
    }
    [[nodiscard]] std::vector<double> all_keys(const SchedulerState& scheduler) const {
        if (options_.order == ListOrder::bottom_level) return bottom_levels(scheduler);
        std::vector<double> keys(scheduler.task_count());
        for (TaskId task = 0; task < keys.size(); ++task) keys[task] = key_of(scheduler, task);
        return keys;
    }
    [[nodiscard]] double key_of(const SchedulerState& scheduler, TaskId task) const {
        double children = 0.0;
        switch (options_.order) {
            case ListOrder::children:
                scheduler.tasks().each_child(task, [&](TaskId) { ++children; });
                return children;
            case ListOrder::data:
                return input_bytes(scheduler, task) +
                       (options_.input_only ? 0.0 : output_bytes(scheduler, task));
            case ListOrder::bottom_level:
            case ListOrder::work:
                break;
        }
        return declared_work(scheduler, task);
    }
    [[nodiscard]] std::uint64_t rank(TaskId task) const { return rank_of(*options_.tables, task); }

    void update(const SchedulerState& scheduler, std::span<const Part> parts) {
        if (!idle_.is_complete(scheduler)) return;
        for (const Part& part : parts)
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                idle_.update(scheduler, m);
    }

    // The fewest and the most cores of a task on one machine.
    [[nodiscard]] std::pair<double, double> range(const SchedulerState& scheduler,
                                                  TaskId task) const {
        const Task& row = scheduler.tasks()[task];
        if (!row.moldable) return {row.request.cores, row.request.cores};
        const SpeedupLaw& law = scheduler.tasks().law(task);
        return {law.min_cores, std::max(law.min_cores, std::min(law.max_cores, options_.cap))};
    }

    void place(SchedulerState& scheduler, TaskId task) {
        const auto [fewest, most] = range(scheduler, task);
        const bool is_simple =
            scheduler.unrestricted() &&
            (scheduler.space().is_plain() || needs_only_cores(scheduler.needs(task)));
        room_.assign(idle_.clusters(), -1.0);
        bool any = false;
        for (std::size_t c = 0; c < room_.size(); ++c) {
            if (idle_.machines(c).empty()) continue;
            room_[c] = is_simple ? idle_.most(c) : most_where_it_fits(scheduler, task, fewest, c);
            if (room_[c] < fewest - slack) room_[c] = -1.0;
            any = any || room_[c] >= 0;
        }
        if (!any) return;
        const std::size_t cluster = choose_cluster(scheduler, task);
        const double cores = choose_cores(scheduler, task, fewest, std::min(most, room_[cluster]));
        if (is_simple) {
            const Part part{idle_.first(cluster, cores), 1, cores};
            scheduler.place(task, {&part, 1});
            return;
        }
        for (const MachineId m : idle_.machines(cluster)) {
            const Part part{m, 1, cores};
            if (find_place_obstacle(scheduler, task, {&part, 1}, {}) != nullptr) continue;
            scheduler.place(task, {&part, 1});
            return;
        }
    }

    // The most idle cores on a machine of the cluster that has what else the task needs.
    [[nodiscard]] double most_where_it_fits(const SchedulerState& scheduler, TaskId task,
                                            double fewest, std::size_t cluster) const {
        const Needs needs = scheduler.needs(task);
        const Space& space = scheduler.space();
        double most = -1.0;
        for (const MachineId m : idle_.machines(cluster))
            if (space.holds(m, fewest, needs.memory, needs.amounts) && space.cores(m) > most &&
                scheduler.allowed(task, m, scheduler.now(), scheduler.planned_time(task)))
                most = space.cores(m);
        return most;
    }

    // Among the clusters with room; ties go to the last one, or to the first one.
    std::size_t choose_cluster(const SchedulerState& scheduler, TaskId task) {
        if (options_.cluster == ClusterChoice::most_data) count_local_bytes(scheduler, task);
        std::size_t best = room_.size();
        double highest = 0.0;
        for (std::size_t c = 0; c < room_.size(); ++c) {
            if (room_[c] < 0) continue;
            const double value = cluster_value(c);
            if (best < room_.size() &&
                (options_.last_of_equals ? value < highest : value <= highest))
                continue;
            best = c;
            highest = value;
        }
        return best;
    }
    [[nodiscard]] double cluster_value(std::size_t cluster) const {
        switch (options_.cluster) {
            case ClusterChoice::fastest:
                return idle_.speed(cluster);
            case ClusterChoice::most_idle:
                return idle_.sum(cluster);
            case ClusterChoice::most_idle_speed:
                return idle_.sum(cluster) * idle_.speed(cluster);
            case ClusterChoice::most_data:
                break;
        }
        return bytes_[cluster];
    }

    // By cluster: the bytes of the inputs of a task that are in one of its stores.
    void count_local_bytes(const SchedulerState& scheduler, TaskId task) {
        bytes_.assign(idle_.clusters(), 0.0);
        const DataView& data = scheduler.data();
        if (data.files == nullptr || data.transfers == nullptr) return;
        for (const FileId file : data.files->read_by(task)) {
            holders_.clear();
            data.transfers->files().each_place(file, [&](StoreId store, double) {
                const std::uint32_t cluster = cluster_of_store(*data.transfers, store);
                if (cluster < bytes_.size() &&
                    std::ranges::find(holders_, cluster) == holders_.end())
                    holders_.push_back(cluster);
            });
            for (const std::uint32_t cluster : holders_)
                bytes_[cluster] += data.files->files[file].bytes;
        }
    }
    [[nodiscard]] std::uint32_t cluster_of_store(const Transfers& transfers, StoreId store) const {
        const WorkflowTables& tables = *options_.tables;
        if (store < tables.store_clusters.size()) return tables.store_clusters[store];
        // The store of a host is at its node, which has the number of the host.
        const NodeId node = transfers.stores[store].spec.node;
        return node < tables.clusters.size() ? tables.clusters[node] : ~0U;
    }

    // A whole number, from the fewest up to that bound: the most with the wanted efficiency.
    [[nodiscard]] double choose_cores(const SchedulerState& scheduler, TaskId task, double fewest,
                                      double bound) const {
        if (!scheduler.tasks()[task].moldable) return fewest;
        const SpeedupLaw& law = scheduler.tasks().law(task);
        auto cores = static_cast<std::int64_t>(std::floor(bound + slack));
        const auto as_real = [&] { return static_cast<double>(cores); };
        while (as_real() > fewest && law.efficiency(as_real()) < options_.efficiency) --cores;
        return std::max(as_real(), fewest);
    }

    ListOptions options_;
    std::set<Entry> waiting_;  // by priority, then by rank
    IdleCores idle_;
    std::shared_ptr<const std::vector<double>> keys_;  // of the tasks at the start
    std::vector<double> added_keys_;
    std::vector<double> room_;   // by cluster; reused
    std::vector<double> bytes_;  // likewise
    std::vector<std::uint32_t> holders_;
};

}  // namespace

std::unique_ptr<Controller> make_list_scheduling(const ListOptions& options) {
    return std::make_unique<ListScheduling>(options);
}

}  // namespace twinloop
