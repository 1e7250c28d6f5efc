// HEFT and CPOP: a plan of all tasks, made once, which the run follows. A task starts on its
// planned machine when it is ready and the tasks planned before it on its cores have ended.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"
#include "control/policies/static_plan.hpp"
#include "control/policies/transfer_estimates.hpp"
#include "control/policies/workflow_tasks.hpp"
#include "platform/transfers.hpp"
#include "work/file_table.hpp"

namespace twinloop {
namespace {

// The plan of a run, constant: copies share it.
struct Plan {
    std::vector<PlannedTask> tasks;
    // By task: those that follow it on one of its slots, and the number of those before it.
    std::vector<std::vector<TaskId>> next;
    std::vector<std::uint32_t> before;
};

class StaticList final : public Controller {
  public:
    explicit StaticList(StaticOptions options) : options_(std::move(options)) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<StaticList>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        return fits_some_machine(scheduler, task);
    }
    void submitted(const SchedulerState& scheduler, TaskId task) override {
        make_plan(scheduler);
        waiting_.insert(entry(task));
    }
    void withdrawn(const SchedulerState& scheduler, TaskId task) override {
        make_plan(scheduler);
        waiting_.erase(entry(task));
        conclude(task);
    }
    void placed(const SchedulerState& scheduler, TaskId task) override {
        make_plan(scheduler);
        waiting_.erase(entry(task));
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        make_plan(scheduler);
        conclude(task);
    }

    // The tasks that have left the plan.
    [[nodiscard]] std::vector<double> memory() const override {
        std::vector<double> done;
        for (TaskId task = 0; task < is_done_.size(); ++task)
            if (is_done_[task]) done.push_back(task);
        return done;
    }
    void restore_memory(const SchedulerState& scheduler, std::span<const double> done) override {
        make_plan(scheduler);
        for (const double task : done)
            if (task >= 0 && task < static_cast<double>(is_done_.size()))
                conclude(static_cast<TaskId>(task));
    }

    void decide(SchedulerState& scheduler) override {
        for (auto at = waiting_.begin(); at != waiting_.end();) {
            const TaskId task = std::get<TaskId>(*at++);
            // A task that is not in the plan is placed where it fits.
            if (task >= plan_->tasks.size()) place_anywhere(scheduler, task);
            else if (before_[task] == 0) place(scheduler, task, plan_->tasks[task].machine);
        }
        // Without a running task, only a change of the plan can let a task start: the tasks before
        // the waiting ones have failed, or their machine is not there.
        if (!scheduler.running().empty()) return;
        for (auto at = waiting_.begin(); at != waiting_.end();) {
            const TaskId task = std::get<TaskId>(*at++);
            if (task >= plan_->tasks.size() || !place(scheduler, task, plan_->tasks[task].machine))
                place_anywhere(scheduler, task);
        }
    }

  private:
    using Entry = std::tuple<double, std::uint64_t, TaskId>;

    [[nodiscard]] Entry entry(TaskId task) const {
        const double start = task < plan_->tasks.size() ? plan_->tasks[task].start : never;
        return {start, rank_of(*options_.tables, task), task};
    }

    void make_plan(const SchedulerState& scheduler) {
        if (plan_) return;
        auto plan = std::make_shared<Plan>();
        const PlanInput input = describe(scheduler);
        plan->tasks = options_.critical_path ? plan_cpop(input) : plan_heft(input);
        link(*plan, input, topological_order(scheduler.tasks()));
        plan_ = std::move(plan);
        before_ = plan_->before;
        is_done_.assign(plan_->tasks.size(), false);
        for (TaskId task = 0; task < is_done_.size(); ++task)
            if (scheduler.phase(task) == Phase::gone) conclude(task);
    }

    // The tasks of the scenario, on all machines: a core is a slot.
    [[nodiscard]] PlanInput describe(const SchedulerState& scheduler) const {
        PlanInput input;
        const std::span<const MachineSpec> machines = scheduler.machines();
        const Space& space = scheduler.empty_space();
        for (MachineId m = 0; m < machines.size(); ++m)
            input.slots.push_back(
                static_cast<std::size_t>(std::max(0.0, std::floor(space.cores(m) + slack))));
        const auto count = static_cast<TaskId>(scheduler.tasks().shared().size());
        for (TaskId task = 0; task < count; ++task) {
            const Request& request = scheduler.request(task);
            const Needs needs = scheduler.needs(task);
            const double time = declared_time(scheduler, task) * scheduler.tasks()[task].speed;
            for (MachineId m = 0; m < machines.size(); ++m)
                input.costs.push_back(
                    !scheduler.tasks()[task].rejected &&
                            space.holds(m, needs.cores, needs.memory, needs.amounts) &&
                            scheduler.allowed(task, m, never, scheduler.planned_time(task))
                        ? time / machines[m].speed
                        : never);
            input.widths.push_back(
                static_cast<std::size_t>(std::max(1.0, std::ceil(request.cores - slack))));
            input.earliest.push_back(request.submit);
            input.ranks.push_back(rank_of(*options_.tables, task));
        }
        add_edges(scheduler, count, input);
        return input;
    }

