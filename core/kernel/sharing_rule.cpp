#include "kernel/sharing_rule.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/key_heap.hpp"

namespace twinloop {
namespace {

// What its open flows may still have of a link, per unit of weight.
double level_of(Link& link, const std::vector<Flow>& flows, std::uint32_t round) {
    // Taking many weights off a sum leaves the rounding error of the large ones: when little is
    // left, it is summed afresh.
    if (link.weight < 1e-3 * link.full_weight) {
        link.weight = 0.0;
        for (const std::uint32_t flow : link.flows)
            if (flows[flow].closed != round) link.weight += flows[flow].weight;
        link.full_weight = link.weight;
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

// Progressive filling: the rates of the open flows grow together, each in proportion to its
// weight, until a link is full or a limit is met; those concerned keep their rate and the rest
// goes on. Links say how many open flows they have, and how much these weigh.
void fill(Group& group, const ActivityPool& pool, std::uint32_t round) {
    thread_local KeyHeap full;  // links by the level at which they are full
    thread_local KeyHeap met;   // flows by the level at which they meet their limit
    const std::vector<Flow>& flows = group.flows();
    std::vector<Link>& links = group.links();

    met.clear();
    if (group.limited()) {
        for (std::uint32_t index = 0; index < flows.size(); ++index) {
            const Activity& activity = pool[flows[index].activity];
            if (flows[index].closed != round && activity.limit < never)
                met.append(activity.threshold(), index);
        }
        met.order();
    }
    full.clear();
    for (std::uint32_t index = 0; index < links.size(); ++index) {
        Link& link = links[index];
        link.full_weight = link.weight;
        if (link.open > 0) full.append(level_of(link, flows, round), index);
    }
    full.order();

    while (!full.empty()) {
        Link& link = links[full.front().tag];
        if (link.open == 0) {
            full.pop();
            continue;
        }
        // Levels only rise while flows are closed, so a candidate may be out of date on the low
        // side only.
        const double level = level_of(link, flows, round);
        if (level > full.front().key) {
            full.raise_front(level);
            continue;
        }
        while (!met.empty() && flows[met.front().tag].closed == round) met.pop();
        if (!met.empty() && met.front().key <= level) {
            const auto index = static_cast<std::uint32_t>(met.front().tag);
            met.pop();
            close(group, index, pool[flows[index].activity].limit);
            continue;
        }
        link.level = level;
        for (const std::uint32_t flow : link.flows)
            if (flows[flow].closed != round) close(group, flow, level * flows[flow].weight);
    }
}

}  // namespace

void MaxMin::assign(Group& group, const ActivityPool& pool) const {
    for (Link& link : group.links()) {
        link.residual = link.capacity;
        link.weight = link.weights.value();
        link.open = static_cast<std::uint32_t>(link.flows.size());
    }
    fill(group, pool, group.next_round());
}

void StrictPriority::assign(Group& group, const ActivityPool& pool) const {
    std::vector<Flow>& flows = group.flows();
    std::vector<std::uint32_t> order(flows.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto priority = [&](std::uint32_t index) { return pool[flows[index].activity].priority; };
    std::ranges::stable_sort(order, std::greater{}, priority);
    const std::uint32_t round = group.next_round();
    for (Link& link : group.links()) link.residual = link.capacity;
    for (Flow& flow : flows) flow.closed = round;
    for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
        for (Link& link : group.links()) {
            link.weight = 0.0;
            link.open = 0;
        }
        // One class: its flows are open, all others are not.
        for (; last < order.size() && priority(order[last]) == priority(order[first]); ++last) {
            Flow& flow = flows[order[last]];
            flow.closed = round - 1;
            for (const Hop& hop : group.hops(order[last])) {
                group.links()[hop.link].weight += flow.weight;
                ++group.links()[hop.link].open;
            }
        }
        fill(group, pool, round);
    }
}

std::shared_ptr<const SharingRule> sharing_rule(std::string_view name) {
    if (name == "max-min") return std::make_shared<const MaxMin>();
    if (name == "strict-priority") return std::make_shared<const StrictPriority>();
    throw std::invalid_argument("sharing must be 'max-min' or 'strict-priority', got '" +
                                std::string(name) + "'");
}

}  // namespace twinloop
