// An influence group: resources coupled, directly or indirectly, by activities that use several of
// them. Its rates are solved together, independently of the other groups.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/flow_index.hpp"
#include "kernel/key_heap.hpp"
#include "kernel/measure.hpp"
#include "kernel/resource.hpp"

namespace twinloop {

class SharingRule;

// An activity, or a bundle of equal ones, in the form that every solution reads and writes; kept
// small because its size dominates the cost with many groups.
struct Flow {
    double rate;           // of each activity
    double remaining;      // at the time of the group; infinite in a bundle
    double end;            // of the next activity, if nothing changes
    Slot activity;         // one of its activities
    std::uint32_t closed;  // the round of filling in which its rate was last determined
};

// Activities whose rates are always equal (`share_equally`) are one flow. Their progress is that of
// one clock, and the reading at which each of them ends is known when it joins.
struct Bundle {
    std::uint32_t flow = none;  // none: unused
    double clock = 0.0;         // work done by each member since the bundle began, at group time
    double solved_clock = 0.0;  // at the last solution
    double due_key = 0.0;       // the members with keys up to this end at the end of the flow
    Sum charges;                // of each member since the bundle began, at group time
    KeyHeap ends;               // its members by the reading of the clock at their end
};

// Position of a flow in the list of a link.
struct Hop {
    std::uint32_t link;
    std::uint32_t place;
};

struct Link {
    double capacity;
    double level = never;   // at which it is saturated; infinite if it is not
    double used = 0.0;      // capacity in use
    double progress = 0.0;  // rate of work
    double consumed = 0.0;  // integral of `used` since it became a member
    double done = 0.0;      // integral of `progress` since then
    double cost = 0.0;      // integral of the cost rate since then
    CostRate cost_rate;
    Sum weights;  // of its flows
    std::vector<std::uint32_t> flows;
    ResourceId resource;
};

class Group {
  public:
    // Resets the group.
    void begin(double now);
    // Adds a resource without activities of its own.
    void add_resource(ResourceId id, Resource& resource, std::uint32_t self);
    // Adds an activity whose resources are all members, or removes it.
    void add(ActivityPool& pool, Slot slot, std::span<const Resource> resources, double now);
    void remove(ActivityPool& pool, Slot slot, std::vector<Resource>& resources, double now);
    void absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                std::uint32_t self, double now);

    // Solves all rates; returns the time of the next end.
    [[nodiscard]] double settle(const SharingRule& rule, ActivityPool& pool,
                                std::vector<Resource>& resources, double now);
    // The activities whose end is due, in the order of their start.
    void due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const;

    [[nodiscard]] double rate(const Activity& activity) const {
        return flows_[flow_of(activity)].rate;
    }
    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed(const Activity& activity, double now) const;
    // The integrals of a link since it became a member.
    [[nodiscard]] double consumed(const Link& link, double now) const {
        return link.consumed + (now - since_) * link.used;
    }
    [[nodiscard]] double done(const Link& link, double now) const {
        return link.done + (now - since_) * link.progress;
    }
    [[nodiscard]] double cost(const Link& link, double now) const {
        return link.cost + (now - since_) * link.cost_rate.total;
    }
    // Cost charged to an activity since it joined.
    [[nodiscard]] double charge(const ActivityPool& pool, Slot slot, double now) const;
    void set_cost_model(Resource& resource, std::shared_ptr<const CostModel> model, double now);

    // Departures of coupling flows may have disconnected the group. To check it costs about as much
    // as a solution, and to split and join it again as much as a few, so it is checked only after
    // many departures, or after as many solutions as pay for it: flows that come and go cannot
    // make it fall apart each time, nor can it stay whole for ever.
    [[nodiscard]] bool worth_splitting() const {
        constexpr std::uint32_t pays_to_check = 64;
        constexpr std::uint32_t pays_to_dissolve = 4;
        return in_use && departures_ > 0 &&
               (2 * departures_ > flows_.size() + links_.size() ||
                solutions_ >= (coupling_ > 0 ? pays_to_check : pays_to_dissolve));
    }
    // The connected parts, each as a list of its flows in increasing order.
    [[nodiscard]] std::vector<std::vector<std::uint32_t>> parts() const;
    // Appends the activities of a flow.
    void list_activities(const ActivityPool& pool, std::uint32_t flow,
                         std::vector<Slot>& activities) const;
    void forget_departures() {
        departures_ = 0;
        solutions_ = 0;
    }

