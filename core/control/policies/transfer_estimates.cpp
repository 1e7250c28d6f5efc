#include "control/policies/transfer_estimates.hpp"

#include <algorithm>

#include "kernel/simulation.hpp"
#include "platform/transfers.hpp"
#include "work/file_table.hpp"

namespace twinloop {

const TransferEstimates::Route& TransferEstimates::route(const DataView& data, std::uint32_t store,
                                                         NodeId node) {
    const auto [found, is_new] = routes_.try_emplace(std::uint64_t{store} << 32 | node);
    Route& route = found->second;
    const NodeId from = data.transfers->stores[store].spec.node;
    if (!is_new || from == node) return route;
    if (!network_) network_.emplace(data.transfers->network);
    const Network::Path& path = network_->path(from, node);
    if (!path.reachable) {
        route.bandwidth = 0.0;
        return route;
    }
    route.latency = network_->latency(path);
    for (const ResourceId each : path.resources)
        if (each != none)
            route.bandwidth = std::min(route.bandwidth, data.simulation->capacity(each));
    return route;
}

double TransferEstimates::seconds(const DataView& data, std::uint32_t store, NodeId node,
                                  double bytes, bool reads) {
    const DataStoreSpec& spec = data.transfers->stores[store].spec;
    const Route& way = route(data, store, node);
    const ResourceId own = reads ? spec.read : spec.write;
    double bandwidth = way.bandwidth;
    if (own != none) bandwidth = std::min(bandwidth, data.simulation->capacity(own));
    return bandwidth > 0 ? way.latency + bytes / bandwidth : never;
}

double TransferEstimates::estimate(const DataView& data, std::uint32_t task, NodeId node) {
    if (data.files == nullptr || data.transfers == nullptr) return 0.0;
    double total = 0.0;
    for (const FileId file : data.files->read_by(task)) {
        const FileTable::File& each = data.files->files[file];
        const StoreId store = each.store != none ? each.store : data.transfers->files().first(file);
        if (store != none) total += seconds(data, store, node, each.bytes, true);
    }
    // A file that is written to the store of the machine costs about the same everywhere.
    for (const FileId file : data.files->written_by(task)) {
        const FileTable::File& each = data.files->files[file];
        if (each.store != none) total += seconds(data, each.store, node, each.bytes, false);
    }
    return total;
}

}  // namespace twinloop
