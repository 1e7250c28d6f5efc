#include "caches.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace twinloop::burn {

namespace {

// The first word of a system file; empty if it cannot be read.
std::string word_of(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return {};
    char word[64] = "";
    const bool found = std::fscanf(file, "%63s", word) == 1;
    std::fclose(file);
    return found ? word : "";
}

// Converts sizes such as 512K or 32M to bytes.
std::size_t bytes_of(const std::string& text) {
    char* end = nullptr;
    const std::size_t figure = std::strtoul(text.c_str(), &end, 10);
    if (*end == 'K') return figure << 10U;
    if (*end == 'M') return figure << 20U;
    return figure;
}

std::size_t asked_for(int level) {
    long found = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    if (level == 2) found = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (level == 3) found = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    (void)level;
    return found > 0 ? static_cast<std::size_t>(found) : 0;
}

}  // namespace

std::size_t cache_bytes(int level) {
    for (int index = 0; index < 8; ++index) {
        const std::string folder =
            "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
        if (word_of(folder + "level") != std::to_string(level)) continue;
        if (word_of(folder + "type") == "Instruction") continue;
        if (const std::size_t found = bytes_of(word_of(folder + "size")); found > 0) return found;
    }
    return asked_for(level);
}

std::size_t last_cache_bytes() {
    for (int level = 4; level > 0; --level) {
        if (const std::size_t found = cache_bytes(level); found > 0) return found;
    }
    return 0;
}

}  // namespace twinloop::burn
