#include "model/space.hpp"

#include <algorithm>
#include <cmath>

namespace twinloop {

Space::Space(std::span<const MachineSpec> machines, std::size_t resources,
             std::vector<double> amounts)
    : amounts_(std::move(amounts)), instances_(machines.size(), 0), open_(machines.size(), 1),
      resources_(resources), index_(machines.size()) {
    cores_.reserve(machines.size());
    memory_.reserve(machines.size());
    for (const MachineSpec& each : machines) {
        cores_.push_back(each.cores);
        memory_.push_back(each.memory);
        total_ += each.cores;
        if (std::isfinite(each.memory)) plain_ = false;
    }
    if (resources_ > 0) plain_ = false;
    for (MachineId m = 0; m < cores_.size(); ++m) refresh(m);
}

void Space::set_open(MachineId machine, bool open) {
    if ((open_[machine] != 0) == open) return;
    open_[machine] = open ? 1 : 0;
    open ? --shut_ : ++shut_;
    const double free = std::max(0.0, cores_[machine]);
    total_ += open ? free : -free;
    refresh(machine);
}

void Space::resize(MachineId machine, double more_cores) {
    const double before = cores_[machine];
    cores_[machine] += more_cores;
    recount(machine, before);
    refresh(machine);
}

void Space::move(const Needs& needs, std::span<const Part> parts, double sign) {
    // What goes with the cores goes in proportion to them; without any, in equal parts.
    double whole_of_it = needs.cores;
    if (!plain_ && needs.cores <= 0) {
        whole_of_it = 0.0;
        for (const Part& part : parts) whole_of_it += part.count;
    }
    for (const Part& part : parts) {
        const double cores = sign * part.cores;
        const bool whole = part.cores == std::floor(part.cores);
        if (plain_ && whole && shut_ == 0 && move_alike(part, cores, sign < 0)) continue;
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            const double before = cores_[m];
            cores_[m] += cores;
            if (!whole) settle(m);
            recount(m, before);
            instances_[m] += sign < 0 ? 1U : ~0U;
            if (!plain_) {
                const double fraction = (needs.cores > 0 ? cores : sign) / whole_of_it;
                memory_[m] += needs.memory * fraction;
                for (std::size_t r = 0; r < needs.amounts.size(); ++r)
                    amounts_[m * resources_ + r] += needs.amounts[r] * fraction;
            }
            refresh(m);
        }
    }
}

// Machines that all had the same free cores, and have: the common case, without looking at each.
bool Space::move_alike(const Part& part, double cores, bool taken) {
    const double before = cores_[part.machine];
    const double after = before + cores;
    const MachineId last = part.machine + part.count;
    if (before < 0 || after < 0) return false;
    for (MachineId m = part.machine + 1; m < last; ++m)
        if (cores_[m] != before) return false;
    const std::uint32_t more = taken ? 1U : ~0U;
    for (MachineId m = part.machine; m < last; ++m) {
        cores_[m] = after;
        instances_[m] += more;
    }
    total_ += cores * part.count;
    const bool free = after > slack;
    if (free != (before > slack)) index_.set_range(part.machine, part.count, free);
    return true;
}

// What was taken in fractions comes back as a whole number of cores.
void Space::settle(MachineId machine) {
    const double near = std::round(cores_[machine]);
    if (std::abs(cores_[machine] - near) < slack) cores_[machine] = near;
}

bool Space::holds(MachineId machine, double cores, double memory, std::span<const double> amounts,
                  double share) const {
    if (open_[machine] == 0 || (cores > 0 && cores_[machine] < cores - slack)) return false;
    if (plain_) return true;
    if (memory > 0 && memory_[machine] < memory * (1 - slack)) return false;
    for (std::size_t r = 0; r < amounts.size(); ++r)
        if (amounts[r] > 0 && amount(machine, r) < amounts[r] * share - slack) return false;
    return true;
}

double Space::offer(MachineId machine, const Needs& needs) const {
    double offered = cores_[machine];
    if (plain_) return offered;
    const bool whole = needs.cores == std::floor(needs.cores);
    const auto limit = [&](double free, double needed) {
        if (needed <= 0) return;
        // `needed` goes with all the cores of the task, so this machine can carry a share of them.
        double cores = (free + slack * needed) / needed * needs.cores;
        if (whole) cores = std::floor(cores + slack);
        offered = std::min(offered, cores);
    };
    limit(memory_[machine], needs.memory);
    for (std::size_t r = 0; r < needs.amounts.size(); ++r)
        limit(amount(machine, r), needs.amounts[r]);
    return offered;
}

}  // namespace twinloop
