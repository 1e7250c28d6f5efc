#include "kernel/sharing_rule.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace twinloop {
namespace {

struct Candidate {
    double level;
    std::uint32_t index;
    bool operator>(const Candidate& other) const {
        return level > other.level || (level == other.level && index > other.index);
    }
};

// A min-heap of levels; the scratch of one solution, reused by the next one on this thread.
class Candidates {
  public:
    void clear() { heap_.clear(); }
    void add(double level, std::uint32_t index) { heap_.push_back({level, index}); }
    void order() { std::ranges::make_heap(heap_, std::greater{}); }
    [[nodiscard]] bool empty() const { return heap_.empty(); }
    [[nodiscard]] const Candidate& top() const { return heap_.front(); }
    void pop() {
        std::ranges::pop_heap(heap_, std::greater{});
        heap_.pop_back();
    }
    void raise_top(double level) {
        const Candidate raised{level, heap_.front().index};
        std::size_t at = 0;
        for (;;) {
            std::size_t child = 2 * at + 1;
            if (child >= heap_.size()) break;
            if (child + 1 < heap_.size() && heap_[child] > heap_[child + 1]) ++child;
            if (!(raised > heap_[child])) break;
            heap_[at] = heap_[child];
            at = child;
        }
        heap_[at] = raised;
    }

  private:
    std::vector<Candidate> heap_;
};

// What its open flows may still have of a link, per unit of weight.
double level_of(Link& link, const std::vector<Flow>& flows) {
    // Taking many weights off a sum leaves the rounding error of the large ones: when little is
    // left, it is summed afresh.
    if (link.weight < 1e-3 * link.total_weight) {
        link.weight = 0.0;
        for (const Incidence& each : link.flows)
            if (flows[each.flow].open) link.weight += flows[each.flow].weight;
        link.total_weight = link.weight;
    }
    return std::max(link.residual, 0.0) / link.weight;
}

void close(Group& group, std::uint32_t index, double rate) {
    const double weight = group.flows()[index].weight;
    for (const Hop& hop : group.hops(index)) {
        Link& link = group.links()[hop.link];
        link.residual -= rate;
        link.used += rate;
        link.weight -= weight;
        --link.open;
    }
    group.fix(index, rate);
}

// Progressive filling: the rates of the members grow together, each in proportion to its weight,
// until a link is full or a limit is met; those concerned keep their rate and the rest goes on.
void fill(Group& group, const ActivityPool& pool, std::span<const std::uint32_t> members) {
    thread_local Candidates full;
    thread_local Candidates met;
    std::vector<Flow>& flows = group.flows();
    std::vector<Link>& links = group.links();

    for (Link& link : links) {
        link.weight = 0.0;
        link.open = 0;
    }
    met.clear();
    for (const std::uint32_t index : members) {
        Flow& flow = flows[index];
        flow.open = 1;
        for (const Hop& hop : group.hops(index)) {
            links[hop.link].weight += flow.weight;
            ++links[hop.link].open;
        }
        if (group.limited() && pool[flow.activity].limit < never)
            met.add(pool[flow.activity].threshold(), index);
    }
    met.order();
    full.clear();
    for (std::uint32_t index = 0; index < links.size(); ++index) {
        Link& link = links[index];
        link.total_weight = link.weight;
        if (link.open) full.add(level_of(link, flows), index);
    }
    full.order();

    while (!full.empty()) {
        Link& link = links[full.top().index];
        if (link.open == 0) {
            full.pop();
            continue;
        }
        // Levels only rise while flows are closed, so a candidate may be out of date on the low
        // side only.
        const double level = level_of(link, flows);
        if (level > full.top().level) {
            full.raise_top(level);
            continue;
        }
        while (!met.empty() && !flows[met.top().index].open) met.pop();
        if (!met.empty() && met.top().level <= level) {
            const std::uint32_t index = met.top().index;
            met.pop();
            close(group, index, pool[flows[index].activity].limit);
            continue;
        }
        link.level = level;
        for (const Incidence& each : link.flows)
            if (flows[each.flow].open) close(group, each.flow, level * flows[each.flow].weight);
    }
}

}  // namespace

void MaxMin::assign(Group& group, const ActivityPool& pool) const {
    thread_local std::vector<std::uint32_t> all;
    all.resize(group.flows().size());
    std::iota(all.begin(), all.end(), 0U);
    for (Link& link : group.links()) link.residual = link.capacity;
    fill(group, pool, all);
}

void StrictPriority::assign(Group& group, const ActivityPool& pool) const {
    std::vector<std::uint32_t> order(group.flows().size());
    std::iota(order.begin(), order.end(), 0U);
    const auto priority = [&](std::uint32_t index) {
        return pool[group.flows()[index].activity].priority;
    };
    std::ranges::stable_sort(order, std::greater{}, priority);
    for (Link& link : group.links()) link.residual = link.capacity;
    for (std::size_t first = 0; first < order.size();) {
        std::size_t last = first;
        while (last < order.size() && priority(order[last]) == priority(order[first])) ++last;
        fill(group, pool, std::span(order).subspan(first, last - first));
        first = last;
    }
}

std::shared_ptr<const SharingRule> sharing_rule(std::string_view name) {
    if (name == "max-min") return std::make_shared<const MaxMin>();
    if (name == "strict-priority") return std::make_shared<const StrictPriority>();
    throw std::invalid_argument("sharing must be 'max-min' or 'strict-priority', got '" +
                                std::string(name) + "'");
}

}  // namespace twinloop
