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

// What a solution reads and writes of an activity: kept together, away from the rest of it.
struct Flow {
    double weight;
    double rate;
    double efficiency;
    double remaining;  // at the time of the group's last solution, as are the others
    double consumed;
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
    double residual = 0.0;  // scratch of the sharing rule, as the following two
    double weight = 0.0;
    double full_weight = 0.0;
    std::uint32_t open = 0;
    ResourceId resource;
    Sum weights;  // of its flows
    std::vector<std::uint32_t> flows;
};

class Group {
  public:
    // Starts a new life.
    void begin(double now);
    // Takes in a resource that has no activities of its own.
    void add_resource(ResourceId id, Resource& resource, std::uint32_t self);
    // Its activity draws on resources that are all members.
    void add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources, double now);
    void remove_flow(ActivityPool& pool, Slot slot, std::vector<Resource>& resources, double now);
    void absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                std::uint32_t self, double now);

    // Finds all rates anew; returns when the next flow ends.
    [[nodiscard]] double settle(const SharingRule& rule, ActivityPool& pool,
                                std::vector<Resource>& resources, double now);
    // The flows whose end is due, in the order in which their activities started to draw.
    void due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const;

    [[nodiscard]] double remaining(const Flow& flow, double now) const;
    [[nodiscard]] double consumed(const Flow& flow, double now) const;
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
        return {&hops_[std::size_t{flow} * stride_], hop_counts_[flow]};
    }
    [[nodiscard]] bool limited() const { return limited_ > 0; }
    [[nodiscard]] std::uint32_t next_round() { return ++round_; }
    void fix(std::uint32_t flow, double rate);

    EventId end_event = none;
    bool dirty = false;
    bool in_use = false;
    bool to_split = false;  // it is on the list of those to look at

  private:
    void anchor(double now);
    void restride(std::uint32_t stride);
    void drop_link(std::uint32_t link, std::vector<Resource>& resources, double now);
    void refresh_efficiencies(const ActivityPool& pool, std::vector<Resource>& resources);
    [[nodiscard]] Hop& hop_to(std::uint32_t flow, std::uint32_t link);

    std::vector<Flow> flows_;
    std::vector<Link> links_;
    std::vector<Hop> hops_;  // of flow f: hops_[f * stride_ ...]
    std::vector<std::uint32_t> hop_counts_;
    std::uint32_t stride_ = 2;
    std::uint32_t limited_ = 0;   // flows with a finite limit
    std::uint32_t modelled_ = 0;  // links with an efficiency model
    std::uint32_t round_ = 0;
    std::size_t departures_ = 0;
    double since_ = 0.0;  // the time of the last solution
    double next_ = never;
};

}  // namespace twinloop
