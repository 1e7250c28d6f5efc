#include "control/space.hpp"

#include <algorithm>
#include <cmath>

namespace twinloop {

Space::Space(std::span<const MachineSpec> machines, std::size_t resources,
             std::vector<double> amounts)
    : size_(machines.size()), amounts_(std::move(amounts)), resources_(resources),
      index_(machines.size()) {
    plain_ = resources_ == 0 && std::ranges::none_of(machines, [](const MachineSpec& each) {
                 return std::isfinite(each.memory);
             });
    single_ = plain_ && std::ranges::all_of(
                            machines, [](const MachineSpec& each) { return each.cores == 1; });
    if (single_) {
        total_.add(static_cast<double>(size_));
        index_.set_range(0, static_cast<std::uint32_t>(size_), true);
        return;
    }
    occupants_.assign(size_, 0);
    open_.assign(size_, 1);
    cores_.reserve(size_);
    memory_.reserve(size_);
    for (const MachineSpec& each : machines) {
        cores_.push_back(each.cores);
        memory_.push_back(each.memory);
        total_.add(each.cores);
    }
    sizes_ = cores_;
    for (MachineId m = 0; m < size_; ++m) refresh(m);
}

// From now on the state is in the vectors.
void Space::expand() {
    if (!single_) return;
    single_ = false;
    cores_.resize(size_);
    occupants_.resize(size_);
    for (MachineId m = 0; m < size_; ++m) {
        cores_[m] = index_.test(m) ? 1.0 : 0.0;
        occupants_[m] = index_.test(m) ? 0 : 1;
    }
    sizes_.assign(size_, 1.0);
    memory_.assign(size_, never);
    open_.assign(size_, 1);
}

void Space::add(const MachineSpec& spec, std::span<const double> amounts) {
    expand();
    cores_.push_back(spec.cores);
    sizes_.push_back(spec.cores);
    memory_.push_back(spec.memory);
    amounts_.insert(amounts_.end(), amounts.begin(), amounts.end());
    occupants_.push_back(0);
    open_.push_back(1);
    total_.add(spec.cores);
    if (std::isfinite(spec.memory)) plain_ = false;
    index_.resize(++size_);
    refresh(static_cast<MachineId>(size_ - 1));
}

void Space::set_open(MachineId machine, bool open) {
    expand();
    if ((open_[machine] != 0) == open) return;
    open_[machine] = open ? 1 : 0;
    open ? --shut_ : ++shut_;
    const double free = std::max(0.0, cores_[machine]);
    total_.add(open ? free : -free);
    refresh(machine);
}

void Space::replace(MachineId machine, const MachineSpec& spec) {
    expand();
    cores_[machine] = sizes_[machine] = spec.cores;
    memory_[machine] = spec.memory;
    if (std::isfinite(spec.memory)) plain_ = false;
}

void Space::resize(MachineId machine, double more_cores) {
    expand();
    const double before = cores_[machine];
    cores_[machine] += more_cores;
    sizes_[machine] += more_cores;
    recount(machine, before);
    refresh(machine);
}

void Space::copy_machine(const Space& other, MachineId machine) {
    expand();
    const double before = cores_[machine];
    cores_[machine] = other.cores(machine);
    sizes_[machine] = other.single_ ? 1.0 : other.sizes_[machine];
    memory_[machine] = other.memory(machine);
    occupants_[machine] = other.occupants(machine);
    for (std::size_t r = 0; r < resources_; ++r)
        amounts_[machine * resources_ + r] = other.amount(machine, r);
    recount(machine, before);
    refresh(machine);
}

// The first free machines; as many as there are cores.
bool Space::find_singles(double cores, std::vector<Part>& parts) const {
    parts.clear();
    if (total_.value() < cores) return false;
    auto missing = static_cast<std::uint32_t>(cores);
    for (MachineId first = index_.next(0);; first = index_.next(first)) {
        const MachineId end = index_.end_of_run(first);
        const std::uint32_t count = std::min(missing, end - first);
        parts.push_back({first, count, 1.0});
        missing -= count;
        if (missing == 0) return true;
        first = end;
    }
}

// Moves parts while their machines are all free before and taken after, or the reverse; returns the
// others.
std::span<const Part> Space::move_singles(std::span<const Part> parts, bool taken) {
    std::uint32_t count = 0;
    auto part = parts.begin();
    for (; part != parts.end(); ++part) {
        if (part->cores != 1 || !index_.flip_range(part->machine, part->count, !taken)) break;
        count += part->count;
    }
    total_.add(taken ? -static_cast<double>(count) : static_cast<double>(count));
    return {part, parts.end()};
}

void Space::move(const Needs& needs, std::span<const Part> parts, double sign) {
    if (single_) {
        parts = move_singles(parts, sign < 0);
        if (parts.empty()) return;
        expand();
    }
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
            occupants_[m] += sign < 0 ? 1U : ~0U;
            // Fractions leave a rounding error, which ends with the last task.
            cores_[m] = occupants_[m] == 0 ? sizes_[m] : cores_[m] + cores;
            if (!whole) settle(m);
            recount(m, before);
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
    // Sums of whole numbers are exact.
    if (before < 0 || after < 0 || before != std::floor(before)) return false;
    for (MachineId m = part.machine + 1; m < last; ++m)
        if (cores_[m] != before) return false;
    const std::uint32_t more = taken ? 1U : ~0U;
    for (MachineId m = part.machine; m < last; ++m) {
        cores_[m] = after;
        occupants_[m] += more;
    }
    total_.add(cores * part.count);
    const bool free = after > slack;
    if (free == (before > slack)) return true;
    if (part.count == 1) {
        index_.set(part.machine, free);
    } else {
        index_.set_range(part.machine, part.count, free);
    }
    return true;
}

// What was taken in fractions comes back as a whole number of cores.
void Space::settle(MachineId machine) {
    const double near = std::round(cores_[machine]);
    if (std::abs(cores_[machine] - near) < slack) cores_[machine] = near;
}

bool Space::holds(MachineId machine, double cores, double memory, std::span<const double> amounts,
                  double share) const {
    if (!open(machine) || (cores > 0 && this->cores(machine) < cores - slack)) return false;
    if (plain_) return true;
    if (memory > 0 && memory_[machine] < memory * (1 - slack)) return false;
    for (std::size_t r = 0; r < amounts.size(); ++r)
        if (amounts[r] > 0 && amount(machine, r) < amounts[r] * share - slack) return false;
    return true;
}

double Space::offer(const Needs& needs, double cores, double memory,
                    std::span<const double> amounts) {
    double offered = cores;
    const bool whole = needs.cores == std::floor(needs.cores);
    const auto limit = [&](double free, double needed) {
        if (needed <= 0) return;
        // `needed` goes with all the cores of the task, so this machine can carry a share of them.
        double share = (free + slack * needed) / needed * needs.cores;
        if (whole) share = std::floor(share + slack);
        offered = std::min(offered, share);
    };
    limit(memory, needs.memory);
    for (std::size_t r = 0; r < needs.amounts.size(); ++r) limit(amounts[r], needs.amounts[r]);
    return offered;
}

}  // namespace twinloop
