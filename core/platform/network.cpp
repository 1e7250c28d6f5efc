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
    nodes_.push_back({out, in, {}});
    return static_cast<NodeId>(nodes_.size() - 1);
}

LinkId Network::add_link(NodeId a, NodeId b, ResourceId forward, ResourceId backward,
                         double latency) {
    check_not_negative("latency", latency);
    const auto link = static_cast<LinkId>(links_.size());
    links_.push_back({a, b, forward, backward, latency});
    nodes_[a].links.push_back(link);
    if (b != a) nodes_[b].links.push_back(link);
    found_.clear();
    trees_.clear();
    return link;
}

void Network::add_route(NodeId from, NodeId to, std::span<const LinkId> links, double latency) {
    if (!std::isnan(latency)) check_not_negative("latency", latency);
    NodeId at = from;
    for (const LinkId link : links) {
        if (links_[link].a != at && links_[link].b != at)
            throw std::invalid_argument("the links of a route must follow each other");
        at = other_end(link, at);
    }
    if (at != to && !links.empty())
        throw std::invalid_argument("the links of a route must lead to its end");
    Path path;
    path.latency = latency;
    path.reachable = true;
    add_links(path, from, links);
    if (nodes_[to].in != none) path.resources.push_back(nodes_[to].in);
    declared_[key(from, to)] = std::move(path);
    found_.erase(key(from, to));
}

void Network::set_base_latency(double seconds) {
    check_not_negative("latency", seconds);
    base_latency_ = seconds;
}

// Other routes may be the shortest ones now.
void Network::set_latency(LinkId link, double seconds) {
    check_not_negative("latency", seconds);
    links_[link].latency = seconds;
    found_.clear();
    trees_.clear();
}

double Network::latency(const Path& path) const {
    if (!std::isnan(path.latency)) return path.latency;
    double total = base_latency_;
    for (const LinkId link : path.links) total += links_[link].latency;
    return total;
}

const Network::Path& Network::path(NodeId from, NodeId to) {
    if (!declared_.empty())
        if (const auto found = declared_.find(key(from, to)); found != declared_.end())
            return found->second;
    const auto [place, added] = found_.try_emplace(key(from, to));
    if (added) {
        if (!links_.empty() && !trees_.contains(from)) trees_.emplace(from, shortest_from(from));
        place->second = find(from, to);
    }
    return place->second;
}

// The port of the first node, and the links in their direction.
void Network::add_links(Path& path, NodeId from, std::span<const LinkId> links) const {
    if (nodes_[from].out != none) path.resources.push_back(nodes_[from].out);
    for (const LinkId link : links) {
        const LinkEnds& ends = links_[link];
        const ResourceId resource = ends.a == from ? ends.forward : ends.backward;
        // A half-duplex link may be used in both directions, and is occupied once.
        if (resource != none && std::ranges::find(path.resources, resource) == path.resources.end())
            path.resources.push_back(resource);
        path.links.push_back(link);
        from = other_end(link, from);
    }
}

Network::Path Network::find(NodeId from, NodeId to) const {
    Path path;
    if (from == to) {  // nothing crosses the network
        path.reachable = true;
        return path;
    }
    path.latency = std::numeric_limits<double>::quiet_NaN();
    std::vector<LinkId> links;
    if (!links_.empty()) {
        const std::vector<LinkId>& last = trees_.at(from);
        for (NodeId at = to; at != from; at = other_end(last[at], at)) {
            // A node that was added after the search has no links: those search again.
            if (at >= last.size() || last[at] == none) return path;
            links.push_back(last[at]);
        }
        std::ranges::reverse(links);
    }
    path.reachable = true;
    add_links(path, from, links);
    if (nodes_[to].in != none) path.resources.push_back(nodes_[to].in);
    return path;
}

std::vector<LinkId> Network::shortest_from(NodeId from) const {
    using Entry = std::tuple<double, std::uint32_t, NodeId>;  // latency, links, node
    std::vector<std::pair<double, std::uint32_t>> best(nodes_.size(), {never, none});
    std::vector<LinkId> last(nodes_.size(), none);
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    best[from] = {0.0, 0};
    open.emplace(0.0, 0, from);
    while (!open.empty()) {
        const auto [latency, hops, node] = open.top();
        open.pop();
        if (best[node] != std::pair(latency, hops)) continue;
        for (const LinkId link : nodes_[node].links) {
            const NodeId next = other_end(link, node);
            const std::pair candidate(latency + links_[link].latency, hops + 1);
            if (candidate >= best[next]) continue;
            best[next] = candidate;
            last[next] = link;
            open.emplace(candidate.first, candidate.second, next);
        }
    }
    return last;
}

}  // namespace twinloop
