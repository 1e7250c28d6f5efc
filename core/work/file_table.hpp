// The files of a scenario and their use by its tasks: constant, shared by its runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "platform/data_store.hpp"
#include "work/task_table.hpp"

namespace twinloop {

struct FileTable {
    struct File {
        double bytes;
        // From which it is read, and to which it is written; `none`: the local store of the
        // machine that writes it.
        StoreId store;
        bool exists;  // at the start of the run
    };
    // How files move between their stores and the machines of tasks.
    struct Handling {
        bool through_local = false;  // the store of the host, in which copies are made
        bool keeps_copies = false;   // which later tasks on the host read
        bool whole_files = false;    // a file is read from a store, then sent, then written
    };
    std::vector<File> files;
    Handling handling;
    std::vector<std::pair<FileId, StoreId>> copies;  // further ones, at the start of the run
    // The files of task t: reads[read_offsets[t]] up to reads[read_offsets[t + 1]].
    std::vector<std::size_t> read_offsets;
    std::vector<FileId> reads;
    std::vector<std::size_t> write_offsets;
    std::vector<FileId> writes;

    // Whether tasks read or write any.
    [[nodiscard]] bool is_used() const { return !reads.empty() || !writes.empty(); }
    // Tasks that were added in a run have no files.
    [[nodiscard]] std::span<const FileId> read_by(TaskId task) const {
        return rows(read_offsets, reads, task);
    }
    [[nodiscard]] std::span<const FileId> written_by(TaskId task) const {
        return rows(write_offsets, writes, task);
    }

  private:
    static std::span<const FileId> rows(const std::vector<std::size_t>& offsets,
                                        const std::vector<FileId>& all, TaskId task) {
        if (std::size_t{task} + 1 >= offsets.size()) return {};
        return std::span(all).subspan(offsets[task], offsets[task + 1] - offsets[task]);
    }
};

}  // namespace twinloop
