// A data store: files in a capacity, of which writes reserve their part in advance, and a bound on
// the transfers that it serves at once.
#pragma once

#include <cstdint>
#include <cstdio>
#include <list>
#include <string>
#include <unordered_map>

#include "kernel/activity.hpp"
#include "kernel/measure.hpp"
#include "platform/network.hpp"

namespace twinloop {

using StoreId = std::uint32_t;
using FileId = std::uint32_t;
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
    [[nodiscard]] bool holds(FileId file) const { return files_.contains(file); }
    [[nodiscard]] double size_of(FileId file) const { return files_.at(file); }
    [[nodiscard]] const std::unordered_map<FileId, double>& files() const { return files_; }

    void promise(double bytes) { promised_.add(bytes); }
    void withdraw_promise(double bytes) { promised_.subtract(bytes); }
    // A file that exists is replaced.
    void put(FileId file, double bytes) {
        remove(file);
        used_.add(bytes);
        files_[file] = bytes;
    }
    void remove(FileId file) {
        const auto found = files_.find(file);
        if (found == files_.end()) return;
        used_.subtract(found->second);
        files_.erase(found);
        if (files_.empty()) used_.clear();
    }

    [[nodiscard]] bool has_stream() const { return active < spec.streams; }
    // Whether a new transfer need not wait.
    [[nodiscard]] bool serves_at_once() const { return waiting.empty() && has_stream(); }

    DataStoreSpec spec;
    std::uint32_t active = 0;  // streams in use
    // For a stream, in the order of their registration. A list allocates nothing while it is empty,
    // as that of most stores of hosts.
    std::list<TransferId> waiting;

  private:
    Sum used_;
    Sum promised_;
    std::unordered_map<FileId, double> files_;
};

}  // namespace twinloop