    void add_edges(const SchedulerState& scheduler, TaskId count, PlanInput& input) const {
        const DataView& data = scheduler.data();
        const auto [latency, seconds_per_byte] = mean_route(scheduler);
        std::unordered_map<FileId, double> written;
        for (TaskId task = 0; task < count; ++task) {
            written.clear();
            if (data.files != nullptr)
                for (const FileId file : data.files->written_by(task))
                    written[file] = data.files->files[file].bytes;
            scheduler.tasks().each_child(task, [&](TaskId child) {
                if (child >= count) return;
                double bytes = 0.0;
                if (!written.empty())
                    for (const FileId file : data.files->read_by(child))
                        if (const auto found = written.find(file); found != written.end())
                            bytes += found->second;
                const double cost = bytes > 0 ? latency + bytes * seconds_per_byte : 0.0;
                input.edges.push_back({task, child, cost});
            });
        }
    }

    // The mean latency, and 1 / the mean bandwidth, between the stores of the platform, or the
    // first store of a host, and the hosts.
    [[nodiscard]] std::pair<double, double> mean_route(const SchedulerState& scheduler) const {
        const DataView& data = scheduler.data();
        if (data.transfers == nullptr || data.transfers->stores.empty()) return {0.0, 0.0};
        TransferEstimates estimates;
        const auto stores =
            static_cast<StoreId>(std::max<std::size_t>(1, options_.tables->store_clusters.size()));
        double latency = 0.0;
        double bandwidth = 0.0;
        std::size_t count = 0;
        std::size_t limited = 0;
        for (StoreId s = 0; s < stores; ++s)
            for (NodeId node = 0; node < options_.tables->clusters.size(); ++node) {
                const TransferEstimates::Route& route = estimates.route(data, s, node);
                if (data.transfers->stores[s].spec.node == node || route.bandwidth <= 0) continue;
                latency += route.latency;
                ++count;
                double least = route.bandwidth;
                if (const ResourceId read = data.transfers->stores[s].spec.read; read != none)
                    least = std::min(least, data.simulation->capacity(read));
                if (least == never) continue;
                bandwidth += least;
                ++limited;
            }
        return {count > 0 ? latency / static_cast<double>(count) : 0.0,
                limited > 0 ? static_cast<double>(limited) / bandwidth : 0.0};
    }

    static void link(Plan& plan, const PlanInput& input, const std::vector<TaskId>& parents_first) {
        plan.next.resize(plan.tasks.size());
        plan.before.assign(plan.tasks.size(), 0);
        std::vector<TaskId> order;
        for (const TaskId task : parents_first)
            if (task < plan.tasks.size() && plan.tasks[task].machine != no_machine)
                order.push_back(task);
        // Of tasks that take no time, parents first.
        std::ranges::stable_sort(order, {}, [&](TaskId task) {
            return std::pair(plan.tasks[task].start, plan.tasks[task].end);
        });
        std::vector<std::vector<TaskId>> last(input.machines());
        for (std::size_t m = 0; m < last.size(); ++m) last[m].assign(input.slots[m], no_task);
        for (const TaskId task : order)
            for (const std::uint32_t slot : plan.tasks[task].slots) {
                TaskId& previous = last[plan.tasks[task].machine][slot];
                if (previous != no_task) {
                    plan.next[previous].push_back(task);
                    ++plan.before[task];
                }
                previous = task;
            }
    }

    void conclude(TaskId task) {
        if (task >= is_done_.size() || is_done_[task]) return;
        is_done_[task] = true;
        for (const TaskId next : plan_->next[task]) --before_[next];
    }

    bool place(SchedulerState& scheduler, TaskId task, MachineId machine) {
        if (machine == no_machine) return false;
        const Part part{machine, 1, scheduler.request(task).cores};
        if (find_place_obstacle(scheduler, task, {&part, 1}, {}) != nullptr) return false;
        return scheduler.place(task, {&part, 1});
    }
    void place_anywhere(SchedulerState& scheduler, TaskId task) {
        for (MachineId m = 0; m < scheduler.machines().size(); ++m)
            if (place(scheduler, task, m)) return;
    }

    StaticOptions options_;
    std::shared_ptr<const Plan> plan_;
    std::vector<std::uint32_t> before_;  // by task: those on its slots that have not ended
    std::vector<bool> is_done_;
    std::set<Entry> waiting_;  // by planned start
};

}  // namespace

std::unique_ptr<Controller> make_static_list(const StaticOptions& options) {
    return std::make_unique<StaticList>(options);
}

}  // namespace twinloop
