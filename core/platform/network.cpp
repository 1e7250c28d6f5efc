#include "platform/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "kernel/checks.hpp"

namespace twinloop {

NodeId Network::add_node(ResourceId out, ResourceId in) {
    topology_.edit().nodes.push_back({{out, in}, {}});
    return static_cast<NodeId>(nodes() - 1);
}

LinkId Network::add_link(NodeId a, NodeId b, ResourceId forward, ResourceId backward,
                         double latency) {
    check_not_negative("latency", latency);
    const auto link = static_cast<LinkId>(links());
    Topology& topology = topology_.edit();
    topology.links.push_back({a, b, forward, backward, latency});
    topology.nodes[a].links.push_back(link);
    if (b != a) topology.nodes[b].links.push_back(link);
    known_.clear();  // other paths may be the shortest ones now
    return link;
}

void Network::add_route(NodeId from, NodeId to, std::span<const LinkId> links, double latency) {
    if (!std::isnan(latency)) check_not_negative("latency", latency);
    NodeId at = from;
    for (const LinkId link : links) {
        if (ends(link).a != at && ends(link).b != at)
            throw std::invalid_argument("the links of a route must follow each other");
        at = other_end(link, at);
    }
    if (at != to && !links.empty())
        throw std::invalid_argument("the links of a route must lead to its end");
    Path path;
    path.latency = latency;
    path.reachable = true;
    add_links(path, from, links);
    if (ports(to).in != none) path.resources.push_back(ports(to).in);
    topology_.edit().declared[key(from, to)] = std::move(path);
    if (known_->paths.contains(key(from, to))) known_.edit().paths.erase(key(from, to));
}

void Network::set_base_latency(double seconds) {
    check_not_negative("latency", seconds);
    base_latency_ = seconds;
}

double Network::latency(const Path& path) const {
    if (!std::isnan(path.latency)) return path.latency;
    double total = base_latency_;
    for (const LinkId link : path.links) total += ends(link).latency;
    return total;
}

const Network::Path& Network::path(NodeId from, NodeId to) {
    const auto& declared = topology_->declared;
    if (!declared.empty())
        if (const auto found = declared.find(key(from, to)); found != declared.end())
            return found->second;
    const auto& paths = known_->paths;
    if (const auto found = paths.find(key(from, to)); found != paths.end()) return *found->second;
    KnownPaths& known = known_.edit();
    const Tree* tree = nullptr;
    if (links() > 0) {
        std::shared_ptr<const Tree>& place = known.trees[from];
        if (place == nullptr) place = std::make_shared<Tree>(shortest_from(from));
        tree = place.get();
    }
    return *(known.paths[key(from, to)] = std::make_shared<Path>(find(from, to, tree)));
}

// The port of the first node, and the links in their direction.
void Network::add_links(Path& path, NodeId from, std::span<const LinkId> links) const {
    if (ports(from).out != none) path.resources.push_back(ports(from).out);
    for (const LinkId link : links) {
        const LinkEnds& both = ends(link);
        const ResourceId resource = both.a == from ? both.forward : both.backward;
        // A half-duplex link may be used in both directions, and is occupied once.
        if (resource != none && std::ranges::find(path.resources, resource) == path.resources.end())
            path.resources.push_back(resource);
        path.links.push_back(link);
        from = other_end(link, from);
    }
}

Network::Path Network::find(NodeId from, NodeId to, const Tree* tree) const {
    Path path;
    if (from == to) {  // nothing crosses the network
        path.reachable = true;
        return path;
    }
    path.latency = std::numeric_limits<double>::quiet_NaN();
    std::vector<LinkId> way;
    if (tree != nullptr) {
        for (NodeId at = to; at != from; at = other_end((*tree)[at], at)) {
            // A node that was added after the search has no links: a new link starts new searches.
            if (at >= tree->size() || (*tree)[at] == none) return path;
            way.push_back((*tree)[at]);
        }
        std::ranges::reverse(way);
    }
    path.reachable = true;
    add_links(path, from, way);
    if (ports(to).in != none) path.resources.push_back(ports(to).in);
    return path;
}

Network::Tree Network::shortest_from(NodeId from) const {
    using Entry = std::tuple<double, std::uint32_t, NodeId>;  // latency, links, node
    std::vector<std::pair<double, std::uint32_t>> best(nodes(), {never, none});
    Tree last(nodes(), none);
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    best[from] = {0.0, 0};
    open.emplace(0.0, 0, from);
    while (!open.empty()) {
        const auto [latency, hops, node] = open.top();
        open.pop();
        if (best[node] != std::pair(latency, hops)) continue;
        for (const LinkId link : links_of(node)) {
            const NodeId next = other_end(link, node);
            const std::pair candidate(latency + ends(link).latency, hops + 1);
            if (candidate >= best[next]) continue;
            best[next] = candidate;
            last[next] = link;
            open.emplace(candidate.first, candidate.second, next);
        }
    }
    return last;
}

}  // namespace twinloop
