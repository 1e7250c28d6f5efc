// The network between nodes (machines, stores, switches): ports of the nodes, links between them,
// and the route from one node to another. It only knows which resources a transfer uses; their
// bandwidths are the capacities of these resources in the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/shared_value.hpp"

namespace twinloop {

using NodeId = std::uint32_t;
using LinkId = std::uint32_t;

// A copy shares nodes, links and known paths with the original until one of them changes.
class Network {
  public:
    // A node with full-duplex ports: the resources that its outgoing and its incoming transfers
    // use; `none`: unlimited.
    NodeId add_node(ResourceId out, ResourceId in);
    // A link between two nodes; with one resource for both directions it is half-duplex.
    LinkId add_link(NodeId a, NodeId b, ResourceId forward, ResourceId backward, double latency);
    // The links from one node to another, instead of the shortest path; a latency that is not NaN
    // replaces the sum over the links. Throws if the links do not lead there.
    void add_route(NodeId from, NodeId to, std::span<const LinkId> links, double latency);

    // The latency of every route, in addition to that of its links.
    void set_base_latency(double seconds);

    struct Ports {
        ResourceId out;
        ResourceId in;
    };
    struct LinkEnds {
        NodeId a;
        NodeId b;
        ResourceId forward;   // from a to b
        ResourceId backward;  // from b to a
        double latency;
    };
    [[nodiscard]] Ports ports(NodeId node) const { return topology_->nodes[node].ports; }
    [[nodiscard]] std::span<const LinkId> links_of(NodeId node) const {
        return topology_->nodes[node].links;
    }
    [[nodiscard]] const LinkEnds& ends(LinkId link) const { return topology_->links[link]; }

    struct Path {
        std::vector<ResourceId> resources;  // port, links, port
        std::vector<LinkId> links;
        double latency = 0.0;  // declared for the route; NaN: the sum over the links
        bool reachable = false;
    };
    // The declared route, or that of the least latency and then of the fewest links. Without links
    // all nodes are connected to one switch: a star.
    [[nodiscard]] const Path& path(NodeId from, NodeId to);
    [[nodiscard]] double latency(const Path& path) const;

    [[nodiscard]] std::size_t nodes() const { return topology_->nodes.size(); }
    [[nodiscard]] std::size_t links() const { return topology_->links.size(); }

  private:
    struct Node {
        Ports ports;
        std::vector<LinkId> links;
    };
    struct Topology {
        std::vector<Node> nodes;
        std::vector<LinkEnds> links;
        std::unordered_map<std::uint64_t, Path> declared;
    };
    // For each node the last link of the shortest path from one node, or `none`.
    using Tree = std::vector<LinkId>;
    // What has been searched; a copy of this has the same paths and trees.
    struct KnownPaths {
        std::unordered_map<std::uint64_t, std::shared_ptr<const Path>> paths;
        std::unordered_map<NodeId, std::shared_ptr<const Tree>> trees;  // by the first node
    };
    static std::uint64_t key(NodeId from, NodeId to) { return std::uint64_t{from} << 32 | to; }
    [[nodiscard]] NodeId other_end(LinkId link, NodeId node) const {
        return ends(link).a == node ? ends(link).b : ends(link).a;
    }
    void add_links(Path& path, NodeId from, std::span<const LinkId> links) const;
    // The shortest path; `tree`: those from the same node, null in a network without links.
    [[nodiscard]] Path find(NodeId from, NodeId to, const Tree* tree) const;
    [[nodiscard]] Tree shortest_from(NodeId from) const;

    SharedValue<Topology> topology_;
    SharedValue<KnownPaths> known_;
    double base_latency_ = 0.0;
};

}  // namespace twinloop
