// Rows of a run that are shared with its copies: an array in chunks, and a chunk that several
// arrays hold is copied before it is written. A copy thus costs a pointer per chunk; rows that no
// run writes any more, such as those of finished tasks, stay in one place for all.
//
// Chunks are counted in nodes of many chunks each, so that a copy counts a node, not each chunk.
// Rows that are made together lie in one block of memory, as in a vector: memory in small pieces
// would be returned to the system after each run, and its pages requested again by the next one.
//
// There are two tables of pointers: to read, and to write, where a chunk that may be shared has no
// pointer. Before the first copy they are one table, there are no nodes, and nothing is counted.
//
// Copies may be used and destroyed on other threads. To copy an array is to change it: no other
// thread may use it at that time, except that an empty array may be copied by several.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace twinloop {

template <class Row>
class SharedRows {
    static_assert(std::is_trivially_copyable_v<Row> && std::is_trivially_destructible_v<Row>);

  public:
    // Small enough to be copied for one row, and so large that a million rows are few chunks.
    static constexpr std::size_t chunk_rows = std::bit_floor(std::size_t{32768} / sizeof(Row));

    SharedRows() = default;
    explicit SharedRows(std::size_t size, const Row& value = {}) { resize(size, value); }
    SharedRows(const SharedRows& other) : size_(other.size_) {
        if (size_ == 0) return;
        other.share();  // NOLINT(bugprone-copy-constructor-mutates-argument): not its rows
        nodes_ = other.nodes_;
        for (Node* const node : nodes_) hold(node->holders);
        table_ = other.table_;
        writable_ = other.writable_;
        set_tables();
        tail_ = tail_end_ = other.tail_;
    }
    SharedRows(SharedRows&& other) noexcept { swap(other); }
    SharedRows& operator=(SharedRows other) noexcept {
        swap(other);
        return *this;
    }
    ~SharedRows() { release_all(); }

