// The data stores of a run, as Python reads and changes them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "platform/network_plan.hpp"
#include "world/world.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// A network from its columns (twinloop.engine.network_columns).
[[nodiscard]] NetworkPlan network_from(const nb::dict& from);

// `like`: of each machine that was added, the machine that it is like, or -1.
void open_network(World& run, const nb::dict& network, const std::vector<std::string>& names,
                  const std::vector<std::int64_t>& like);
// The names of the stores that were given in the run, by their number.
[[nodiscard]] std::vector<std::pair<StoreId, std::string>> named_stores(const World& run);
// Capacity, contents, bandwidths and streams of a store.
[[nodiscard]] nb::dict store_figures(World& run, StoreId store);
// The numbers and the sizes of its files.
[[nodiscard]] nb::tuple store_files(World& run, StoreId store);
// The number of the store. `given`: the fields of `NewStore`, those that are none left out.
StoreId register_store(World& run, const nb::dict& given);

// The kind is its native code; -1: none.
std::uint32_t begin_request(World& run, std::uint8_t kind, FileId file, std::int64_t source,
                            std::int64_t target, std::int64_t machine, double bytes);
[[nodiscard]] nb::dict request_figures(World& run, std::uint32_t number);
// The requests that have ended, in the order of their ends.
[[nodiscard]] nb::dict ended_requests(const World& run);
// Bytes, rates and transfers in progress by node of the network; the nodes of machines and stores.
[[nodiscard]] nb::dict node_use(World& run);

}  // namespace twinloop::bind
