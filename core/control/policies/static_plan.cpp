#include "control/policies/static_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace twinloop {
namespace {

class Planner {
  public:
    explicit Planner(const PlanInput& input)
        : input_(input), parents_(input.tasks()), children_(input.tasks()), plan_(input.tasks()),
          busy_(input.machines()) {
        for (std::uint32_t at = 0; at < input.edges.size(); ++at) {
            parents_[input.edges[at].child].push_back(at);
            children_[input.edges[at].parent].push_back(at);
        }
        for (std::size_t m = 0; m < busy_.size(); ++m) busy_[m].resize(input.slots[m]);
        find_order();
        find_mean_costs();
        find_ranks();
    }

    std::vector<PlannedTask> heft() {
        // A parent without cost has the rank of its child: it comes first by the order.
        std::vector<std::uint32_t> tasks = order_;
        std::ranges::stable_sort(tasks, std::ranges::greater(),
                                 [&](std::uint32_t task) { return upward_[task]; });
        for (const std::uint32_t task : tasks) place_best(task);
        return std::move(plan_);
    }

    std::vector<PlannedTask> cpop() {
        const std::vector<bool> is_critical = find_critical_path();
        const std::uint32_t machine = find_critical_machine(is_critical);
        std::vector<std::size_t> missing(input_.tasks());
        using Entry = std::tuple<double, std::uint64_t, std::uint32_t>;
        std::set<Entry> ready;
        const auto add = [&](std::uint32_t task) {
            ready.insert({-(upward_[task] + downward_[task]), input_.ranks[task], task});
        };
        for (std::uint32_t task = 0; task < missing.size(); ++task) {
            missing[task] = parents_[task].size();
            if (missing[task] == 0) add(task);
        }
        while (!ready.empty()) {
            const std::uint32_t task = std::get<2>(*ready.begin());
            ready.erase(ready.begin());
            if (is_critical[task] && machine != none) place(task, machine);
            else place_best(task);
            for (const std::uint32_t edge : children_[task])
                if (--missing[input_.edges[edge].child] == 0) add(input_.edges[edge].child);
        }
        return std::move(plan_);
    }

  private:
    static constexpr std::uint32_t none = ~0U;
    struct Busy {
        double start;
        double end;
    };

    // Parents before their children.
    void find_order() {
        std::vector<std::size_t> missing(input_.tasks());
        for (std::uint32_t task = 0; task < missing.size(); ++task) {
            missing[task] = parents_[task].size();
            if (missing[task] == 0) order_.push_back(task);
        }
        for (std::size_t at = 0; at < order_.size(); ++at)
            for (const std::uint32_t edge : children_[order_[at]])
                if (--missing[input_.edges[edge].child] == 0)
                    order_.push_back(input_.edges[edge].child);
    }

    // Over the machines that the task can run on.
    void find_mean_costs() {
        mean_.assign(input_.tasks(), 0.0);
        for (std::size_t task = 0; task < mean_.size(); ++task) {
            double sum = 0.0;
            std::size_t count = 0;
            for (std::size_t m = 0; m < input_.machines(); ++m) {
                if (!is_possible(task, m)) continue;
                sum += input_.cost(task, m);
                ++count;
            }
            if (count > 0) mean_[task] = sum / static_cast<double>(count);
        }
    }

    void find_ranks() {
        upward_ = downward_ = std::vector<double>(input_.tasks(), 0.0);
        for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
            for (const std::uint32_t edge : children_[*at]) {
                const PlanEdge& each = input_.edges[edge];
                upward_[*at] = std::max(upward_[*at], each.cost + upward_[each.child]);
            }
            upward_[*at] += mean_[*at];
        }
        for (const std::uint32_t task : order_)
            for (const std::uint32_t edge : parents_[task]) {
                const PlanEdge& each = input_.edges[edge];
                downward_[task] = std::max(downward_[task],
                                           downward_[each.parent] + mean_[each.parent] + each.cost);
            }
    }

    [[nodiscard]] bool is_possible(std::size_t task, std::size_t machine) const {
        return input_.widths[task] <= input_.slots[machine] && input_.cost(task, machine) < never;
    }

    // From the entry task with the highest priority along children with the same one.
    [[nodiscard]] std::vector<bool> find_critical_path() const {
        std::vector<bool> is_critical(input_.tasks(), false);
        const auto priority = [&](std::uint32_t task) { return upward_[task] + downward_[task]; };
        std::uint32_t at = none;
        for (const std::uint32_t task : order_)
            if (parents_[task].empty() && (at == none || priority(task) > priority(at))) at = task;
        if (at == none) return is_critical;
        const double length = priority(at);
        while (at != none) {
            is_critical[at] = true;
            std::uint32_t next = none;
            for (const std::uint32_t edge : children_[at]) {
                const std::uint32_t child = input_.edges[edge].child;
                // The sums differ by rounding.
                if (std::abs(priority(child) - length) <= 1e-9 * length &&
                    (next == none || input_.ranks[child] < input_.ranks[next]))
                    next = child;
            }
            at = next;
        }
        return is_critical;
    }

