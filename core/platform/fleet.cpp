#include "platform/fleet.hpp"

#include <algorithm>
#include <utility>

namespace twinloop {

MachineId Fleet::add(const MachineSpec& spec, double speed_factor,
                     std::shared_ptr<const PowerModel> power, double now) {
    const auto id = static_cast<MachineId>(machines_.size());
    Machine& machine = machines_.emplace_back();
    machine.speed = spec.speed * speed_factor;
    machine.capacity = spec.cores * machine.speed;
    if (id > 0 && machine.speed != slowest_) equally_fast_ = false;
    slowest_ = std::min(slowest_, machine.speed);
    metered_ = metered_ || power != nullptr;
    Meter& meter = meters_.emplace_back();
    meter.power = power.get();
    meter.capacity = machine.capacity;
    meter.since = now;
    machine.power = std::move(power);
    return id;
}

MachineId Fleet::add_instance(MachineId host, double cores) {
    Machine instance;
    instance.is_instance = true;
    instance.speed = machines_[host].speed;
    instance.capacity = cores * instance.speed;
    machines_.push_back(std::move(instance));
    meters_.emplace_back();
    return static_cast<MachineId>(machines_.size() - 1);
}

void Fleet::open_rented(MachineId instance) {
    if (instance == machines_.size()) {
        machines_.emplace_back();
        meters_.emplace_back();
    } else {
        machines_[instance] = {};
    }
    machines_[instance].is_instance = true;
    for (auto next = static_cast<MachineId>(metered_by_.size()); next < machines_.size(); ++next)
        metered_by_.push_back(next);
}

void Fleet::set_host(MachineId instance, MachineId host, double cores) {
    Machine& mine = machines_[instance];
    mine.speed = machines_[host].speed;
    mine.capacity = cores * mine.speed;
    metered_by_[instance] = host;
}

double Fleet::find_slowest(std::span<const Part> parts) const {
    double speed = never;
    for (const Part& part : parts)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            speed = std::min(speed, machines_[m].speed);
    return speed;
}

}  // namespace twinloop
