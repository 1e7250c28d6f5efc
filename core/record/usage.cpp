#include "record/usage.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "record/windows.hpp"

namespace twinloop {

std::size_t UsageLog::open(TaskId task, std::span<const Part> parts, double now) {
    const std::size_t first = rows_.size();
    for (const Part& part : parts)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            rows_.push_back({task, m, now, never, {}});
    return first;
}

// Adds windows up to that time; false if there would be too many.
bool UsageLog::grow(Row& row, double until) {
    if (full_) return false;
    const double wanted = std::ceil((until - row.start) / step_);
    const double more = wanted - static_cast<double>(row.cpu.size());
    if (more <= 0) return true;
    full_ = total_ + more > most_;
    if (full_) return false;
    total_ += more;
    row.cpu.resize(static_cast<std::size_t>(wanted), 0.0);
    return true;
}

void UsageLog::add(std::size_t row, double rate, double since, double now) {
    Row& mine = rows_[row];
    if (!grow(mine, now)) return;
    constexpr auto no_last = std::numeric_limits<std::size_t>::max();
    spread(mine.start, step_, no_last, since, now, [&](std::size_t window, double seconds) {
        if (window >= mine.cpu.size()) mine.cpu.resize(window + 1, 0.0);
        mine.cpu[window] += rate * seconds;
    });
}

void UsageLog::close(std::size_t first, std::span<const Part> parts, double now) {
    std::size_t row = first;
    for (const Part& part : parts)
        for (std::uint32_t i = 0; i < part.count; ++i, ++row) {
            Row& mine = rows_[row];
            mine.end = now;
            if (!grow(mine, now)) return;
            const std::size_t count = windows_in(now - mine.start, step_);
            if (count > 0 && mine.cpu.size() > count)
                mine.cpu[count - 1] = std::accumulate(
                    mine.cpu.begin() + static_cast<std::ptrdiff_t>(count - 1), mine.cpu.end(), 0.0);
            mine.cpu.resize(count, 0.0);
        }
}

}  // namespace twinloop
