#include "record/logs.hpp"

namespace twinloop {

void PlacementLog::add(TaskId id, std::uint32_t number, std::span<const Part> parts, double from,
                       double until, Reason why) {
    for (const Part& part : parts) {
        task.push_back(id);
        attempt.push_back(number);
        machine.push_back(part.machine);
        count.push_back(part.count);
        cores.push_back(part.cores);
        start.push_back(from);
        end.push_back(until);
        reason.push_back(static_cast<std::uint8_t>(why));
    }
}

void StateLog::begin(MachineId id, Kind which, double now) {
    auto& open = open_[static_cast<std::size_t>(which)];
    if (id >= open.size()) open.resize(id + 1);
    open[id] = machine.size();
    machine.push_back(id);
    start.push_back(now);
    finish.push_back(unknown);
    kind.push_back(static_cast<std::uint8_t>(which));
}

void StateLog::end(MachineId id, Kind which, double now) {
    finish[open_[static_cast<std::size_t>(which)][id]] = now;
}

}  // namespace twinloop
