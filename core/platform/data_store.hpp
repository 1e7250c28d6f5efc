// A data store: a capacity for files, of which writes reserve their part in advance, and a bound on
// the transfers that it serves at once. `Transfers` knows which files are in it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <list>
#include <string>

#include "kernel/activity.hpp"
#include "kernel/measure.hpp"
#include "platform/file_places.hpp"
#include "platform/network.hpp"
#include "platform/page_cache.hpp"

namespace twinloop {

using TransferId = std::uint32_t;

// A number of bytes for messages.
[[nodiscard]] inline std::string bytes_text(double bytes) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.15g", bytes);
    return buffer;
}

struct DataStoreSpec {
    NodeId node = none;
    double capacity = never;       // bytes
    ResourceId read = none;        // bandwidth of all reads; none: unlimited
    ResourceId write = none;       // bandwidth of all writes
    std::uint32_t streams = none;  // transfers at once; none: unlimited
};

class DataStore {
  public:
    explicit DataStore(const DataStoreSpec& spec) : spec(spec) {}

    [[nodiscard]] double used() const { return used_.value(); }
    [[nodiscard]] double promised() const { return promised_.value(); }
    [[nodiscard]] double free() const {
        return spec.capacity < never ? spec.capacity - used() - promised() : never;
    }
    // Rounding of sums must not refuse what fits.
    [[nodiscard]] bool fits(double bytes) const {
        return bytes <= free() + 1e-12 * spec.capacity || spec.capacity == never;
    }

    [[nodiscard]] std::uint32_t file_count() const { return files_; }

    void promise(double bytes) { promised_.add(bytes); }
    void withdraw_promise(double bytes) { promised_.subtract(bytes); }
    void add_file(double bytes) {
        used_.add(bytes);
        ++files_;
    }
    void remove_file(double bytes) {
        used_.subtract(bytes);
        if (--files_ == 0) used_.clear();
    }

    [[nodiscard]] bool has_stream() const { return active < spec.streams; }
    // Whether a new transfer need not wait.
    [[nodiscard]] bool serves_at_once() const { return waiting.empty() && has_stream(); }

    DataStoreSpec spec;
    bool is_gone = false;      // it was deregistered: it serves no transfer
    std::uint32_t active = 0;  // streams in use
    // For a stream, in the order of their registration. A list allocates nothing while it is empty,
    // as that of most stores of hosts.
    std::list<TransferId> waiting;
    PageCache page_cache;

  private:
    Sum used_;
    Sum promised_;
    std::uint32_t files_ = 0;
};

}  // namespace twinloop
