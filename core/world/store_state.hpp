// What was requested from outside a run of its data stores: transfers that belong to no task,
// files that the scenario does not have, and stores that were registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/shared_rows.hpp"
#include "kernel/shared_value.hpp"
#include "platform/machine.hpp"
#include "platform/transfers.hpp"

namespace twinloop {

// The transfer of a file into a store from a host, from a store to a host, or between stores,
// where the first one keeps or loses the file.
enum class RequestKind : std::uint8_t { put, get, duplicate, move };

struct StoreRequest {
    RequestKind kind = RequestKind::put;
    bool finished = false;  // otherwise it is in progress, or was cancelled
    FileId file = none;
    StoreId source = none;
    StoreId target = none;
    MachineId machine = no_machine;  // of a put or a get
    TransferId transfer = none;      // none: it has ended
    std::uint32_t ended_as = 0;      // its place among the requests that have ended, from 1
    double bytes = 0.0;              // of the file
    double moved = 0.0;              // bytes, at its end
    double start = 0.0;
    double end = std::numeric_limits<double>::quiet_NaN();
};

struct StoreRequestState {
    // The files that the scenario does not have; their numbers follow those of the scenario.
    struct NewFiles {
        std::vector<std::string> names;
        std::unordered_map<std::string, FileId> numbers;
    };

    SharedRows<StoreRequest> rows;
    std::vector<std::uint32_t> open;  // the requests in progress, in their order
    std::uint32_t ended = 0;
    // The requests up to this place among the ended ones are in no record, see `WorldState`.
    std::uint32_t forgotten = 0;
    SharedValue<NewFiles> files;
    std::vector<std::pair<StoreId, std::string>> stores;  // with names that were given in the run
    bool has_changes = false;                             // of files or stores, or transfers
};

}  // namespace twinloop
