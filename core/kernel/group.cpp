#include "kernel/group.hpp"

#include <algorithm>

#include "kernel/sharing_rule.hpp"

namespace twinloop {

void Group::begin(double now) {
    in_use = true;
    since_ = solved_ = now;
    index_.clear();
}

void Group::add_resource(ResourceId id, Resource& resource, std::uint32_t self) {
    resource.enter_group(self, static_cast<std::uint32_t>(links_.size()));
    if (resource.efficiency) ++modelled_;
    if (resource.cost_model()) ++priced_;
    links_.emplace_back();
    links_.back().capacity = resource.capacity;
    links_.back().resource = id;
}

void Group::add(ActivityPool& pool, Slot slot, std::span<const Resource> resources, double now) {
    const std::uint32_t equal = find_equal(pool, pool[slot], resources);
    if (equal == none) {
        add_flow(pool, slot, resources);
        return;
    }
    // The clock of a bundle counts for all its members, so it must show the time of the change.
    anchor(now);
    if (pool[flows_[equal].activity].hold != Hold::bundle) open_bundle(pool, equal);
    enter_bundle(pool, slot, bundles_[pool[flows_[equal].activity].where]);
    change_members(equal, members_[equal] + 1.0);
}

void Group::remove(ActivityPool& pool, Slot slot, std::vector<Resource>& resources, double now) {
    Activity& activity = pool[slot];
    settle_values(pool, slot, now);
    const std::uint32_t flow = flow_of(activity);
    if (members(flow) > 1.0) {
        leave_bundle(pool, slot);
        return;
    }
    if (activity.hold == Hold::bundle) close_bundle(activity.where);
    activity.hold = Hold::nothing;
    activity.where = none;
    if (activity.limit < never) --limited_;
    if (activity.weight != 1.0) --weighted_;
    if (activity.route.size() > 1) {
        --coupling_;
        ++departures_;
    }
    remove_flow(pool, flow);
    for (const ResourceId id : activity.route.view())
        if (links_[resources[id].link].flows.empty()) drop_link(resources[id].link, resources, now);
}

// ---- Flows --------------------------------------------------------------------------------------

void Group::add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources) {
    Activity& activity = pool[slot];
    const auto route = activity.route.view();
    if (route.size() > stride_) restride(static_cast<std::uint32_t>(route.size()));
    const auto index = static_cast<std::uint32_t>(flows_.size());
    // Its rate is 0 until the next solution, so the time of the group is valid for it.
    flows_.push_back({0.0, activity.left, never, slot, round_});
    weights_.push_back(activity.weight);
    efficiencies_.push_back(1.0);
    wasted_.push_back(0.0);
    charges_.push_back(0.0);
    if (!members_.empty()) members_.push_back(1.0);
    if (index_.built()) index_.insert(hash_share(activity), index);
    if (activity.weight != 1.0) ++weighted_;
    hops_.resize(hops_.size() + stride_, Hop{none, 0});
    for (std::uint32_t hop = 0; hop < route.size(); ++hop) {
        const std::uint32_t at = resources[route[hop]].link;
        Link& link = links_[at];
        hops_[std::size_t{index} * stride_ + hop] = {at,
                                                     static_cast<std::uint32_t>(link.flows.size())};
        link.flows.push_back(index);
        link.weights.add(activity.weight);
    }
    if (activity.limit < never) ++limited_;
    if (route.size() > 1) ++coupling_;
    activity.hold = Hold::group;
    activity.where = index;
}

