#include "record/logs.hpp"

namespace twinloop {

void StateLog::begin(MachineId machine, Kind which, double now) {
    auto& open = open_[static_cast<std::size_t>(which)];
    if (machine >= open.size()) open.resize(machine + 1);
    open[machine] = size();
    push_back({machine, static_cast<std::uint8_t>(which), now, unknown});
}

void StateLog::end(MachineId machine, Kind which, double now) {
    edit(open_[static_cast<std::size_t>(which)][machine]).finish = now;
}

}  // namespace twinloop
