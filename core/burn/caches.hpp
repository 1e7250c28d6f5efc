// Sizes of the CPU caches.
#pragma once

#include <cstddef>

namespace twinloop::burn {

// Size of the data cache of this level in bytes; 0 if unknown.
std::size_t cache_bytes(int level);

// Size of the last-level cache in bytes.
std::size_t last_cache_bytes();

}  // namespace twinloop::burn
