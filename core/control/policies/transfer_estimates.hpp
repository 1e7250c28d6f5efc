// Estimates of the time that files take between data stores and machines if nothing else moves.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "control/scheduler_state.hpp"
#include "platform/network.hpp"

namespace twinloop {

class TransferEstimates {
  public:
    struct Route {
        double latency = 0.0;
        double bandwidth = never;  // the least on the way, without the store; 0: there is no way

        [[nodiscard]] auto operator<=>(const Route&) const = default;
    };
    // The route from the node of a store to another node; the same counts for the way back.
    [[nodiscard]] const Route& route(const DataView& data, std::uint32_t store, NodeId node);
    // Seconds for the inputs of a task, one after the other, and for its outputs, on a machine at
    // that node; infinite if there is no way.
    [[nodiscard]] double estimate(const DataView& data, std::uint32_t task, NodeId node);

  private:
    [[nodiscard]] double seconds(const DataView& data, std::uint32_t store, NodeId node,
                                 double bytes, bool reads);

    std::optional<Network> network_;                   // a copy, because searches change it
    std::unordered_map<std::uint64_t, Route> routes_;  // by store and node
};

}  // namespace twinloop
