// The page cache of a store: the files that were read or written last, as far as its size allows.
// They are read from memory, not from the disk.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "kernel/activity.hpp"
#include "kernel/measure.hpp"
#include "platform/file_places.hpp"

namespace twinloop {

class PageCache {
  public:
    // `bandwidth`: of all reads from memory; none: unlimited.
    void open(double size, ResourceId bandwidth) {
        size_ = size;
        bandwidth_ = bandwidth;
    }
    [[nodiscard]] bool is_open() const { return size_ > 0; }
    [[nodiscard]] double size() const { return size_; }
    [[nodiscard]] ResourceId bandwidth() const { return bandwidth_; }
    [[nodiscard]] bool has(FileId file) const { return pages_.contains(file); }

    // The file has been read or written: it comes last in the order of removal, and the first ones
    // make room. A file that is larger than the cache is not kept.
    void touch(FileId file, double bytes) {
        drop(file);
        if (bytes > size_) return;
        pages_[file] = {bytes, ++touches_};
        order_[touches_] = file;
        used_.add(bytes);
        while (used_.value() > size_ && order_.size() > 1) drop(order_.begin()->second);
    }

  private:
    struct Pages {
        double bytes;
        std::uint64_t touched;
    };

    void drop(FileId file) {
        const auto found = pages_.find(file);
        if (found == pages_.end()) return;
        used_.subtract(found->second.bytes);
        order_.erase(found->second.touched);
        pages_.erase(found);
        if (pages_.empty()) used_.clear();
    }

    double size_ = 0.0;
    ResourceId bandwidth_ = none;
    Sum used_;
    std::uint64_t touches_ = 0;
    // Both allocate nothing while they are empty, as those of most stores.
    std::unordered_map<FileId, Pages> pages_;
    std::map<std::uint64_t, FileId> order_;  // by the last use
};

}  // namespace twinloop
