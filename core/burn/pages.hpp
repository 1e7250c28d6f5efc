// Anonymous memory mapping, whose pages are allocated on first access.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace twinloop::burn {

// Uses huge pages where available: a task should not spend its first tenths of a second on page
// faults.
enum class PageSize : std::uint8_t { usual, large };

template <typename Item>
class Pages {
  public:
    explicit Pages(std::size_t count, PageSize size = PageSize::usual) : count_(count) {
        void* found = mmap(nullptr, count * sizeof(Item), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED) throw std::bad_alloc();
        first_ = static_cast<Item*>(found);
#ifdef MADV_HUGEPAGE
        if (size == PageSize::large) madvise(found, count * sizeof(Item), MADV_HUGEPAGE);
#endif
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    Pages(Pages&&) = delete;
    Pages& operator=(Pages&&) = delete;
    ~Pages() { munmap(first_, count_ * sizeof(Item)); }

    Item& operator[](std::size_t at) { return first_[at]; }
    const Item& operator[](std::size_t at) const { return first_[at]; }
    std::size_t size() const { return count_; }

  private:
    Item* first_ = nullptr;
    std::size_t count_;
};

}  // namespace twinloop::burn
