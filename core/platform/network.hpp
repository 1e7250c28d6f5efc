// The network between nodes (machines, stores, switches): ports of the nodes, links between them,
// and the route from one node to another. It only knows which resources a transfer uses; their
// bandwidths are the capacities of these resources in the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"

namespace twinloop {

using NodeId = std::uint32_t;
using LinkId = std::uint32_t;

// A copy shares nodes, links and known paths with the original. To copy a network is to change it:
// no other thread may use it at that time.
class Network {
  public:
    Network() = default;
    Network(const Network& other)
        : topology_(other.topology_), is_shared_(true), found_(other.found_), trees_(other.trees_),
          base_latency_(other.base_latency_) {
        other.is_shared_ = true;  // NOLINT(bugprone-copy-constructor-mutates-argument)
    }
    Network(Network&&) = default;
    Network& operator=(const Network&) = delete;
    Network& operator=(Network&&) = default;
    ~Network() = default;

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
    void set_latency(LinkId link, double seconds);

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
    static std::uint64_t key(NodeId from, NodeId to) { return std::uint64_t{from} << 32 | to; }
    // The topology, to be changed: copies of the network have another one from then on.
    [[nodiscard]] Topology& edit();
    [[nodiscard]] NodeId other_end(LinkId link, NodeId node) const {
        return ends(link).a == node ? ends(link).b : ends(link).a;
    }
    void add_links(Path& path, NodeId from, std::span<const LinkId> links) const;
    [[nodiscard]] Path find(NodeId from, NodeId to) const;
    // For each node the last link of the shortest path from `from`, or `none`.
    [[nodiscard]] std::vector<LinkId> shortest_from(NodeId from) const;

    std::shared_ptr<Topology> topology_ = std::make_shared<Topology>();
    mutable bool is_shared_ = false;  // other networks may have the same topology
    // Known paths, and trees of the shortest paths by their first node.
    std::unordered_map<std::uint64_t, std::shared_ptr<const Path>> found_;
    std::unordered_map<NodeId, std::shared_ptr<const std::vector<LinkId>>> trees_;
    double base_latency_ = 0.0;
};

}  // namespace twinloop