    // For sharing rules: `fix` sets the rate of every flow once per solution.
    [[nodiscard]] std::vector<Flow>& flows() { return flows_; }
    [[nodiscard]] const std::vector<Flow>& flows() const { return flows_; }
    [[nodiscard]] std::vector<Link>& links() { return links_; }
    [[nodiscard]] const std::vector<Link>& links() const { return links_; }
    [[nodiscard]] std::span<const Hop> hops(std::uint32_t flow) const {
        const Hop* first = &hops_[std::size_t{flow} * stride_];
        const Hop* last = first + stride_;
        while (last[-1].link == none) --last;  // shorter routes are padded
        return {first, last};
    }
    [[nodiscard]] bool limited() const { return limited_ > 0; }
    // Of each activity of the flow.
    [[nodiscard]] double weight(std::uint32_t flow) const {
        return weighted_ > 0 ? weights_[flow] : 1.0;
    }
    // The number of activities of the flow.
    [[nodiscard]] double members(std::uint32_t flow) const {
        return members_.empty() ? 1.0 : members_[flow];
    }
    [[nodiscard]] double total_weight(std::uint32_t flow) const {
        return weight(flow) * members(flow);
    }
    // Whether all flows are single activities of weight 1.
    [[nodiscard]] bool is_uniform() const {
        return weighted_ == 0 && free_bundles_.size() == bundles_.size();
    }
    [[nodiscard]] std::uint32_t next_round() { return ++round_; }
    // Sets the rate of each activity of the flow.
    void fix(std::uint32_t flow, double rate);

    EventId end_event = none;
    bool dirty = false;
    bool in_use = false;
    bool to_split = false;  // it is in the list of groups to check

  private:
    // Fewer flows than this are searched without an index.
    static constexpr std::size_t indexed_from = 16;

    void anchor(double now);
    [[nodiscard]] std::uint32_t flow_of(const Activity& activity) const {
        return activity.hold == Hold::bundle ? bundles_[activity.where].flow : activity.where;
    }
    [[nodiscard]] double speed(std::uint32_t flow) const {
        return flows_[flow].rate * efficiency(flow);
    }
    [[nodiscard]] double charge_rate(std::uint32_t flow) const;
    void add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources);
    void remove_flow(ActivityPool& pool, std::uint32_t index);
    [[nodiscard]] std::uint32_t find_equal(const ActivityPool& pool, const Activity& activity,
                                           std::span<const Resource> resources);
    void settle_values(ActivityPool& pool, Slot slot, double now);
    void open_bundle(ActivityPool& pool, std::uint32_t flow);
    void enter_bundle(ActivityPool& pool, Slot slot, Bundle& bundle);
    void leave_bundle(ActivityPool& pool, Slot slot);
    void close_bundle(std::uint32_t index);
    void absorb_bundles(Group& other, ActivityPool& pool, std::uint32_t flow_shift);
    void change_members(std::uint32_t flow, double members);
    void find_end(Bundle& bundle, const ActivityPool& pool);
    // The end of a member, from the values at the last solution.
    [[nodiscard]] double end_at(const Bundle& bundle, double key) const;
    [[nodiscard]] double wasted(std::uint32_t flow, double now) const;
    void restride(std::uint32_t stride);
    void drop_link(std::uint32_t link, std::vector<Resource>& resources, double now);
    void refresh_efficiencies(const ActivityPool& pool, std::vector<Resource>& resources);
    [[nodiscard]] double efficiency(std::uint32_t flow) const {
        return modelled_ > 0 ? efficiencies_[flow] : 1.0;
    }
    [[nodiscard]] Hop& hop_to(std::uint32_t flow, std::uint32_t link);

    std::vector<Flow> flows_;
    std::vector<Link> links_;
    std::vector<Hop> hops_;  // of flow f: hops_[f * stride_ ...]
    // Further data of each flow, read only where needed:
    std::vector<double> weights_;
    std::vector<double> efficiencies_;
    std::vector<double> wasted_;  // consumed capacity that did not become work
    std::vector<double> charges_;
    std::vector<double> members_;  // empty until the first bundle
    std::vector<Bundle> bundles_;
    std::vector<std::uint32_t> free_bundles_;
    FlowIndex index_;
    std::uint32_t stride_ = 2;
    std::uint32_t limited_ = 0;   // flows with a finite limit
    std::uint32_t weighted_ = 0;  // flows with a weight other than 1
    std::uint32_t modelled_ = 0;  // links with an efficiency model
    std::uint32_t priced_ = 0;    // links with a cost model
    std::uint32_t coupling_ = 0;  // flows that use several resources
    std::uint32_t round_ = 0;
    std::uint32_t solutions_ = 0;  // since the last check for a split
    std::size_t departures_ = 0;   // of coupling flows, likewise
    double since_ = 0.0;           // the time of the group: of the remaining work, of the clocks
    double solved_ = 0.0;          // the time of the last solution
    double next_ = never;
};

}  // namespace twinloop