void Group::remove_flow(ActivityPool& pool, std::uint32_t index) {
    if (index_.built()) index_.erase(hash_share(pool[flows_[index].activity]), index);
    for (const Hop& hop : hops(index)) {
        Link& link = links_[hop.link];
        const std::uint32_t moved = link.flows.back();
        link.flows[hop.place] = moved;
        hop_to(moved, hop.link).place = hop.place;
        link.flows.pop_back();
        link.weights.subtract(weights_[index]);
        if (link.flows.empty()) link.weights.clear();
    }
    const auto last = static_cast<std::uint32_t>(flows_.size() - 1);
    if (index != last) {
        flows_[index] = flows_[last];
        Activity& moved = pool[flows_[index].activity];
        (moved.hold == Hold::bundle ? bundles_[moved.where].flow : moved.where) = index;
        if (index_.built()) index_.renumber(hash_share(moved), last, index);
        weights_[index] = weights_[last];
        efficiencies_[index] = efficiencies_[last];
        wasted_[index] = wasted_[last];
        charges_[index] = charges_[last];
        if (!members_.empty()) members_[index] = members_[last];
        std::copy_n(&hops_[std::size_t{last} * stride_], stride_,
                    &hops_[std::size_t{index} * stride_]);
        for (const Hop& hop : hops(index)) links_[hop.link].flows[hop.place] = index;
    }
    flows_.pop_back();
    weights_.pop_back();
    efficiencies_.pop_back();
    wasted_.pop_back();
    charges_.pop_back();
    if (!members_.empty()) members_.pop_back();
    hops_.resize(hops_.size() - stride_);
}

// The flow of activities that are equal to this one, or `none`.
std::uint32_t Group::find_equal(const ActivityPool& pool, const Activity& activity,
                                std::span<const Resource> resources) {
    const auto equal = [&](std::uint32_t flow) {
        return share_equally(pool[flows_[flow].activity], activity);
    };
    if (flows_.size() < indexed_from) {
        const std::uint32_t first = resources[activity.route.front()].link;
        for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
            if (hops_[std::size_t{flow} * stride_].link == first && equal(flow)) return flow;
        return none;
    }
    if (!index_.built())
        for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
            index_.insert(hash_share(pool[flows_[flow].activity]), flow);
    return index_.find(hash_share(activity), equal);
}

// Writes the values of an activity until now into it.
void Group::settle_values(ActivityPool& pool, Slot slot, double now) {
    Activity& activity = pool[slot];
    activity.consumed = consumed(activity, now);
    activity.left = remaining(activity, now);
    if (pool.has_charges())
        pool.charge(slot) = {pool.charge(slot).total + charge(pool, slot, now), {}};
}

// ---- Bundles ------------------------------------------------------------------------------------

// The flow of one activity becomes a bundle of one member.
void Group::open_bundle(ActivityPool& pool, std::uint32_t flow) {
    if (members_.empty()) members_.assign(flows_.size(), 1.0);
    std::uint32_t index;
    if (free_bundles_.empty()) {
        index = static_cast<std::uint32_t>(bundles_.size());
        bundles_.emplace_back();
    } else {
        index = free_bundles_.back();
        free_bundles_.pop_back();
    }
    Bundle& bundle = bundles_[index];
    const Slot slot = flows_[flow].activity;
    settle_values(pool, slot, since_);
    wasted_[flow] = charges_[flow] = 0.0;
    flows_[flow].remaining = never;
    bundle.flow = flow;
    bundle.clock = 0.0;
    bundle.solved_clock = (solved_ - since_) * speed(flow);
    bundle.charges.clear();
    enter_bundle(pool, slot, bundle);
    bundle.due_key = pool[slot].key;  // at the end that the flow already has
}

void Group::enter_bundle(ActivityPool& pool, Slot slot, Bundle& bundle) {
    Activity& activity = pool[slot];
    activity.reading = bundle.clock;
    activity.key = activity.reading + activity.left;
    activity.joined = wasted_[bundle.flow];
    activity.hold = Hold::bundle;
    activity.where = static_cast<std::uint32_t>(&bundle - bundles_.data());
    if (pool.has_charges()) pool.charge(slot).mark = bundle.charges;
    bundle.ends.push(activity.key, activity.tag);
}

// One of several members leaves.
void Group::leave_bundle(ActivityPool& pool, Slot slot) {
    Activity& activity = pool[slot];
    Bundle& bundle = bundles_[activity.where];
    const KeyHeap::Entry end{activity.key, activity.tag};
    activity.hold = Hold::nothing;
    activity.where = none;
    bundle.ends.forget(end, CurrentEnd{pool, Hold::bundle});
    change_members(bundle.flow, members_[bundle.flow] - 1.0);
    Flow& flow = flows_[bundle.flow];
    const auto* next = bundle.ends.top(CurrentEnd{pool, Hold::bundle});
    flow.activity = ActivityPool::slot_of(next->tag);
    if (next->key() > bundle.due_key) {
        bundle.due_key = next->key();
        flow.end = end_at(bundle, bundle.due_key);
    }
}