    void swap(SharedRows& other) noexcept {
        std::swap(size_, other.size_);
        table_.swap(other.table_);
        writable_.swap(other.writable_);
        nodes_.swap(other.nodes_);
        std::swap(read_, other.read_);
        std::swap(write_, other.write_);
        std::swap(tail_, other.tail_);
        std::swap(tail_end_, other.tail_end_);
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    // Valid until the next change of the array: that may move the row.
    [[nodiscard]] const Row& operator[](std::size_t at) const {
        return read_[at / chunk_rows][at % chunk_rows];
    }
    // The row, to be written. Valid until the array is copied or rows are added.
    [[nodiscard, gnu::always_inline]] Row& edit(std::size_t at) {
        Row* chunk = write_[at / chunk_rows];
        if (chunk == nullptr) [[unlikely]]
            chunk = own(at / chunk_rows);
        return chunk[at % chunk_rows];
    }
    Row& push_back(const Row& row) {
        if (tail_ == tail_end_) [[unlikely]]
            grow();
        ++size_;
        return *::new (static_cast<void*>(tail_++)) Row(row);
    }
    // Adds rows up to that size.
    void resize(std::size_t size, const Row& value = {}) {
        if (size > size_) reserve_chunk(size - size_);
        while (size_ < size) {
            if (size_ % chunk_rows == 0 && size - size_ > chunk_rows) {
                add_block(size - size_, value);
                return;
            }
            if (tail_ == tail_end_) grow(size - size_);
            const std::size_t count =
                std::min(size - size_, static_cast<std::size_t>(tail_end_ - tail_));
            tail_ = std::uninitialized_fill_n(tail_, count, value);
            size_ += count;
        }
    }
    void clear() {
        SharedRows none;
        swap(none);
    }

    template <class Visit>
    void each(Visit&& visit) const {
        for (std::size_t at = 0; at < size_; ++at) visit((*this)[at]);
    }

  private:
    static constexpr std::size_t alignment = std::max(alignof(std::max_align_t), alignof(Row));
    // Stands before the chunks of a block.
    struct alignas(alignment) Block {
        std::atomic<std::uint32_t> chunks;  // in use
    };
    // Stands before the rows of a chunk.
    struct alignas(alignment) Header {
        std::atomic<std::uint32_t> holders{1};
        std::uint32_t capacity;
        Block* block = nullptr;  // that it is part of
    };
    static constexpr std::size_t chunk_bytes = sizeof(Header) + chunk_rows * sizeof(Row);
    static_assert(chunk_bytes % alignof(Header) == 0);
    static constexpr std::size_t node_chunks = 64;
    struct Node {
        std::atomic<std::uint32_t> holders{1};
        std::array<Row*, node_chunks> chunks{};
    };

    static void* new_bytes(std::size_t bytes) {
        if constexpr (alignment > alignof(std::max_align_t)) {
            return ::operator new(bytes, std::align_val_t(alignment));
        } else {
            return ::operator new(bytes);
        }
    }
    static void delete_bytes(void* memory) {
        if constexpr (alignment > alignof(std::max_align_t)) {
            ::operator delete(memory, std::align_val_t(alignment));
        } else {
            ::operator delete(memory);
        }
    }
    static Row* make_chunk(void* memory, std::size_t rows, Block* block) {
        return reinterpret_cast<Row*>(
            ::new (memory) Header{.capacity = static_cast<std::uint32_t>(rows), .block = block} +
            1);
    }
    static Row* allocate(std::size_t rows) {
        return make_chunk(new_bytes(sizeof(Header) + rows * sizeof(Row)), rows, nullptr);
    }
    static Header& header(Row* chunk) { return reinterpret_cast<Header*>(chunk)[-1]; }
    static void hold(std::atomic<std::uint32_t>& holders) {
        holders.fetch_add(1, std::memory_order_relaxed);
    }
    static bool leave(std::atomic<std::uint32_t>& holders) {
        // Without an atomic change for the last holder: no other can come.
        return holders.load(std::memory_order_acquire) == 1 ||
               holders.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    static void release(Row* chunk) {
        if (chunk == nullptr || !leave(header(chunk).holders)) return;
        Block* const block = header(chunk).block;
        header(chunk).~Header();
        if (block == nullptr) {
            delete_bytes(&header(chunk));
        } else if (leave(block->chunks)) {
            block->~Block();
            delete_bytes(block);
        }
    }
    static void release(Node* node) {
        if (!leave(node->holders)) return;
        for (Row* const chunk : node->chunks) release(chunk);
        delete node;
    }
    void release_all() {
        if (nodes_.empty()) {
            for (Row* const chunk : table_) release(chunk);
        } else {
            for (Node* const node : nodes_) release(node);
        }
    }

    void set_tables() {
        read_ = table_.data();
        write_ = nodes_.empty() ? read_ : writable_.data();
    }

    // Prepares a copy: from now on, no chunk may be written before `own`.
    void share() const {
        if (nodes_.empty()) {
            for (std::size_t first = 0; first < table_.size(); first += node_chunks) {
                auto* const node = nodes_.emplace_back(new Node);
                const std::size_t count = std::min(node_chunks, table_.size() - first);
                std::copy_n(table_.data() + first, count, node->chunks.data());
            }
        }
        writable_.assign(table_.size(), nullptr);
        write_ = writable_.data();
        tail_end_ = tail_;
    }

    // Makes this array the only holder of a node and of a chunk.
    Node& own_node(std::size_t at) {
        Node*& node = nodes_[at];
        if (node->holders.load(std::memory_order_acquire) > 1) {
            auto* const mine = new Node;
            mine->chunks = node->chunks;
            for (Row* const chunk : mine->chunks)
                if (chunk != nullptr) hold(header(chunk).holders);
            release(std::exchange(node, mine));
        }
        return *node;
    }
    [[gnu::cold, gnu::noinline]] Row* own(std::size_t at) {
        Node& node = own_node(at / node_chunks);
        Row*& chunk = node.chunks[at % node_chunks];
        if (header(chunk).holders.load(std::memory_order_acquire) > 1) {
            const std::size_t rows = std::min(chunk_rows, size_ - at * chunk_rows);
            Row* const mine = allocate(chunk_rows);
            std::uninitialized_copy_n(chunk, rows, mine);
            release(std::exchange(chunk, mine));
            table_[at] = mine;
            if (rows < chunk_rows) set_tail(mine, rows);
        }
        return writable_[at] = chunk;
    }

    // Makes room at the end for at least one row, and for that many if they fit into a chunk.
    [[gnu::noinline]] void grow(std::size_t wanted = 1) {
        const std::size_t used = size_ % chunk_rows;
        if (used == 0) {
            // The first chunk begins small.
            add_chunk(allocate(size_ == 0 ? std::clamp<std::size_t>(wanted, 16, chunk_rows)
                                          : chunk_rows));
            return;
        }
        const std::size_t at = size_ / chunk_rows;
        if (!nodes_.empty()) own(at);
        Row* const before = table_[at];
        const std::size_t capacity = header(before).capacity;
        if (capacity == used) {
            Row* const mine = allocate(std::min(chunk_rows, std::max(2 * used, used + wanted)));
            std::uninitialized_copy_n(before, used, mine);
            table_[at] = mine;
            if (!nodes_.empty()) {
                nodes_[at / node_chunks]->chunks[at % node_chunks] = mine;
                writable_[at] = mine;
            }
            release(before);
        }
        set_tail(table_[at], used);
    }
    void set_tail(Row* chunk, std::size_t used) {
        tail_ = chunk + used;
        tail_end_ = chunk + header(chunk).capacity;
    }
    // Adds rows in a block of new chunks.
    void add_block(std::size_t rows, const Row& value) {
        const std::size_t chunks = (rows + chunk_rows - 1) / chunk_rows;
        const std::size_t bytes = sizeof(Block) + chunks * sizeof(Header) + rows * sizeof(Row);
        auto* const memory = static_cast<std::byte*>(new_bytes(bytes));
        auto* const block = ::new (memory) Block{static_cast<std::uint32_t>(chunks)};
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
            const std::size_t count = std::min(chunk_rows, rows - chunk * chunk_rows);
            add_chunk(make_chunk(memory + sizeof(Block) + chunk * chunk_bytes, count, block));
            tail_ = std::uninitialized_fill_n(tail_, count, value);
            size_ += count;
        }
    }
    void add_chunk(Row* chunk) {
        const std::size_t at = table_.size();
        table_.push_back(chunk);
        if (!nodes_.empty()) {
            if (at % node_chunks == 0) nodes_.push_back(new Node);
            own_node(at / node_chunks).chunks[at % node_chunks] = chunk;
            writable_.push_back(chunk);
        }
        set_tables();
        set_tail(chunk, 0);
    }
    void reserve_chunk(std::size_t more) {
        table_.reserve((size_ + more + chunk_rows - 1) / chunk_rows);
    }

    std::size_t size_ = 0;
    std::vector<Row*> table_;             // by chunk
    mutable std::vector<Row*> writable_;  // by chunk, if there are nodes
    mutable std::vector<Node*> nodes_;    // empty before the first copy
    Row* const* read_ = nullptr;          // the tables
    mutable Row* const* write_ = nullptr;
    Row* tail_ = nullptr;  // the end of the rows, and of the room for more
    mutable Row* tail_end_ = nullptr;
};

}  // namespace twinloop
