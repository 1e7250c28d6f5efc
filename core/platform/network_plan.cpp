#include "platform/network_plan.hpp"

#include "kernel/checks.hpp"

namespace twinloop {

Transfers NetworkPlan::build(Simulation& simulation) const {
    const auto add = [&](double bandwidth) {
        return bandwidth < never ? simulation.add_resource(bandwidth) : none;
    };
    Transfers made;
    made.unlimited = simulation.add_resource(largest);
    made.network.set_base_latency(latency);
    for (const Node& node : nodes) {
        const ResourceId out = add(node.out);
        (void)made.network.add_node(out, add(node.in));
    }
    for (const PlannedLink& link : links) {
        const ResourceId forward = add(link.bandwidth);
        const ResourceId backward = link.half_duplex ? forward : add(link.bandwidth);
        (void)made.network.add_link(link.a, link.b, forward, backward, link.latency);
    }
    for (const PlannedRoute& route : routes)
        made.network.add_route(route.from, route.to, route.links, route.latency);
    for (const PlannedStore& store : stores) {
        const ResourceId read = add(store.read);
        made.stores.emplace_back(
            DataStoreSpec{store.node, store.capacity, read, add(store.write), store.streams});
    }
    return made;
}

}  // namespace twinloop