void Group::close_bundle(std::uint32_t index) {
    members_[bundles_[index].flow] = 1.0;
    bundles_[index].flow = none;
    bundles_[index].ends.clear();
    free_bundles_.push_back(index);
}

void Group::change_members(std::uint32_t flow, double members) {
    for (const Hop& hop : hops(flow)) {
        links_[hop.link].weights.subtract(members_[flow] * weights_[flow]);
        links_[hop.link].weights.add(members * weights_[flow]);
    }
    members_[flow] = members;
}

double Group::end_at(const Bundle& bundle, double key) const {
    const double left = key - bundle.solved_clock;
    const double progress = speed(bundle.flow);
    return left <= 0.0 ? solved_ : progress > 0.0 ? solved_ + left / progress : never;
}

// After a solution.
void Group::find_end(Bundle& bundle, const ActivityPool& pool) {
    bundle.solved_clock = bundle.clock;
    bundle.due_key = bundle.ends.top(CurrentEnd{pool, Hold::bundle})->key();
    flows_[bundle.flow].end = end_at(bundle, bundle.due_key);
    next_ = std::min(next_, flows_[bundle.flow].end);
}

// ---- Links --------------------------------------------------------------------------------------

Hop& Group::hop_to(std::uint32_t flow, std::uint32_t link) {
    Hop* hop = &hops_[std::size_t{flow} * stride_];
    while (hop->link != link) ++hop;
    return *hop;
}

// A link without flows leaves the group immediately.
void Group::drop_link(std::uint32_t link, std::vector<Resource>& resources, double now) {
    const Link& former = links_[link];
    Resource& leaving = resources[former.resource];
    leaving.leave_group(now, consumed(former, now), done(former, now), cost(former, now));
    if (leaving.efficiency) --modelled_;
    if (leaving.cost_model()) --priced_;
    const auto last = static_cast<std::uint32_t>(links_.size() - 1);
    if (link != last) {
        links_[link] = std::move(links_[last]);
        resources[links_[link].resource].link = link;
        for (const std::uint32_t flow : links_[link].flows) hop_to(flow, last).link = link;
    }
    links_.pop_back();
}

void Group::absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                   std::uint32_t self, double now) {
    anchor(now);
    other.anchor(now);
    const auto link_shift = static_cast<std::uint32_t>(links_.size());
    const auto flow_shift = static_cast<std::uint32_t>(flows_.size());
    if (other.stride_ > stride_) restride(other.stride_);
    if (other.stride_ < stride_) other.restride(stride_);
    for (Link& link : other.links_) {
        resources[link.resource].group = self;
        resources[link.resource].link += link_shift;
        for (std::uint32_t& flow : link.flows) flow += flow_shift;
        links_.push_back(std::move(link));
    }
    if (members_.empty() && !other.members_.empty()) members_.assign(flows_.size(), 1.0);
    if (!members_.empty()) other.members_.resize(other.flows_.size(), 1.0);
    for (const Flow& flow : other.flows_) {
        Activity& activity = pool[flow.activity];
        if (index_.built())
            index_.insert(hash_share(activity), static_cast<std::uint32_t>(flows_.size()));
        if (activity.hold != Hold::bundle) activity.where += flow_shift;
        flows_.push_back(flow);
        flows_.back().closed = round_;
    }
    absorb_bundles(other, pool, flow_shift);
    for (const Hop& hop : other.hops_)
        hops_.push_back({hop.link == none ? none : hop.link + link_shift, hop.place});
    for (const auto column : {&Group::weights_, &Group::efficiencies_, &Group::wasted_,
                              &Group::charges_, &Group::members_}) {
        (this->*column)
            .insert((this->*column).end(), (other.*column).begin(), (other.*column).end());
        (other.*column).clear();
    }
    limited_ += other.limited_;
    weighted_ += other.weighted_;
    modelled_ += other.modelled_;
    priced_ += other.priced_;
    coupling_ += other.coupling_;
    departures_ += other.departures_;
    other.flows_.clear();
    other.links_.clear();
    other.hops_.clear();
    other.limited_ = other.weighted_ = other.modelled_ = other.priced_ = 0;
    other.coupling_ = 0;
    other.forget_departures();
}

