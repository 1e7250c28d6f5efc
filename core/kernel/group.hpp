// An influence group: resources coupled, directly or through others, by activities that draw on
// several at once. Its rates are solved together, and nothing outside it is touched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/measure.hpp"
#include "kernel/resource.hpp"

namespace twinloop {

class SharingRule;

// What every solution reads and writes of an activity, and nothing else: with many groups, it is
// the size of this that costs.
struct Flow {
    double rate;
    double remaining;  // at the time of the group's last solution
    double end;
    Slot activity;
    std::uint32_t closed;  // the last round of filling in which its rate was found
};

// The tie of a flow to a link: where it stands in the link's list.
struct Hop {
    std::uint32_t link;
    std::uint32_t place;
};

struct Link {
    double capacity;
    double level = never;   // at which it is full; infinite if it is not
    double used = 0.0;      // capacity drawn
    double progress = 0.0;  // work done
    double consumed = 0.0;  // integral of `used` since it became a member
    double done = 0.0;      // integral of `progress` since then
    Sum weights;            // of its flows
    std::vector<std::uint32_t> flows;
    ResourceId resource;
};

class Group {
  public:
    // Starts a new life.
    void begin(double now);
    // Takes in a resource that has no activities of its own.
    void add_resource(ResourceId id, Resource& resource, std::uint32_t self);
    // Its activity draws on resources that are all members.
    void add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources);
    void remove_flow(ActivityPool& pool, Slot slot, std::vector<Resource>& resources, double now);
    void absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                std::uint32_t self, double now);

    // Finds all rates anew; returns when the next flow ends.
    [[nodiscard]] double settle(const SharingRule& rule, ActivityPool& pool,
                                std::vector<Resource>& resources, double now);
    // The flows whose end is due, in the order in which their activities started to draw.
    void due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const;

    [[nodiscard]] double remaining(std::uint32_t flow, double now) const;
    [[nodiscard]] double consumed(const Activity& activity, double now) const;
    // The integrals of a link since it became a member.
    [[nodiscard]] double consumed(const Link& link, double now) const {
        return link.consumed + (now - since_) * link.used;
    }
    [[nodiscard]] double done(const Link& link, double now) const {
        return link.done + (now - since_) * link.progress;
    }

    // Departures may have cut the group in two; looking pays only after a good many of them.
    [[nodiscard]] bool worth_splitting() const {
        return in_use && 2 * departures_ > flows_.size() + links_.size();
    }
    // The connected parts, each as a list of its flows' activities (in the order of flows()).
    [[nodiscard]] std::vector<std::vector<Slot>> parts() const;
    void forget_departures() { departures_ = 0; }

    // For sharing rules: every flow gets its rate through `fix`, once per solution.
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
    [[nodiscard]] double weight(std::uint32_t flow) const {
        return weighted_ > 0 ? weights_[flow] : 1.0;
    }
    [[nodiscard]] std::uint32_t next_round() { return ++round_; }
    void fix(std::uint32_t flow, double rate);

    EventId end_event = none;
    bool dirty = false;
    bool in_use = false;
    bool to_split = false;  // it is on the list of those to look at

  private:
    void anchor(double now);
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
    // Of each flow as well, but read only where they matter:
    std::vector<double> weights_;
    std::vector<double> efficiencies_;
    std::vector<double> wasted_;  // capacity drawn that did not become progress
    std::uint32_t stride_ = 2;
    std::uint32_t limited_ = 0;   // flows with a finite limit
    std::uint32_t weighted_ = 0;  // flows with a weight other than 1
    std::uint32_t modelled_ = 0;  // links with an efficiency model
    std::uint32_t round_ = 0;
    std::size_t departures_ = 0;
    double since_ = 0.0;  // the time of the last solution
    double next_ = never;
};

}  // namespace twinloop
