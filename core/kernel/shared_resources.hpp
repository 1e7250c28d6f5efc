// The resources of a simulation and their division among activities: a single resource by virtual
// time (resource.hpp), with its leases (lease.hpp), resources that activities couple in a group
// (group.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/event_queue.hpp"
#include "kernel/group.hpp"
#include "kernel/leases.hpp"
#include "kernel/resource.hpp"
#include "kernel/sharing_rule.hpp"

namespace twinloop {

// The subject of an end event is a resource, or a group with this mark.
inline constexpr std::uint64_t group_mark = std::uint64_t{1} << 32;

class SharedResources {
  public:
    SharedResources(std::shared_ptr<const SharingRule> rule, EventQueue& queue, ActivityPool& pool);
    // A copy that refers to copies of the queue and of the activities.
    SharedResources(const SharedResources& other, EventQueue& queue, ActivityPool& pool);
    SharedResources(const SharedResources&) = delete;
    SharedResources(SharedResources&&) = delete;
    SharedResources& operator=(const SharedResources&) = delete;
    SharedResources& operator=(SharedResources&&) = delete;
    ~SharedResources() = default;

    ResourceId add(double capacity, std::shared_ptr<const Efficiency> efficiency, double now);
    [[nodiscard]] std::size_t size() const { return resources_.size(); }
    [[nodiscard]] const Resource& at(ResourceId id) const;
    [[nodiscard]] Resource& at(ResourceId id);
    // Throws while an efficiency function runs.
    void check_open() const;

    void set_start(double time);
    void set_capacity(ResourceId id, double capacity, double now);
    void set_cost_model(ResourceId id, std::shared_ptr<const CostModel> model, double now);

    // A lease on a host, as a resource of its own; its id may be one that was released before.
    ResourceId add_lease(ResourceId host, double size, double weight, double now);
    // Of a lease without activities.
    void release_lease(ResourceId id);
    void set_lease_weight(ResourceId id, double weight, double now);
    void suspend_lease(ResourceId id, double now);
    void resume_lease(ResourceId id, double now);
    void move_lease(ResourceId id, ResourceId host, double now);
    [[nodiscard]] bool has_leases() const { return !leases_.empty(); }
    [[nodiscard]] bool is_lease(ResourceId id) const {
        (void)at(id);
        return leases_.has(id);
    }
    [[nodiscard]] const Lease& lease(ResourceId id) const;
    [[nodiscard]] std::vector<ResourceId> leases_on(ResourceId host) const {
        return leases_.on(host);
    }
    // Counts an activity that will use the route, also while it waits or is suspended.
    void book(std::span<const ResourceId> route) {
        if (leases_.has(route.front())) leases_.book(route.front());
    }
    void unbook(std::span<const ResourceId> route) {
        if (leases_.has(route.front())) --leases_.of(route.front()).users;
    }
    // A lease, and a resource with leases, can only be used alone.
    void check_route(std::span<const ResourceId> route) const;

    // Adds an activity to its resources, or removes it; it gets no rate at a limit of 0.
    void draw(Activity& activity, Slot slot, double now);
    void withdraw(Activity& activity, Slot slot, double now);

    // Activities whose end is due. On a resource: one of them that has not left yet, or `none`,
    // also if the resource belongs to a group, which then processes the rest.
    [[nodiscard]] Slot next_due(ResourceId id, double now);
    [[nodiscard]] std::vector<Slot> list_due(std::uint32_t group, double now);

    // Changes are settled together: groups are split, then rates and ends are computed.
    void touch(ResourceId id);
    [[nodiscard]] bool is_settled() const { return !is_dirty() && to_split_.empty(); }
    [[nodiscard]] bool is_dirty() const {
        return !dirty_resources_.empty() || !dirty_groups_.empty();
    }
    void split_groups(double now) {
        if (!to_split_.empty()) split_disconnected(now);
    }
    void settle(double now);

    // Resources whose rate has changed, collected while there are observers.
    void set_observed(bool observed) { observed_ = observed; }
    [[nodiscard]] bool has_notices() const { return !rate_notices_.empty(); }
    [[nodiscard]] ResourceId take_notice();
    // A notice after the next settling, even if the rate is the same.
    void request_notice(ResourceId id);

    // Values that hold when all changes are settled.
    [[nodiscard]] std::uint32_t running(ResourceId id) const;
    [[nodiscard]] double level(ResourceId id, double now);
    [[nodiscard]] double rate(ResourceId id, double now);
    [[nodiscard]] double rate(const Activity& activity, double now);
    // The rate of the last settling.
    [[nodiscard]] double settled_rate(ResourceId id) const;

    [[nodiscard]] double consumed(ResourceId id, double now) const;
    [[nodiscard]] double done(ResourceId id, double now) const;
    [[nodiscard]] double cost(ResourceId id, double now) const;
    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed(const Activity& activity, double now) const;
    [[nodiscard]] double cost(const Activity& activity, Slot slot, double now) const;

    // The resources that are coupled with this one, directly or indirectly.
    [[nodiscard]] std::vector<ResourceId> influence_group(ResourceId id) const;

  private:
    void attach(Activity& activity, Slot slot, double now);
    std::uint32_t join_groups(std::span<const ResourceId> route, double now);
    [[nodiscard]] std::uint32_t new_group(double now);
    void release_if_empty(std::uint32_t group);
    void split(std::uint32_t group, double now);
    void split_if_worth(std::uint32_t group);
    void split_disconnected(double now);
    void touch_group(std::uint32_t group);
    // Of a resource in no group that is no lease.
    void mark_dirty(ResourceId id) {
        if (std::exchange(resources_[id].dirty, true)) return;
        dirty_resources_.push_back(id);
    }
    void settle_resource(ResourceId id, double now);
    void settle_group(std::uint32_t group, double now);
    void notice(ResourceId id);
    [[nodiscard]] Shares shares(ResourceId id) const;
    [[nodiscard]] Lease& find_lease(ResourceId id);
    void refuse_host(ResourceId id) const;
    // Whether a lease shares its host with this activity.
    [[nodiscard]] bool in_lease(const Activity& activity) const {
        return leases_.has(activity.route.front());
    }
    // The settled group of a resource; nullptr if it has none.
    [[nodiscard]] const Group* preview(ResourceId id, double now);
    [[nodiscard]] const Group& group_of(const Activity& activity) const;
    // The values of a resource in a group; nullptr if it has none.
    [[nodiscard]] const Link* link_of(const Resource& resource) const;

    EventQueue& queue_;
    ActivityPool& pool_;
    std::shared_ptr<const SharingRule> rule_;
    bool levels_;  // the rule shares single resources by virtual time
    std::vector<Resource> resources_;
    Leases leases_;
    std::vector<ResourceId> free_leases_;
    std::deque<Group> groups_;  // references to groups stay valid while groups are added
    std::vector<std::uint32_t> free_groups_;
    std::vector<ResourceId> dirty_resources_;
    std::vector<std::uint32_t> dirty_groups_;
    std::unordered_map<std::uint32_t, Group> previews_;  // solved copies of unsettled groups
    std::vector<std::uint32_t> to_split_;
    std::deque<ResourceId> rate_notices_;
    bool observed_ = false;
    bool settling_ = false;
};

}  // namespace twinloop
