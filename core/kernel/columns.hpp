// Column interface: arrays of activities in, finish times out. It is the client of an ordinary
// simulation and submits the activities in the order of their starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel/recorder.hpp"
#include "kernel/simulation.hpp"

namespace twinloop {

struct Columns {
    std::span<const double> start;
    std::span<const double> work;
    std::span<const double> limit;           // empty: no limit
    std::span<const double> weight;          // empty: 1
    std::span<const std::int64_t> kind;      // empty: 0
    std::span<const std::int64_t> resource;  // `width` per row, padded with -1; empty: resource 0
    std::size_t width = 1;
    std::span<const double> capacity;  // of each resource
    // Leases are the resources after these; weight 0: the size.
    std::span<const std::int64_t> lease_host;
    std::span<const double> lease_size;
    std::span<const double> lease_weight;
    std::shared_ptr<const Efficiency> efficiency;
};

struct ColumnRun {
    std::vector<double> finish;
    std::uint64_t events = 0;
    std::optional<RateRecorder> rates;
    std::vector<Stalled> stalled;  // `slot` holds the row; empty if all have finished
};

// Requires checked columns. `poll` is called periodically; its exceptions end the run.
[[nodiscard]] ColumnRun run_columns(const Columns& columns, bool record,
                                    const std::function<void()>& poll);

}  // namespace twinloop
