#include "host/counters.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cmath>

namespace twinloop {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 3> events{{
    {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
    {"cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"cache_misses", PERF_COUNT_HW_CACHE_MISSES},
}};

}  // namespace

std::vector<std::pair<std::string_view, int>> open_counters(pid_t process) {
    std::vector<std::pair<std::string_view, int>> found;
    for (const auto& [name, event] : events) {
        perf_event_attr wanted{};
        wanted.size = sizeof wanted;
        wanted.type = PERF_TYPE_HARDWARE;
        wanted.config = event;
        wanted.inherit = 1;
        wanted.exclude_kernel = 1;  // unprivileged users may count user mode only
        wanted.exclude_hv = 1;
        wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        const auto file = static_cast<int>(
            ::syscall(SYS_perf_event_open, &wanted, process, -1, -1, PERF_FLAG_FD_CLOEXEC));
        if (file >= 0) found.emplace_back(name, file);
    }
    return found;
}

std::optional<std::int64_t> read_counter(int counter) {
    struct {
        std::uint64_t count = 0, enabled = 0, running = 0;
    } read{};
    if (::read(counter, &read, sizeof read) != sizeof read || read.running == 0) return {};
    const double scale = static_cast<double>(read.enabled) / static_cast<double>(read.running);
    return std::llround(static_cast<double>(read.count) * scale);
}

}  // namespace twinloop
