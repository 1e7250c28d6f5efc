#include "platform/network_plan.hpp"

#include "kernel/checks.hpp"

namespace twinloop {

Transfers NetworkPlan::build(Simulation& simulation) const {
    const auto add = [&](double bandwidth) {
        return bandwidth < never ? simulation.add_resource(bandwidth) : none;
    };
    Transfers made;
    made.unlimited = simulation.add_resource(largest);
    made.has_private_limits = true;
    made.network.set_base_latency(latency);
    for (const Node& node : nodes) {
        const ResourceId out = add(node.ignored ? never : node.out);
        (void)made.network.add_node(out, add(node.ignored ? never : node.in));
    }
    for (const PlannedLink& link : links) {
        const double bandwidth = link.ignored ? never : link.bandwidth;
        const ResourceId forward = add(bandwidth);
        const ResourceId backward = link.half_duplex ? forward : add(bandwidth);
        (void)made.network.add_link(link.a, link.b, forward, backward,
                                    link.ignored ? 0.0 : link.latency);
    }
    for (const PlannedRoute& route : routes)
        made.network.add_route(route.from, route.to, route.links, route.latency);
    for (const PlannedStore& store : stores) {
        const ResourceId read = add(store.read);
        made.stores.emplace_back(
            DataStoreSpec{store.node, store.capacity, read, add(store.write), store.streams});
        if (store.cache_size > 0)
            made.stores.back().page_cache.open(store.cache_size, add(store.cache_read));
    }
    return made;
}

}  // namespace twinloop
