#include "record/logs.hpp"

namespace twinloop {

void StateLog::begin(MachineId machine, StateId which, double now) {
    auto& open = open_[which == down ? 0 : 1];
    if (machine >= open.size()) open.resize(machine + 1);
    open[machine] = size();
    push_back({machine, which, now, unknown});
}

void StateLog::end(MachineId machine, StateId which, double now) {
    edit(open_[which == down ? 0 : 1][machine]).finish = now;
}

}  // namespace twinloop