void Group::absorb_bundles(Group& other, ActivityPool& pool, std::uint32_t flow_shift) {
    std::vector<Slot> members;
    for (Bundle& bundle : other.bundles_) {
        if (bundle.flow == none) continue;
        members.clear();
        other.list_activities(pool, bundle.flow, members);
        const auto index = static_cast<std::uint32_t>(bundles_.size());
        for (const Slot slot : members) pool[slot].where = index;
        // The time of its last solution is that of the other group.
        bundle.solved_clock += (solved_ - other.solved_) * other.speed(bundle.flow);
        bundle.flow += flow_shift;
        bundles_.push_back(std::move(bundle));
    }
    other.bundles_.clear();
    other.free_bundles_.clear();
}

void Group::restride(std::uint32_t stride) {
    std::vector<Hop> wider(flows_.size() * stride, Hop{none, 0});
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
        std::ranges::copy(hops(flow), &wider[std::size_t{flow} * stride]);
    hops_ = std::move(wider);
    stride_ = stride;
}

double Group::remaining(const Activity& activity, double now) const {
    const std::uint32_t flow = flow_of(activity);
    const double progress = (now - since_) * speed(flow);
    const double left = activity.hold == Hold::bundle
                            ? activity.left - (bundles_[activity.where].clock - activity.reading)
                            : flows_[flow].remaining;
    return std::max(left - progress, 0.0);
}

double Group::wasted(std::uint32_t flow, double now) const {
    return wasted_[flow] + (now - since_) * (flows_[flow].rate * (1.0 - efficiency(flow)));
}

double Group::consumed(const Activity& activity, double now) const {
    const double before = activity.hold == Hold::bundle ? activity.joined : 0.0;
    return activity.consumed + (activity.left - remaining(activity, now)) +
           (wasted(flow_of(activity), now) - before);
}

double Group::charge_rate(std::uint32_t flow) const {
    if (priced_ == 0) return 0.0;
    double price = 0.0;
    for (const Hop& hop : hops(flow)) price += links_[hop.link].cost_rate.price;
    return flows_[flow].rate * price;
}

double Group::charge(const ActivityPool& pool, Slot slot, double now) const {
    const Activity& activity = pool[slot];
    const std::uint32_t flow = flow_of(activity);
    const double recent = (now - since_) * charge_rate(flow);
    if (activity.hold != Hold::bundle) return charges_[flow] + recent;
    return bundles_[activity.where].charges.since(pool.charge(slot).mark) + recent;
}

void Group::set_cost_model(Resource& resource, std::shared_ptr<const CostModel> model, double now) {
    anchor(now);
    if (resource.cost_model()) --priced_;
    resource.set_cost_model(std::move(model), now);
    if (resource.cost_model()) ++priced_;
    links_[resource.link].cost_rate = {};
}

// Updates all integrals until now, even without a change of rates; see Resource::advance.
void Group::anchor(double now) {
    if (now <= since_) return;
    const double elapsed = now - since_;
    for (Bundle& bundle : bundles_) {
        if (bundle.flow == none) continue;
        bundle.clock += elapsed * speed(bundle.flow);
        if (priced_ > 0) bundle.charges.add(elapsed * charge_rate(bundle.flow));
    }
    if (modelled_ == 0 && priced_ == 0) {
        for (Flow& flow : flows_)
            flow.remaining = std::max(flow.remaining - elapsed * flow.rate, 0.0);
    } else {
        for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
            flows_[flow].remaining = std::max(flows_[flow].remaining - elapsed * speed(flow), 0.0);
            wasted_[flow] = wasted(flow, now);
            charges_[flow] += elapsed * charge_rate(flow);
        }
    }
    for (Link& link : links_) {
        link.consumed = consumed(link, now);
        link.done = done(link, now);
        link.cost = cost(link, now);
    }
    since_ = now;
}

void Group::fix(std::uint32_t index, double rate) {
    Flow& flow = flows_[index];
    flow.closed = round_;
    flow.rate = rate;
    const double progress = speed(index);
    flow.end = flow.remaining <= 0.0 ? since_
               : progress > 0.0      ? since_ + flow.remaining / progress
                                     : never;
    next_ = std::min(next_, flow.end);
}

