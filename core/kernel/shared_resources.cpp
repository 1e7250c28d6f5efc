#include "kernel/shared_resources.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernel/busy.hpp"
#include "kernel/checks.hpp"

namespace twinloop {

SharedResources::SharedResources(std::shared_ptr<const SharingRule> rule, EventQueue& queue,
                                 ActivityPool& pool)
    : queue_(queue), pool_(pool), rule_(std::move(rule)), levels_(rule_->levels_single_resources()),
      leases_(pool, resources_) {}

SharedResources::SharedResources(const SharedResources& other, EventQueue& queue,
                                 ActivityPool& pool)
    : queue_(queue), pool_(pool), rule_(other.rule_), levels_(other.levels_),
      resources_(other.resources_), leases_(other.leases_, pool, resources_),
      free_leases_(other.free_leases_), groups_(other.groups_), free_groups_(other.free_groups_),
      dirty_resources_(other.dirty_resources_), dirty_groups_(other.dirty_groups_),
      to_split_(other.to_split_), rate_notices_(other.rate_notices_) {
    other.check_open();
}

const Resource& SharedResources::at(ResourceId id) const {
    if (id >= resources_.size())
        throw std::invalid_argument("there is no resource " + std::to_string(id));
    return resources_[id];
}

Resource& SharedResources::at(ResourceId id) {
    return const_cast<Resource&>(std::as_const(*this).at(id));
}

void SharedResources::check_open() const {
    if (settling_)
        throw std::runtime_error("an efficiency function must not use its own simulation");
}

ResourceId SharedResources::add(double capacity, std::shared_ptr<const Efficiency> efficiency,
                                double now) {
    check_open();
    check_not_negative("capacity", capacity);
    const auto id = static_cast<ResourceId>(resources_.size());
    resources_.emplace_back(capacity, std::move(efficiency), queue_.create(EventKind::end, id),
                            now);
    return id;
}

void SharedResources::set_start(double time) {
    for (Resource& resource : resources_) resource.set_start(time);
}

void SharedResources::set_capacity(ResourceId id, double capacity, double now) {
    check_open();
    check_not_negative("capacity", capacity);
    if (is_lease(id)) (void)lease(id);
    if (resources_[id].capacity == capacity) return;
    Resource& resource = resources_[id];
    if (leases_.has(id)) {
        leases_.resize(id, capacity, now);
        touch(id);
        return;
    }
    resource.set_capacity(capacity);
    if (resource.group != none) groups_[resource.group].links()[resource.link].capacity = capacity;
    touch(id);
}

void SharedResources::set_cost_model(ResourceId id, std::shared_ptr<const CostModel> model,
                                     double now) {
    check_open();
    Resource& resource = at(id);
    if (leases_.has(id))
        throw std::invalid_argument("a lease has no cost model: set that of its host");
    if (model && !pool_.has_charges()) pool_.open_charges();
    if (resource.group != none) {
        groups_[resource.group].set_cost_model(resource, std::move(model), now);
    } else {
        resource.set_cost_model(std::move(model), now);
    }
    touch(id);
}

// ---- Leases -------------------------------------------------------------------------------------

const Lease& SharedResources::lease(ResourceId id) const {
    if (!is_lease(id)) throw std::invalid_argument("the resource is not a lease");
    const Lease& found = leases_.of(id);
    if (found.host == none) throw std::invalid_argument("the lease has been released");
    return found;
}

Lease& SharedResources::find_lease(ResourceId id) {
    check_open();
    return const_cast<Lease&>(lease(id));
}

void SharedResources::refuse_host(ResourceId id) const {
    if (!levels_) throw std::invalid_argument("leases need max-min sharing");
    if (is_lease(id)) throw std::invalid_argument("a lease cannot be the host of another lease");
    if (resources_[id].leases != none) return;
    for (Slot slot = 0; slot < pool_.slots(); ++slot) {
        const auto route = pool_[slot].route.view();
        if (route.size() > 1 && std::ranges::find(route, id) != route.end())
            throw std::invalid_argument(
                "a resource cannot have leases while an activity uses it together with others");
    }
}

void SharedResources::check_route(std::span<const ResourceId> route) const {
    for (const ResourceId id : route) {
        const Resource& resource = at(id);
        if (!leases_.has(id) && resource.leases == none) continue;
        if (leases_.has(id)) (void)lease(id);
        if (route.size() > 1)
            throw std::invalid_argument(
                leases_.has(id)
                    ? "an activity on a lease cannot use other resources at the same time"
                    : "an activity that uses several resources cannot use one with leases");
    }
}

ResourceId SharedResources::add_lease(ResourceId host, double size, double weight, double now) {
    check_open();
    check_not_negative("size", size);
    if (weight != 0.0) check_positive("weight", weight);
    refuse_host(host);
    if (resources_[host].group != none) split(resources_[host].group, now);
    ResourceId id;
    if (free_leases_.empty()) {
        id = add(size, nullptr, now);
    } else {
        id = free_leases_.back();
        free_leases_.pop_back();
        resources_[id].capacity = size;
        resources_[id].shown_rate = 0.0;
    }
    leases_.open(id, host, size, weight, now);
    return id;
}

void SharedResources::release_lease(ResourceId id) {
    (void)find_lease(id);
    leases_.close(id);
    free_leases_.push_back(id);
}

void SharedResources::set_lease_weight(ResourceId id, double weight, double now) {
    check_positive("weight", weight);
    (void)find_lease(id);
    leases_.set_weight(id, weight, now);
    touch(id);
}

void SharedResources::suspend_lease(ResourceId id, double now) {
    (void)find_lease(id);
    leases_.suspend(id, now);
    touch(id);
}

void SharedResources::resume_lease(ResourceId id, double now) {
    (void)find_lease(id);
    leases_.resume(id, now);
    touch(id);
}

void SharedResources::move_lease(ResourceId id, ResourceId host, double now) {
    const ResourceId from = find_lease(id).host;
    refuse_host(host);
    if (from == host) return;
    if (resources_[host].group != none) split(resources_[host].group, now);
    leases_.move(id, host, now);
    touch(from);
    touch(host);
}

// ---- Activities ---------------------------------------------------------------------------------

void SharedResources::draw(Activity& activity, Slot slot, double now) {
    if (activity.limit == 0.0) return;
    pool_.retag(activity, slot);
    attach(activity, slot, now);
}

void SharedResources::attach(Activity& activity, Slot slot, double now) {
    const ResourceId first = activity.route.front();
    if (leases_.has(first)) {
        mark_dirty(leases_.join(first, activity, slot, now));
        return;
    }
    if (activity.route.size() == 1 && resources_[first].group == none && levels_) {
        resources_[first].join(pool_, activity, now);
        mark_dirty(first);
        return;
    }
    const auto route = activity.route.view();
    const std::uint32_t group = join_groups(route, now);
    for (const ResourceId id : route) resources_[id].enter(activity);
    groups_[group].add(pool_, slot, resources_, now);
    touch_group(group);
}

void SharedResources::withdraw(Activity& activity, Slot slot, double now) {
    const auto route = activity.route.view();
    if (in_lease(activity)) {
        mark_dirty(leases_.leave(route.front(), activity, slot, now));
        return;
    }
    if (activity.hold == Hold::nothing) return;
    if (activity.hold == Hold::group || activity.hold == Hold::bundle) {
        const std::uint32_t group = resources_[route.front()].group;
        groups_[group].remove(pool_, slot, resources_, now);
        for (const ResourceId id : route) resources_[id].quit(activity);
        release_if_empty(group);
        if (groups_[group].in_use) touch_group(group);
        split_if_worth(group);
        for (const ResourceId id : route) touch(id);
    } else {
        resources_[route.front()].leave(pool_, activity, now);
        mark_dirty(route.front());
    }
}

Slot SharedResources::next_due(ResourceId id, double now) {
    Resource& resource = resources_[id];
    if (resource.group != none) return none;
    const Slot slot = resource.due(pool_, now);
    return slot == none && resource.leases != none ? leases_.due(id, now) : slot;
}

std::vector<Slot> SharedResources::list_due(std::uint32_t group, double now) {
    touch_group(group);
    std::vector<Slot> due;
    groups_[group].due(pool_, now, due);
    return due;
}

// ---- Groups -------------------------------------------------------------------------------------

// One group with all of `route`: the largest of their groups, merged with the others.
std::uint32_t SharedResources::join_groups(std::span<const ResourceId> route, double now) {
    std::uint32_t group = none;
    for (const ResourceId id : route) {
        const std::uint32_t other = resources_[id].group;
        if (other == none || other == group) continue;
        if (group == none) {
            group = other;
            continue;
        }
        std::uint32_t from = other;
        if (groups_[other].flows().size() > groups_[group].flows().size()) std::swap(group, from);
        groups_[group].absorb(groups_[from], pool_, resources_, group, now);
        release_if_empty(from);
    }
    if (group == none) group = new_group(now);
    for (const ResourceId id : route) {
        Resource& resource = resources_[id];
        if (resource.group != none) continue;
        const std::vector<Slot> alone = resource.joined(pool_);
        for (const Slot slot : alone) resource.leave(pool_, pool_[slot], now);
        (void)resource.settle(pool_, now);  // it has no activities of its own
        queue_.cancel(resource.end_event);
        groups_[group].add_resource(id, resource, group);
        for (const Slot slot : alone) {
            resource.enter(pool_[slot]);
            groups_[group].add(pool_, slot, resources_, now);
        }
    }
    return group;
}

std::uint32_t SharedResources::new_group(double now) {
    std::uint32_t index;
    if (free_groups_.empty()) {
        index = static_cast<std::uint32_t>(groups_.size());
        groups_.emplace_back().end_event = queue_.create(EventKind::end, group_mark | index);
    } else {
        index = free_groups_.back();
        free_groups_.pop_back();
    }
    groups_[index].begin(now);
    return index;
}

void SharedResources::release_if_empty(std::uint32_t index) {
    Group& group = groups_[index];
    if (!group.links().empty()) return;
    group.forget_departures();
    group.in_use = false;
    queue_.cancel(group.end_event);
    free_groups_.push_back(index);
}

// Releases disconnected parts and single resources from the group.
void SharedResources::split(std::uint32_t index, double now) {
    Group& group = groups_[index];
    const auto parts = group.parts();
    const auto largest_part =
        std::ranges::max_element(parts, {}, &std::vector<std::uint32_t>::size);
    std::vector<Slot> leaving;
    for (auto part = parts.begin(); part != parts.end(); ++part) {
        const bool single = levels_ && std::ranges::all_of(*part, [&](std::uint32_t flow) {
                                return pool_[group.flows()[flow].activity].route.size() == 1;
                            });
        if (part == largest_part && !single) continue;
        for (const std::uint32_t flow : *part) group.list_activities(pool_, flow, leaving);
    }
    std::ranges::sort(leaving, {}, [this](Slot slot) { return pool_[slot].tag; });
    for (const Slot slot : leaving) withdraw(pool_[slot], slot, now);
    group.forget_departures();
    for (const Slot slot : leaving) attach(pool_[slot], slot, now);
}

// The split is left to the next event: changes at one time are made together.
void SharedResources::split_if_worth(std::uint32_t index) {
    Group& group = groups_[index];
    if (group.to_split || !group.worth_splitting()) return;
    group.to_split = true;
    to_split_.push_back(index);
}

void SharedResources::split_disconnected(double now) {
    const std::vector<std::uint32_t> due = std::move(to_split_);
    to_split_.clear();
    for (const std::uint32_t group : due) {
        groups_[group].to_split = false;
        if (groups_[group].worth_splitting()) split(group, now);
    }
}

std::vector<ResourceId> SharedResources::influence_group(ResourceId id) const {
    if (is_lease(id)) return influence_group(lease(id).host);
    if (resources_[id].leases != none) {
        std::vector<ResourceId> members = leases_.on(id);
        members.push_back(id);
        std::ranges::sort(members);
        return members;
    }
    if (resources_[id].group == none) return {id};
    // The group may not have been split yet.
    const Group& group = groups_[resources_[id].group];
    for (const auto& part : group.parts()) {
        std::set<ResourceId> members;
        for (const std::uint32_t flow : part)
            for (const ResourceId each : pool_[group.flows()[flow].activity].route.view())
                members.insert(each);
        if (members.contains(id)) return {members.begin(), members.end()};
    }
    return {id};
}

// ---- Settling -----------------------------------------------------------------------------------

void SharedResources::touch(ResourceId id) {
    if (leases_.has(id)) id = leases_.of(id).host;
    const Resource& resource = resources_[id];
    if (resource.group != none) {
        touch_group(resource.group);
    } else {
        mark_dirty(id);
    }
}

void SharedResources::touch_group(std::uint32_t group) {
    if (!previews_.empty()) previews_.erase(group);
    if (groups_[group].dirty) return;
    groups_[group].dirty = true;
    dirty_groups_.push_back(group);
}

void SharedResources::settle(double now) {
    check_open();
    const Busy guard(settling_);
    // After an exception, those that are still marked stay unsettled.
    for (const std::uint32_t index : dirty_groups_)
        if (groups_[index].dirty) settle_group(index, now);
    for (const ResourceId id : dirty_resources_)
        if (resources_[id].dirty) settle_resource(id, now);
    dirty_groups_.clear();
    dirty_resources_.clear();
}

void SharedResources::settle_resource(ResourceId id, double now) {
    Resource& resource = resources_[id];
    if (resource.group == none) {
        const double end =
            resource.leases == none ? resource.settle(pool_, now) : leases_.settle(id, now);
        if (end < never) {
            queue_.schedule(resource.end_event, end, id);
        } else {
            queue_.cancel(resource.end_event);
        }
        if (observed_) {
            notice(id);
            // The level determines the rates of many leases.
            if (resource.leases != none)
                for (const ResourceId lease : leases_.on(id)) notice(lease);
        }
    }
    resource.dirty = false;
}

void SharedResources::settle_group(std::uint32_t index, double now) {
    Group& group = groups_[index];
    if (group.in_use) {
        const double end = group.settle(*rule_, pool_, resources_, now);
        if (end < never) {
            queue_.schedule(group.end_event, end, group_mark | index);
        } else {
            queue_.cancel(group.end_event);
        }
        if (observed_)
            for (const Link& link : group.links()) notice(link.resource);
        split_if_worth(index);
    }
    group.dirty = false;
    if (!previews_.empty()) previews_.erase(index);
}

// A preview solves a copy. In the group itself, a flow whose end is due now would get a new end,
// and with a rounding error it could then wait for capacity that never comes.
const Group* SharedResources::preview(ResourceId id, double now) {
    check_open();
    const std::uint32_t index = at(id).group;
    if (index == none) return nullptr;
    if (!groups_[index].dirty) return &groups_[index];
    if (const auto found = previews_.find(index); found != previews_.end()) return &found->second;
    Group copy = groups_[index];
    const Busy guard(settling_);
    (void)copy.settle(*rule_, pool_, resources_, now);
    return &previews_.emplace(index, std::move(copy)).first->second;
}

void SharedResources::notice(ResourceId id) {
    Resource& resource = resources_[id];
    const double shown = std::exchange(resource.shown_rate, settled_rate(id));
    if (resource.shown_rate != shown) rate_notices_.push_back(id);
}

ResourceId SharedResources::take_notice() {
    const ResourceId id = rate_notices_.front();
    rate_notices_.pop_front();
    return id;
}

void SharedResources::request_notice(ResourceId id) {
    at(id).shown_rate = std::numeric_limits<double>::quiet_NaN();  // differs from every rate
    touch(id);
}

// ---- Values -------------------------------------------------------------------------------------

const Group& SharedResources::group_of(const Activity& activity) const {
    return groups_[resources_[activity.route.front()].group];
}

const Link* SharedResources::link_of(const Resource& resource) const {
    return resource.group == none ? nullptr : &groups_[resource.group].links()[resource.link];
}

double SharedResources::settled_rate(ResourceId id) const {
    if (leases_.has(id)) return leases_.settled_rate(id);
    const Resource& resource = at(id);
    const Link* link = link_of(resource);
    return link ? link->used : resource.rate();
}

std::uint32_t SharedResources::running(ResourceId id) const {
    return is_lease(id) ? leases_.running(id) : resources_[id].running();
}

// Of a resource that is in no group.
Shares SharedResources::shares(ResourceId id) const {
    const Resource& resource = at(id);
    return leases_.has(id)           ? leases_.preview(id)
           : resource.leases != none ? leases_.preview_host(id)
                                     : resource.preview(pool_);
}

double SharedResources::level(ResourceId id, double now) {
    const Group* group = preview(id, now);
    return group ? group->links()[at(id).link].level : shares(id).level;
}

double SharedResources::rate(ResourceId id, double now) {
    const Group* group = preview(id, now);
    return group ? group->links()[at(id).link].used : shares(id).rate;
}

double SharedResources::rate(const Activity& activity, double now) {
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            if (in_lease(activity)) return leases_.rate(activity);
            return std::min(activity.limit, activity.weight * level(activity.route.front(), now));
        case Hold::group:
        case Hold::bundle:
            return preview(activity.route.front(), now)->rate(activity);
        default:
            return 0.0;
    }
}

