// Memory that grows by `realloc`: where the system can remap pages, a column of gigabytes grows
// without a copy, and reserved but unwritten pages use no memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace twinloop::io {

class Bytes {
  public:
    Bytes() = default;
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    Bytes(Bytes&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    Bytes& operator=(Bytes&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Bytes() { std::free(data_); }

    template <class T>
    void push(T value) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (capacity_ - size_ < sizeof value) grow(sizeof value);
        std::memcpy(data_ + size_, &value, sizeof value);
        size_ += sizeof value;
    }
    void append(std::string_view text) {
        if (text.empty()) return;
        if (capacity_ - size_ < text.size()) grow(text.size());
        std::memcpy(data_ + size_, text.data(), text.size());
        size_ += text.size();
    }
    void append(std::size_t count, unsigned char value) {
        if (count == 0) return;
        if (capacity_ - size_ < count) grow(count);
        std::memset(data_ + size_, value, count);
        size_ += count;
    }
    // Zero-filled memory; large blocks use no physical memory until written.
    static Bytes zeros(std::size_t count) {
        Bytes bytes;
        if (count == 0) return bytes;
        bytes.data_ = static_cast<char*>(std::calloc(count, 1));
        if (!bytes.data_) throw std::bad_alloc();
        bytes.size_ = bytes.capacity_ = count;
        return bytes;
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] char& back() { return data_[size_ - 1]; }
    // Never null, even if empty, as readers of Arrow buffers expect.
    [[nodiscard]] const void* data() const {
        return data_ ? static_cast<const void*>(data_) : &nothing;
    }

  private:
    void grow(std::size_t more) {
        std::size_t wanted = capacity_ < 4096 ? 4096 : 2 * capacity_;
        if (wanted - size_ < more) wanted = size_ + more;
        void* moved = std::realloc(data_, wanted);
        if (!moved) throw std::bad_alloc();
        data_ = static_cast<char*>(moved);
        capacity_ = wanted;
    }

    static constexpr double nothing = 0.0;
    char* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace twinloop::io
