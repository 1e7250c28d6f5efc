#include "kernel/group.hpp"

#include <algorithm>

#include "kernel/sharing_rule.hpp"

namespace twinloop {

void Group::add_resource(ResourceId id, Resource& resource, std::uint32_t self) {
    resource.group = self;
    resource.link = static_cast<std::uint32_t>(links_.size());
    if (resource.efficiency) ++modelled_;
    links_.push_back({resource.capacity, never, 0.0, 0.0, 0.0, 0.0, 0, id, {}});
}

void Group::add_flow(ActivityPool& pool, Slot slot, std::span<const Resource> resources,
                     double now) {
    Activity& activity = pool[slot];
    const auto route = activity.route.view();
    if (route.size() > stride_) restride(static_cast<std::uint32_t>(route.size()));
    const auto index = static_cast<std::uint32_t>(flows_.size());
    flows_.push_back(
        {activity.weight, 0.0, 1.0, activity.left, activity.consumed, now, never, slot, 0});
    hops_.resize(hops_.size() + stride_);
    hop_counts_.push_back(static_cast<std::uint32_t>(route.size()));
    for (std::uint32_t hop = 0; hop < route.size(); ++hop) {
        const std::uint32_t link = resources[route[hop]].link;
        auto& list = links_[link].flows;
        hops_[std::size_t{index} * stride_ + hop] = {link, static_cast<std::uint32_t>(list.size())};
        list.push_back({index, hop});
    }
    if (activity.limit < never) ++limited_;
    activity.hold = Hold::group;
    activity.where = index;
}

void Group::remove_flow(ActivityPool& pool, Slot slot, std::vector<Resource>& resources,
                        double now) {
    Activity& activity = pool[slot];
    const std::uint32_t index = activity.where;
    activity.left = remaining(flows_[index], now);
    activity.consumed = consumed(flows_[index], now);
    activity.hold = Hold::nothing;
    activity.where = none;
    if (activity.limit < never) --limited_;
    if (activity.route.size() > 1) ++departures_;

    for (const Hop& hop : hops(index)) {
        auto& list = links_[hop.link].flows;
        const Incidence moved = list.back();
        list[hop.place] = moved;
        hops_[std::size_t{moved.flow} * stride_ + moved.hop].place = hop.place;
        list.pop_back();
    }
    const auto last = static_cast<std::uint32_t>(flows_.size() - 1);
    if (index != last) {
        flows_[index] = flows_[last];
        pool[flows_[index].activity].where = index;
        hop_counts_[index] = hop_counts_[last];
        std::copy_n(&hops_[std::size_t{last} * stride_], stride_,
                    &hops_[std::size_t{index} * stride_]);
        for (const Hop& hop : hops(index)) links_[hop.link].flows[hop.place].flow = index;
    }
    flows_.pop_back();
    hop_counts_.pop_back();
    hops_.resize(hops_.size() - stride_);

    for (const ResourceId id : activity.route.view())
        if (links_[resources[id].link].flows.empty()) drop_link(resources[id].link, resources);
}

// A link that no flow uses leaves the group at once.
void Group::drop_link(std::uint32_t link, std::vector<Resource>& resources) {
    Resource& leaving = resources[links_[link].resource];
    leaving.group = leaving.link = none;
    if (leaving.efficiency) --modelled_;
    const auto last = static_cast<std::uint32_t>(links_.size() - 1);
    if (link != last) {
        links_[link] = std::move(links_[last]);
        resources[links_[link].resource].link = link;
        for (const Incidence& each : links_[link].flows)
            hops_[std::size_t{each.flow} * stride_ + each.hop].link = link;
    }
    links_.pop_back();
}

void Group::absorb(Group& other, ActivityPool& pool, std::vector<Resource>& resources,
                   std::uint32_t self) {
    const auto link_shift = static_cast<std::uint32_t>(links_.size());
    const auto flow_shift = static_cast<std::uint32_t>(flows_.size());
    if (other.stride_ > stride_) restride(other.stride_);
    if (other.stride_ < stride_) other.restride(stride_);
    for (Link& link : other.links_) {
        resources[link.resource].group = self;
        resources[link.resource].link += link_shift;
        for (Incidence& each : link.flows) each.flow += flow_shift;
        links_.push_back(std::move(link));
    }
    for (const Flow& flow : other.flows_) {
        pool[flow.activity].where += flow_shift;
        flows_.push_back(flow);
    }
    for (Hop hop : other.hops_) hops_.push_back({hop.link + link_shift, hop.place});
    hop_counts_.insert(hop_counts_.end(), other.hop_counts_.begin(), other.hop_counts_.end());
    limited_ += other.limited_;
    modelled_ += other.modelled_;
    departures_ += other.departures_;
    other.flows_.clear();
    other.links_.clear();
    other.hops_.clear();
    other.hop_counts_.clear();
    other.limited_ = other.modelled_ = 0;
    other.departures_ = 0;
}

void Group::restride(std::uint32_t stride) {
    std::vector<Hop> wider(flows_.size() * stride);
    for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
        std::ranges::copy(hops(flow), &wider[std::size_t{flow} * stride]);
    hops_ = std::move(wider);
    stride_ = stride;
}

double Group::remaining(const Flow& flow, double now) {
    return std::max(flow.remaining - (now - flow.since) * flow.rate * flow.efficiency, 0.0);
}

double Group::consumed(const Flow& flow, double now) {
    return flow.consumed + (now - flow.since) * flow.rate;
}

// Always, for the reason given at Resource::anchor.
void Group::anchor(Flow& flow) const {
    flow.remaining = remaining(flow, now_);
    flow.consumed = consumed(flow, now_);
    flow.since = now_;
}

void Group::fix(std::uint32_t index, double rate) {
    Flow& flow = flows_[index];
    anchor(flow);
    flow.open = 0;
    flow.rate = rate;
    const double speed = rate * flow.efficiency;
    flow.end = flow.remaining <= 0.0 ? now_ : speed > 0.0 ? now_ + flow.remaining / speed : never;
    next_ = std::min(next_, flow.end);
}

void Group::refresh_efficiencies(const ActivityPool& pool, std::vector<Resource>& resources) {
    for (const Link& link : links_) resources[link.resource].refresh_efficiencies();
    for (std::uint32_t index = 0; index < flows_.size(); ++index) {
        Flow& flow = flows_[index];
        anchor(flow);
        flow.efficiency = 1.0;
        for (const Hop& hop : hops(index))
            flow.efficiency *=
                resources[links_[hop.link].resource].efficiency_of(pool[flow.activity].kind);
    }
}

double Group::settle(const SharingRule& rule, ActivityPool& pool, std::vector<Resource>& resources,
                     double now) {
    now_ = now;
    next_ = never;
    for (Link& link : links_) {
        link.capacity = resources[link.resource].capacity;
        link.level = never;
        link.used = 0.0;
    }
    if (modelled_ > 0) refresh_efficiencies(pool, resources);
    rule.assign(*this, pool);
    for (const Link& link : links_) {
        double progress = link.used;
        if (modelled_ > 0) {
            progress = 0.0;
            for (const Incidence& each : link.flows)
                progress += flows_[each.flow].rate * flows_[each.flow].efficiency;
        }
        resources[link.resource].settle(now, link.level, link.used, progress);
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
            for (const Incidence& each : link.flows) {
                if (part_of[each.flow] != none) continue;
                part_of[each.flow] = part;
                for (const Hop& hop : hops(each.flow)) {
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
