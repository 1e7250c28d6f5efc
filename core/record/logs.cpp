#include "record/logs.hpp"

#include <cmath>

namespace twinloop {

void StateLog::begin(MachineId machine, StateId which, double now) {
    if (machine >= open_.size()) open_.resize(machine + std::size_t{1});
    open_[machine] = size();
    push_back({machine, which, now, unknown});
}

void StateLog::end(MachineId machine, double now) { edit(open_[machine]).finish = now; }

void StateLog::forget() {
    std::vector<StateRow> open;
    each([&](const StateRow& row) {
        if (std::isnan(row.finish)) open.push_back(row);
    });
    clear();
    for (const StateRow& row : open) {
        open_[row.machine] = size();
        push_back(row);
    }
}

void InstanceLog::begin(MachineId instance, MachineId host, double cores, double memory,
                        double now) {
    if (instance >= open_.size()) open_.resize(instance + std::size_t{1});
    open_[instance] = size();
    push_back({instance, host, cores, memory, now, unknown, InstanceEnd::none});
}

void InstanceLog::end(MachineId instance, InstanceEnd reason, double now) {
    InstanceRow& row = edit(open_[instance]);
    row.finish = now;
    row.reason = reason;
}

void InstanceLog::forget() {
    std::vector<InstanceRow> open;
    each([&](const InstanceRow& row) {
        if (row.reason == InstanceEnd::none) open.push_back(row);
    });
    clear();
    for (const InstanceRow& row : open) {
        open_[row.instance] = size();
        push_back(row);
    }
}

}  // namespace twinloop