    [[nodiscard]] std::uint32_t find_critical_machine(const std::vector<bool>& tasks) const {
        std::uint32_t best = none;
        double least = never;
        for (std::uint32_t m = 0; m < input_.machines(); ++m) {
            double sum = 0.0;
            for (std::size_t task = 0; task < tasks.size(); ++task)
                if (tasks[task]) sum += is_possible(task, m) ? input_.cost(task, m) : never;
            if (sum >= least) continue;
            least = sum;
            best = m;
        }
        return best;
    }

    // When the data of all parents is on the machine.
    [[nodiscard]] double ready_time(std::uint32_t task, std::uint32_t machine) const {
        double ready = input_.earliest[task];
        for (const std::uint32_t edge : parents_[task]) {
            const PlanEdge& each = input_.edges[edge];
            const PlannedTask& parent = plan_[each.parent];
            if (parent.machine == none) continue;
            ready = std::max(ready, parent.end + (parent.machine == machine ? 0.0 : each.cost));
        }
        return ready;
    }

    // The earliest start in a gap of one slot.
    [[nodiscard]] static double find_gap(const std::vector<Busy>& slot, double ready,
                                         double length) {
        double start = ready;
        const auto first = std::ranges::upper_bound(slot, ready, {}, &Busy::end);
        for (auto each = first; each != slot.end(); ++each) {
            if (start + length <= each->start) break;
            start = std::max(start, each->end);
        }
        return start;
    }
    [[nodiscard]] static bool is_free(const std::vector<Busy>& slot, double start, double length) {
        return find_gap(slot, start, length) == start;
    }

    // The earliest start with as many free slots as the task needs, not before it is ready.
    [[nodiscard]] double find_start(std::uint32_t task, std::uint32_t machine) const {
        const double ready = ready_time(task, machine);
        const double length = input_.cost(task, machine);
        const std::size_t width = input_.widths[task];
        double earliest = never;
        if (width == 1) {
            for (const std::vector<Busy>& slot : busy_[machine]) {
                earliest = std::min(earliest, find_gap(slot, ready, length));
                if (earliest == ready) break;
            }
            return earliest;
        }
        std::vector<double> times{ready};
        for (const std::vector<Busy>& slot : busy_[machine])
            for (const Busy& each : slot)
                if (each.end > ready) times.push_back(each.end);
        std::ranges::sort(times);
        for (const double time : times) {
            std::size_t free = 0;
            for (const std::vector<Busy>& slot : busy_[machine])
                if (is_free(slot, time, length)) ++free;
            if (free >= width) return time;
        }
        return earliest;
    }

    void place_best(std::uint32_t task) {
        std::uint32_t best = none;
        double earliest = never;
        for (std::uint32_t m = 0; m < input_.machines(); ++m) {
            if (!is_possible(task, m)) continue;
            const double end = find_start(task, m) + input_.cost(task, m);
            if (end >= earliest) continue;
            earliest = end;
            best = m;
        }
        if (best != none) place(task, best);
    }

    void place(std::uint32_t task, std::uint32_t machine) {
        PlannedTask& planned = plan_[task];
        planned.machine = machine;
        planned.start = find_start(task, machine);
        planned.end = planned.start + input_.cost(task, machine);
        const double length = input_.cost(task, machine);
        for (std::uint32_t s = 0; s < busy_[machine].size(); ++s) {
            std::vector<Busy>& slot = busy_[machine][s];
            if (planned.slots.size() == input_.widths[task]) break;
            if (!is_free(slot, planned.start, length)) continue;
            planned.slots.push_back(s);
            slot.insert(std::ranges::upper_bound(slot, planned.start, {}, &Busy::start),
                        {planned.start, planned.end});
        }
    }

    const PlanInput& input_;
    std::vector<std::vector<std::uint32_t>> parents_;   // edges, by task
    std::vector<std::vector<std::uint32_t>> children_;  // likewise
    std::vector<PlannedTask> plan_;
    std::vector<std::vector<std::vector<Busy>>> busy_;  // by machine and slot, in order
    std::vector<std::uint32_t> order_;
    std::vector<double> mean_;
    std::vector<double> upward_;
    std::vector<double> downward_;
};

}  // namespace

std::vector<PlannedTask> plan_heft(const PlanInput& input) { return Planner(input).heft(); }

std::vector<PlannedTask> plan_cpop(const PlanInput& input) { return Planner(input).cpop(); }

}  // namespace twinloop