double SharedResources::consumed(ResourceId id, double now) const {
    const Resource& resource = at(id);
    if (leases_.has(id)) return leases_.consumed(id, now);
    const Link* link = link_of(resource);
    return resource.consumed(now) + (link ? groups_[resource.group].consumed(*link, now) : 0.0);
}

double SharedResources::done(ResourceId id, double now) const {
    const Resource& resource = at(id);
    if (leases_.has(id)) return leases_.done(id, now);
    const Link* link = link_of(resource);
    return resource.done(now) + (link ? groups_[resource.group].done(*link, now) : 0.0);
}

double SharedResources::cost(ResourceId id, double now) const {
    const Resource& resource = at(id);
    if (leases_.has(id)) return leases_.cost(id, now);
    const Link* link = link_of(resource);
    return resource.cost(now) + (link ? groups_[resource.group].cost(*link, now) : 0.0);
}

double SharedResources::remaining(const Activity& activity, double now) const {
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            if (in_lease(activity)) return leases_.remaining(activity, now);
            return resources_[activity.route.front()].remaining(activity, now);
        case Hold::group:
        case Hold::bundle:
            return group_of(activity).remaining(activity, now);
        default:
            return activity.left;
    }
}

double SharedResources::consumed(const Activity& activity, double now) const {
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            if (in_lease(activity)) return leases_.consumed_by(activity, now);
            return resources_[activity.route.front()].consumed_by(activity, now);
        case Hold::group:
        case Hold::bundle:
            return group_of(activity).consumed(activity, now);
        default:
            return activity.consumed;
    }
}

double SharedResources::cost(const Activity& activity, Slot slot, double now) const {
    if (!pool_.has_charges()) return 0.0;
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            if (in_lease(activity)) return leases_.charged_to(activity, now);
            return resources_[activity.route.front()].charged_to(pool_, activity, now);
        case Hold::group:
        case Hold::bundle:
            return pool_.charge(slot).total + group_of(activity).charge(pool_, slot, now);
        default:
            return pool_.charge(slot).total;
    }
}

}  // namespace twinloop
