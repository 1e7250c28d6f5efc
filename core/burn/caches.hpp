// How large the caches of this machine are.
#pragma once

#include <cstddef>

namespace twinloop::burn {

// Bytes of the cache of this level that data goes through; 0 where the system does not say.
std::size_t cache_bytes(int level);

// Bytes of the last one.
std::size_t last_cache_bytes();

}  // namespace twinloop::burn
