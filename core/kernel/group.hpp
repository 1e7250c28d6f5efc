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

struct Flow {
    double weight;
    double rate;
    double efficiency;
    double remaining;  // work left at `since`
    double consumed;   // capacity drawn until `since`
    double since;
    double end;
    Slot activity;
    std::uint32_t open;  // scratch of the sharing rule: its rate is still to be found
};

// One end of the tie between a flow and a link.
struct Hop {
    std::uint32_t link;
    std::uint32_t place;  // in the link's list
};
struct Incidence {
    std::uint32_t flow;
    std::uint32_t hop;
};

struct Link {
    double capacity;
    double level;     // at which it is full; infinite if it is not
    double residual;  // scratch of the sharing rule, as the following three
    double used;
    double weight;
    double total_weight;
    std::uint32_t open;
    ResourceId resource;
    std::vector<Incidence> flows;
};

class Group {
  public:
    // Takes in a resource that has no activities of its own.
    void add_resource(ResourceId id, Resource& resource, std::uint32_t self);
    // Its activity draws on resources that are all members.
    void add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources, double now);
    void remove_flow(ActivityPool& pool, Slot slot, std::vector<Resource>& resources, double now);
    void absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                std::uint32_t self);

    // Finds all rates anew; returns when the next flow ends.
    [[nodiscard]] double settle(const SharingRule& rule, ActivityPool& pool,
                                std::vector<Resource>& resources, double now);
    // The flows whose end is due, in the order in which their activities started to draw.
    void due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const;

    [[nodiscard]] static double remaining(const Flow& flow, double now);
    [[nodiscard]] static double consumed(const Flow& flow, double now);

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
    void fix(std::uint32_t flow, double rate);

    EventId end_event = none;
    bool dirty = false;
    bool in_use = false;
    bool to_split = false;  // it is on the list of those to look at

  private:
    void anchor(Flow& flow) const;
    void restride(std::uint32_t stride);
    void drop_link(std::uint32_t link, std::vector<Resource>& resources);
    void refresh_efficiencies(const ActivityPool& pool, std::vector<Resource>& resources);

    std::vector<Flow> flows_;
    std::vector<Link> links_;
    std::vector<Hop> hops_;  // of flow f: hops_[f * stride_ ...]
    std::vector<std::uint32_t> hop_counts_;
    std::uint32_t stride_ = 2;
    std::uint32_t limited_ = 0;   // flows with a finite limit
    std::uint32_t modelled_ = 0;  // links with an efficiency model
    std::size_t departures_ = 0;
    double now_ = 0.0;
    double next_ = never;
};

}  // namespace twinloop
