#include "kernel/sharing_rule.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/key_heap.hpp"

namespace twinloop {
namespace {

// State of a link during filling.
struct Filling {
    double residual;  // remaining capacity
    double used;      // as `Link::used`, here because the links are too large for the caches
    double weight;    // of its open flows
    double full_weight;
    std::uint32_t open;  // flows without a rate yet
};

// A link on its own: the level at which its flows saturate it if no other link does before, and the
// flows for which it is the first one.
struct Narrow {
    double level;
    std::uint32_t flows;
};

// Reused between solutions, so that it stays in the caches.
struct Scratch {
    std::vector<Filling> links;
    KeyHeap full;
    KeyHeap met;
    std::vector<Narrow> narrow;            // by link
    std::vector<std::uint32_t> narrowest;  // by flow
};
// Not inlined: the address of a variable of a thread costs a call, which the compiler would repeat
// for every access.
[[gnu::noinline]] Scratch& get_scratch() {
    thread_local Scratch scratch;
    return scratch;
}

// `Uniform`: all flows are single activities of weight 1, so that nothing is read for it.
template <bool Uniform>
class Filler {
  public:
    Filler(Group& group, const ActivityPool& pool, Scratch& kept = get_scratch())
        : group_(group), pool_(pool), flows_(group.flows()), round_(group.next_round()),
          links_(kept.links), full_(kept.full), met_(kept.met), narrow_(kept.narrow),
          narrowest_(kept.narrowest) {
        const std::vector<Link>& links = group.links();
        links_.resize(links.size());
        for (std::size_t at = 0; at < links.size(); ++at)
            links_[at] = {links[at].capacity, 0.0, links[at].weights.value(), 0.0,
                          static_cast<std::uint32_t>(links[at].flows.size())};
    }

    [[nodiscard]] std::vector<Filling>& links() { return links_; }
    [[nodiscard]] std::uint32_t round() const { return round_; }

    // Progressive filling: the rates of the open flows grow together, each in proportion to its
    // weight, until a link is saturated or a limit is reached; these flows keep their rate and the
    // others continue.
    void fill() {
        met_.clear();
        if (group_.limited()) {
            for (std::uint32_t index = 0; index < flows_.size(); ++index) {
                const Activity& activity = pool_[flows_[index].activity];
                if (open(index) && activity.limit < never) met_.append(activity.threshold(), index);
            }
            met_.order();
        }
        full_.clear();
        for (std::uint32_t index = 0; index < links_.size(); ++index) {
            links_[index].full_weight = links_[index].weight;
            if (links_[index].open > 0) full_.append(level_of(index), index);
        }
        full_.order();

        while (!full_.empty()) {
            const auto link = static_cast<std::uint32_t>(full_.front().tag);
            if (links_[link].open == 0) {
                full_.pop();
                continue;
            }
            // Levels only rise as flows are closed, so a stale candidate can only be too low.
            const double level = level_of(link);
            if (level > full_.front().key()) {
                full_.raise_front(level);
                continue;
            }
            while (!met_.empty() && !open(static_cast<std::uint32_t>(met_.front().tag))) met_.pop();
            if (!met_.empty() && met_.front().key() <= level) {
                const auto flow = static_cast<std::uint32_t>(met_.front().tag);
                met_.pop();
                close(flow, pool_[flows_[flow].activity].limit);
                continue;
            }
            group_.links()[link].level = level;
            for (const std::uint32_t flow : group_.links()[link].flows)
                if (open(flow)) close(flow, Uniform ? level : level * group_.weight(flow));
        }
        finish();
    }

    // The same where no flow waits for another one: each link that is the narrowest one of a flow
    // is so for all of its flows. Then no order matters. Otherwise nothing is done.
    [[nodiscard]] bool fill_at_once() {
        // Of many flows, some nearly always wait for others: the search would be in vain.
        constexpr std::size_t many = 64;
        if (group_.limited() || flows_.size() > many) return false;
        narrow_.resize(links_.size());
        for (std::uint32_t index = 0; index < links_.size(); ++index) {
            links_[index].full_weight = links_[index].weight;
            narrow_[index] = {level_of(index), 0};
        }
        narrowest_.resize(flows_.size());
        for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
            narrowest_[flow] = find_narrowest(flow);
            ++narrow_[narrowest_[flow]].flows;
        }
        for (std::uint32_t index = 0; index < links_.size(); ++index)
            if (narrow_[index].flows != 0 && narrow_[index].flows != links_[index].open)
                return false;
        for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
            const double level = narrow_[narrowest_[flow]].level;
            group_.links()[narrowest_[flow]].level = level;
            close(flow, Uniform ? level : level * group_.weight(flow));
        }
        finish();
        return true;
    }

