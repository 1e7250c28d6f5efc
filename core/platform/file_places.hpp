// The stores in which files are. Copies of a run share the rows of files that neither writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/shared_rows.hpp"

namespace twinloop {

using StoreId = std::uint32_t;
using FileId = std::uint32_t;

class FilePlaces {
  public:
    struct Place {
        StoreId store = none;
        double bytes = 0.0;
    };

    // For that many files; larger numbers are added when they are used.
    void reserve(std::size_t files) { first_.resize(files); }
    // A store in which the file is: the only one, if it is in one; none if it is in none.
    [[nodiscard]] StoreId first(FileId file) const {
        return file < first_.size() ? first_[file].store : none;
    }
    [[nodiscard]] bool has(FileId file, StoreId store) const {
        return find(file, store) != nullptr;
    }
    // The size of a file that is in the store.
    [[nodiscard]] double size_of(FileId file, StoreId store) const {
        return find(file, store)->bytes;
    }

    // The file is not in the store.
    void add(FileId file, StoreId store, double bytes) {
        if (file >= first_.size()) first_.resize(file + std::size_t{1});
        if (first_[file].store == none) {
            first_.edit(file) = {store, bytes};
        } else {
            further_.emplace(file, Place{store, bytes});
        }
    }
    // The file is in the store.
    void remove(FileId file, StoreId store) {
        const auto [begin, end] = further_.equal_range(file);
        if (first_[file].store != store) {
            for (auto at = begin; at != end; ++at) {
                if (at->second.store != store) continue;
                further_.erase(at);
                return;
            }
        }
        first_.edit(file) = begin == end ? Place{} : begin->second;
        if (begin != end) further_.erase(begin);
    }

    // Calls `visit(store, bytes)` for every store in which a file is.
    template <class Visit>
    void each_place(FileId file, Visit&& visit) const {
        if (file >= first_.size() || first_[file].store == none) return;
        visit(first_[file].store, first_[file].bytes);
        if (further_.empty()) return;
        const auto [begin, end] = further_.equal_range(file);
        for (auto at = begin; at != end; ++at) visit(at->second.store, at->second.bytes);
    }

    // Calls `visit(file, store, bytes)` for every file in every store, in the order of the files.
    template <class Visit>
    void each(Visit&& visit) const {
        for (FileId file = 0; file < first_.size(); ++file) {
            const Place& place = first_[file];
            if (place.store == none) continue;
            visit(file, place.store, place.bytes);
            const auto [begin, end] = further_.equal_range(file);
            for (auto at = begin; at != end; ++at) visit(file, at->second.store, at->second.bytes);
        }
    }

    // The files of a store with `count` files, and their sizes, in the order of the files.
    [[nodiscard]] std::vector<std::pair<FileId, double>> list(StoreId store,
                                                              std::size_t count) const {
        std::vector<std::pair<FileId, double>> found;
        found.reserve(count);
        for (FileId file = 0; file < first_.size() && found.size() < count; ++file)
            if (const Place* const place = find(file, store))
                found.emplace_back(file, place->bytes);
        return found;
    }

  private:
    [[nodiscard]] const Place* find(FileId file, StoreId store) const {
        if (file >= first_.size()) return nullptr;
        if (first_[file].store == store) return &first_[file];
        if (further_.empty()) return nullptr;
        const auto [begin, end] = further_.equal_range(file);
        for (auto at = begin; at != end; ++at)
            if (at->second.store == store) return &at->second;
        return nullptr;
    }

    SharedRows<Place> first_;                         // by file
    std::unordered_multimap<FileId, Place> further_;  // of files that are in several stores
};

}  // namespace twinloop
