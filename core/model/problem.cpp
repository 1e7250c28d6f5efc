#include "model/problem.hpp"

#include <algorithm>

namespace twinloop {

void Problem::complete() {
    length.resize(size());
    for (TaskId task = 0; task < size(); ++task) length[task] = length_of(task);
    even = std::ranges::all_of(
        machines, [&](const MachineSpec& each) { return each.speed == machines.front().speed; });
}

double Problem::length_of(TaskId task) const {
    if (!varies(task)) return work[task] > 0 ? work[task] / limit[task] : 0.0;
    double total = 0.0;
    for (std::uint32_t i = fragment_offsets[task]; i < fragment_offsets[task + 1]; ++i)
        total += fragment_duration[i];
    return total;
}

}  // namespace twinloop