void Group::refresh_efficiencies(const ActivityPool& pool, std::vector<Resource>& resources) {
    for (const Link& link : links_) resources[link.resource].refresh_efficiencies();
    for (std::uint32_t index = 0; index < flows_.size(); ++index) {
        double product = 1.0;
        for (const Hop& hop : hops(index))
            product *= resources[links_[hop.link].resource].efficiency_of(
                pool[flows_[index].activity].kind);
        efficiencies_[index] = product;
    }
}

double Group::settle(const SharingRule& rule, ActivityPool& pool, std::vector<Resource>& resources,
                     double now) {
    // With many groups, this one is no longer in the caches, and the rule reads it in an
    // unpredictable order: prefetch it.
    constexpr std::size_t line = 64;
    for (const Link& link : links_)
        for (std::size_t i = 0; i < link.flows.size(); i += line / sizeof link.flows[0])
            prefetch(&link.flows[i]);
    for (std::size_t i = 0; i < hops_.size(); i += line / sizeof hops_[0]) prefetch(&hops_[i]);
    anchor(now);
    if (modelled_ > 0) refresh_efficiencies(pool, resources);
    next_ = never;
    for (Link& link : links_) {
        link.level = never;
        link.used = 0.0;
    }
    rule.assign(*this, pool);
    ++solutions_;
    solved_ = now;
    for (Bundle& bundle : bundles_)
        if (bundle.flow != none) find_end(bundle, pool);
    for (Link& link : links_) {
        link.progress = link.used;
        if (priced_ > 0)
            if (const auto& model = resources[link.resource].cost_model())
                link.cost_rate = cost_rate(*model, link.used, link.capacity);
        if (modelled_ == 0) continue;
        link.progress = 0.0;
        for (const std::uint32_t flow : link.flows)
            link.progress += flows_[flow].rate * efficiencies_[flow] * members(flow);
    }
    return next_;
}

void Group::due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const {
    for (const Flow& flow : flows_) {
        if (flow.end > now) continue;
        const Activity& activity = pool[flow.activity];
        if (activity.hold != Hold::bundle) {
            ended.push_back(flow.activity);
            continue;
        }
        const Bundle& bundle = bundles_[activity.where];
        bundle.ends.visit(
            [&](double key) { return key <= bundle.due_key || end_at(bundle, key) <= now; },
            [&](const KeyHeap::Entry& entry) {
                if (CurrentEnd{pool, Hold::bundle}(entry))
                    ended.push_back(ActivityPool::slot_of(entry.tag));
            });
    }
    std::ranges::sort(ended, {}, [&pool](Slot slot) { return pool[slot].tag; });
}

void Group::list_activities(const ActivityPool& pool, std::uint32_t flow,
                            std::vector<Slot>& activities) const {
    const Activity& activity = pool[flows_[flow].activity];
    if (activity.hold != Hold::bundle) {
        activities.push_back(flows_[flow].activity);
        return;
    }
    for (const KeyHeap::Entry& entry : bundles_[activity.where].ends.entries())
        if (CurrentEnd{pool, Hold::bundle}(entry))
            activities.push_back(ActivityPool::slot_of(entry.tag));
}

std::vector<std::vector<std::uint32_t>> Group::parts() const {
    std::vector<std::vector<std::uint32_t>> found;
    std::vector<std::uint32_t> part_of(flows_.size(), none);
    std::vector<bool> seen(links_.size());
    std::vector<std::uint32_t> to_visit;
    for (std::uint32_t first = 0; first < links_.size(); ++first) {
        if (seen[first]) continue;
        const auto part = static_cast<std::uint32_t>(found.size());
        found.emplace_back();
        seen[first] = true;
        to_visit.assign(1, first);
        while (!to_visit.empty()) {
            const Link& link = links_[to_visit.back()];
            to_visit.pop_back();
            for (const std::uint32_t flow : link.flows) {
                if (part_of[flow] != none) continue;
                part_of[flow] = part;
                for (const Hop& hop : hops(flow)) {
                    if (seen[hop.link]) continue;
                    seen[hop.link] = true;
                    to_visit.push_back(hop.link);
                }
            }
        }
    }
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) found[part_of[flow]].push_back(flow);
    return found;
}

}  // namespace twinloop