  private:
    // Rounding errors of a saturated link count as 0: a lower class must not use them.
    void finish() {
        for (std::uint32_t index = 0; index < links_.size(); ++index) {
            Link& link = group_.links()[index];
            link.used = links_[index].used;
            if (links_[index].residual < 1e-12 * link.capacity) links_[index].residual = 0.0;
        }
    }

    // Of links with equal levels, `fill` takes the one with the lowest number.
    [[nodiscard]] std::uint32_t find_narrowest(std::uint32_t flow) const {
        std::uint32_t found = none;
        for (const Hop& hop : group_.hops(flow)) {
            const double level = narrow_[hop.link].level;
            if (found == none || level < narrow_[found].level ||
                (level == narrow_[found].level && hop.link < found))
                found = hop.link;
        }
        return found;
    }

    [[nodiscard]] bool open(std::uint32_t flow) const { return flows_[flow].closed != round_; }

    // Remaining capacity of a link per unit of weight of its open flows.
    [[nodiscard]] double level_of(std::uint32_t index) {
        Filling& link = links_[index];
        // Subtracting many weights accumulates rounding errors: a small remainder is summed again.
        if (link.weight < 1e-3 * link.full_weight) {
            link.weight = 0.0;
            for (const std::uint32_t flow : group_.links()[index].flows)
                if (open(flow)) link.weight += Uniform ? 1.0 : group_.total_weight(flow);
            link.full_weight = link.weight;
        }
        return std::max(link.residual, 0.0) / link.weight;
    }

    // `rate`: of each activity of the flow.
    void close(std::uint32_t flow, double rate) {
        const double weight = Uniform ? 1.0 : group_.total_weight(flow);
        const double total = Uniform ? rate : rate * group_.members(flow);
        for (const Hop& hop : group_.hops(flow)) {
            Filling& link = links_[hop.link];
            link.residual -= total;
            link.used += total;
            link.weight -= weight;
            --link.open;
        }
        group_.fix(flow, rate);
    }

    Group& group_;
    const ActivityPool& pool_;
    const std::vector<Flow>& flows_;
    std::uint32_t round_;
    std::vector<Filling>& links_;
    KeyHeap& full_;  // links by the level at which they are saturated
    KeyHeap& met_;   // flows by the level at which they reach their limit
    std::vector<Narrow>& narrow_;
    std::vector<std::uint32_t>& narrowest_;
};

}  // namespace

void MaxMin::assign(Group& group, const ActivityPool& pool) const {
    const auto solve = [](auto filler) {
        if (!filler.fill_at_once()) filler.fill();
    };
    if (group.is_uniform()) solve(Filler<true>(group, pool));
    else solve(Filler<false>(group, pool));
}

void StrictPriority::assign(Group& group, const ActivityPool& pool) const {
    Filler<false> filler(group, pool);
    std::vector<Flow>& flows = group.flows();
    std::vector<std::uint32_t> order(flows.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto priority = [&](std::uint32_t index) { return pool[flows[index].activity].priority; };
    std::ranges::stable_sort(order, std::greater{}, priority);
    for (Flow& flow : flows) flow.closed = filler.round();
    for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
        for (Filling& link : filler.links()) {
            link.weight = 0.0;
            link.open = 0;
        }
        // One priority class: only its flows are open.
        for (; last < order.size() && priority(order[last]) == priority(order[first]); ++last) {
            flows[order[last]].closed = filler.round() - 1;
            for (const Hop& hop : group.hops(order[last])) {
                filler.links()[hop.link].weight += group.total_weight(order[last]);
                ++filler.links()[hop.link].open;
            }
        }
        filler.fill();
    }
}

std::shared_ptr<const SharingRule> sharing_rule(std::string_view name) {
    if (name == "max-min") return std::make_shared<const MaxMin>();
    if (name == "strict-priority") return std::make_shared<const StrictPriority>();
    throw std::invalid_argument("sharing must be 'max-min' or 'strict-priority', got '" +
                                std::string(name) + "'");
}

}  // namespace twinloop
