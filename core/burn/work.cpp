#include "work.hpp"

#include <stdexcept>

namespace twinloop::burn {

std::optional<Kind> kind_of(std::string_view name) {
    for (std::size_t at = 0; at < kind_names.size(); ++at) {
        if (kind_names[at] == name) return static_cast<Kind>(at);
    }
    return std::nullopt;
}

std::unique_ptr<Work> work_of(Kind kind, std::uint64_t seed) {
    switch (kind) {
        case Kind::cpu:
            return cpu_work(seed);
        case Kind::memory:
            return memory_work(seed);
        case Kind::stream:
            return stream_work(seed);
        case Kind::cache:
            return cache_work(seed);
        case Kind::sleep:
            return sleep_work();
        case Kind::io:
            return io_work(seed);
        case Kind::mixed:
            break;
    }
    throw std::logic_error("mixed work consists of other kinds");
}

}  // namespace twinloop::burn
