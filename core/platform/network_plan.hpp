// The network and the data stores of a scenario: constant, shared by its runs. The one native place
// of bandwidths and latencies.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/simulation.hpp"
#include "platform/transfers.hpp"

namespace twinloop {

struct NetworkPlan {
    struct Node {
        double out;  // bandwidths of its ports; infinite: unlimited
        double in;
        bool ignored = false;  // by the level of detail: the ports are unlimited
    };
    // `described`: its place in the description, where one link stands for those of many nodes and
    // one route for both directions.
    struct PlannedLink {
        NodeId a;
        NodeId b;
        double bandwidth;
        double latency;
        bool half_duplex;
        std::uint32_t described;
        bool ignored = false;  // by the level of detail: unlimited, without latency
    };
    struct PlannedRoute {
        NodeId from;
        NodeId to;
        std::vector<LinkId> links;
        double latency;  // NaN: the sum over the links
        std::uint32_t described;
    };
    struct PlannedStore {
        NodeId node;
        double capacity;
        double read;
        double write;
        std::uint32_t streams;
        double cache_size = 0.0;  // of the page cache (bytes); 0: none
        double cache_read = never;
    };

    std::vector<Node> nodes;  // the machines in their order, then stores and switches
    std::vector<PlannedLink> links;
    std::vector<PlannedRoute> routes;
    std::vector<PlannedStore> stores;
    std::vector<StoreId> local_stores;  // by machine, or `none`; empty: no file is in one
    double latency = 0.0;

    [[nodiscard]] StoreId local_store(std::size_t machine) const {
        return machine < local_stores.size() ? local_stores[machine] : none;
    }
    // The network of a run, with new resources in its simulation.
    [[nodiscard]] Transfers build(Simulation& simulation) const;
};

}  // namespace twinloop
