#include "kernel/group.hpp"

#include <algorithm>

#include "kernel/sharing_rule.hpp"

namespace twinloop {

void Group::begin(double now) {
    in_use = true;
    since_ = now;
}

void Group::add_resource(ResourceId id, Resource& resource, std::uint32_t self) {
    resource.enter_group(self, static_cast<std::uint32_t>(links_.size()));
    if (resource.efficiency) ++modelled_;
    if (resource.cost_model()) ++priced_;
    links_.emplace_back();
    links_.back().capacity = resource.capacity;
    links_.back().resource = id;
}

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

void Group::remove_flow(ActivityPool& pool, Slot slot, std::vector<Resource>& resources,
                        double now) {
    Activity& activity = pool[slot];
    const std::uint32_t index = activity.where;
    activity.consumed = consumed(activity, now);
    activity.left = remaining(index, now);
    if (pool.has_charges()) pool.charge(slot).total += charge(index, now);
    activity.hold = Hold::nothing;
    activity.where = none;
    if (activity.limit < never) --limited_;
    if (activity.weight != 1.0) --weighted_;
    if (activity.route.size() > 1) {
        --coupling_;
        ++departures_;
    }

    for (const Hop& hop : hops(index)) {
        Link& link = links_[hop.link];
        const std::uint32_t moved = link.flows.back();
        link.flows[hop.place] = moved;
        hop_to(moved, hop.link).place = hop.place;
        link.flows.pop_back();
        link.weights.subtract(activity.weight);
        if (link.flows.empty()) link.weights.clear();
    }
    const auto last = static_cast<std::uint32_t>(flows_.size() - 1);
    if (index != last) {
        flows_[index] = flows_[last];
        pool[flows_[index].activity].where = index;
        weights_[index] = weights_[last];
        efficiencies_[index] = efficiencies_[last];
        wasted_[index] = wasted_[last];
        charges_[index] = charges_[last];
        std::copy_n(&hops_[std::size_t{last} * stride_], stride_,
                    &hops_[std::size_t{index} * stride_]);
        for (const Hop& hop : hops(index)) links_[hop.link].flows[hop.place] = index;
    }
    flows_.pop_back();
    weights_.pop_back();
    efficiencies_.pop_back();
    wasted_.pop_back();
    charges_.pop_back();
    hops_.resize(hops_.size() - stride_);

    for (const ResourceId id : activity.route.view())
        if (links_[resources[id].link].flows.empty()) drop_link(resources[id].link, resources, now);
}

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
    for (const Flow& flow : other.flows_) {
        pool[flow.activity].where += flow_shift;
        flows_.push_back(flow);
        flows_.back().closed = round_;
    }
    for (const Hop& hop : other.hops_)
        hops_.push_back({hop.link == none ? none : hop.link + link_shift, hop.place});
    for (const auto column :
         {&Group::weights_, &Group::efficiencies_, &Group::wasted_, &Group::charges_}) {
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

void Group::restride(std::uint32_t stride) {
    std::vector<Hop> wider(flows_.size() * stride, Hop{none, 0});
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
        std::ranges::copy(hops(flow), &wider[std::size_t{flow} * stride]);
    hops_ = std::move(wider);
    stride_ = stride;
}

double Group::remaining(std::uint32_t flow, double now) const {
    const double speed = flows_[flow].rate * efficiency(flow);
    return std::max(flows_[flow].remaining - (now - since_) * speed, 0.0);
}

double Group::wasted(std::uint32_t flow, double now) const {
    return wasted_[flow] + (now - since_) * (flows_[flow].rate * (1.0 - efficiency(flow)));
}

double Group::consumed(const Activity& activity, double now) const {
    return activity.consumed + (activity.left - remaining(activity.where, now)) +
           wasted(activity.where, now);
}

double Group::charge(std::uint32_t flow, double now) const {
    if (priced_ == 0) return charges_[flow];
    double price = 0.0;
    for (const Hop& hop : hops(flow)) price += links_[hop.link].cost_rate.price;
    return charges_[flow] + (now - since_) * (flows_[flow].rate * price);
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
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
        flows_[flow].remaining = remaining(flow, now);
        if (modelled_ > 0) wasted_[flow] = wasted(flow, now);
        if (priced_ > 0) charges_[flow] = charge(flow, now);
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
    const double speed = rate * efficiency(index);
    flow.end = flow.remaining <= 0.0 ? since_
               : speed > 0.0         ? since_ + flow.remaining / speed
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
    for (Link& link : links_) {
        link.progress = link.used;
        if (priced_ > 0)
            if (const auto& model = resources[link.resource].cost_model())
                link.cost_rate = cost_rate(*model, link.used, link.capacity);
        if (modelled_ == 0) continue;
        link.progress = 0.0;
        for (const std::uint32_t flow : link.flows)
            link.progress += flows_[flow].rate * efficiencies_[flow];
    }
    return next_;
}

void Group::due(const ActivityPool& pool, double now, std::vector<Slot>& ended) const {
    for (const Flow& flow : flows_)
        if (flow.end <= now) ended.push_back(flow.activity);
    std::ranges::sort(ended, {}, [&pool](Slot slot) { return pool[slot].tag; });
}

std::vector<std::vector<Slot>> Group::parts() const {
    std::vector<std::vector<Slot>> found;
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
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
        found[part_of[flow]].push_back(flows_[flow].activity);
    return found;
}

}  // namespace twinloop
