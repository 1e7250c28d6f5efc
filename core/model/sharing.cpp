#include "model/sharing.hpp"

#include <algorithm>

namespace twinloop {

// What becomes of the work of those who share a machine, by the rule of the scenario.
class Sharing::Crowding final : public Efficiency {
  public:
    Crowding(const Sharing& owner, MachineId machine) : owner_(owner), machine_(machine) {}

    void evaluate(std::span<KindPresence> present) const override {
        const ContentionRule& rule = *owner_.rule_;
        if (rule.kind == ContentionRule::Kind::kinds) {
            double pressure = 0.0;
            double running = 0.0;
            for (const KindPresence& each : present) {
                pressure += each.running * rule.pressures[each.kind];
                running += each.running;
            }
            // How many of the others one has beside oneself: all, or on average on its core.
            double met = 1.0;
            if (rule.within_core && running > 1)
                met = std::max(0.0, owner_.load(machine_) - 1.0) / (running - 1.0);
            for (KindPresence& each : present) {
                const double others = std::max(0.0, pressure - rule.pressures[each.kind]) * met;
                each.efficiency = 1.0 / (1.0 + rule.sensitivities[each.kind] * others);
            }
            return;
        }
        const double efficiency = 1.0 / inflation(rule, owner_.load(machine_));
        for (KindPresence& each : present) each.efficiency = efficiency;
    }

  private:
    static double inflation(const ContentionRule& rule, double load) {
        if (rule.kind == ContentionRule::Kind::linear)
            return 1.0 + rule.slope * std::max(0.0, load - 1.0);
        const auto next = std::ranges::upper_bound(rule.loads, load);
        if (next == rule.loads.begin()) return rule.inflations.front();
        if (next == rule.loads.end()) return rule.inflations.back();
        const auto i = static_cast<std::size_t>(next - rule.loads.begin());
        const double slope =
            (rule.inflations[i] - rule.inflations[i - 1]) / (rule.loads[i] - rule.loads[i - 1]);
        return rule.inflations[i - 1] + slope * (load - rule.loads[i - 1]);
    }

    const Sharing& owner_;
    MachineId machine_;
};

Sharing::Sharing(std::shared_ptr<const ContentionRule> rule, std::span<const double> capacities,
                 double now, bool metered, bool listed)
    : rule_(std::move(rule)), kernel_(now), capacities_(capacities.begin(), capacities.end()),
      asked_(capacities.size()), draws_(capacities.size()), metered_(metered), listed_(listed),
      changed_(capacities.size(), 0) {
    for (const double capacity : capacities_) kernel_.add_resource(capacity);
    make_rules();
}

Sharing::Sharing(const Sharing& other)
    : rule_(other.rule_), kernel_(other.kernel_), capacities_(other.capacities_),
      asked_(other.asked_), draws_(other.draws_), tasks_(other.tasks_), metered_(other.metered_),
      listed_(other.listed_), dirty_(other.dirty_), changed_(other.changed_),
      done_slots_(other.done_slots_) {
    make_rules();
}

void Sharing::make_rules() {
    kernel_.set_client(this);
    if (rule_->kind == ContentionRule::Kind::none) return;
    for (MachineId m = 0; m < capacities_.size(); ++m)
        kernel_.set_efficiency(m, std::make_shared<Crowding>(*this, m));
}

void Sharing::start(std::uint32_t slot, std::span<const Part> parts, double cores, double work,
                    double limit, Kind kind) {
    if (slot >= tasks_.size()) tasks_.resize(slot + 1);
    Task& task = tasks_[slot];
    task.shares.clear();
    task.done = 0.0;
    task.left = 0;
    for (const Part& part : parts) {
        const double share = part.share_of(cores);
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            ActivitySpec spec;
            spec.work = work * share;
            spec.limit = limit * share;
            spec.weight = part.cores > 0 ? part.cores : 1.0;
            spec.kind = kind;
            spec.start = kernel_.now();
            spec.token = (static_cast<std::uint64_t>(slot) << 32 | task.left) + 1;
            asked_[m].add(spec.limit);
            const ResourceId route[] = {m};
            const ActivityId activity = kernel_.start(spec, route);
            task.shares.push_back({m, activity, spec.limit});
            if (listed_) {
                Draw draw;
                draw.slot = slot;
                draw.place = task.left;
                draw.activity = activity;
                draw.limit = spec.limit;
                draw.weight = spec.weight;
                draws_[m].push_back(draw);
            }
            ++task.left;
            touch(m);
        }
    }
}

void Sharing::stop(std::uint32_t slot) {
    for (const Share& share : tasks_[slot].shares)
        if (kernel_.alive(share.activity)) kernel_.cancel(share.activity);
}

void Sharing::set_capacity(MachineId machine, double capacity, double now) {
    if (kernel_.now() < now) kernel_.run_until(now);
    capacities_[machine] = std::max(capacity, 1e-300);
    kernel_.set_capacity(machine, capacity);
    touch(machine);
}

void Sharing::advance(double now, std::vector<std::uint32_t>& finished) {
    while (kernel_.next_time() <= now) kernel_.step();
    if (kernel_.now() < now) kernel_.run_until(now);
    finished.insert(finished.end(), done_slots_.begin(), done_slots_.end());
    done_slots_.clear();
}

void Sharing::ended(std::uint64_t token, Ending how, const Final& figures) {
    const auto slot = static_cast<std::uint32_t>((token - 1) >> 32);
    Task& task = tasks_[slot];
    const Share& share = task.shares[(token - 1) & 0xffffffffU];
    task.done += figures.done;
    task.used += figures.consumed;
    asked_[share.machine].subtract(share.limit);
    touch(share.machine);
    if (--task.left == 0 && how == Ending::finished) done_slots_.push_back(slot);
}

// Rates on a machine change only with what comes to it, leaves it, or with its capacity.
void Sharing::touch(MachineId machine) {
    if (!metered_ || changed_[machine] != 0) return;
    changed_[machine] = 1;
    dirty_.push_back(machine);
}

// Each is charged its part of the power since its rate last changed, at the rate it had. The level
// is asked for once: to find it, the kernel looks at all who share the machine.
void Sharing::charge(MachineId machine, double charge, double now) {
    std::vector<Draw>& draws = draws_[machine];
    for (const Draw& draw : draws)
        if (draw.mark != never) tasks_[draw.slot].energy += draw.rate * (charge - draw.mark);
    std::erase_if(draws, [&](const Draw& draw) { return !kernel_.alive(draw.activity); });
    const double level = kernel_.level(static_cast<ResourceId>(machine));
    for (Draw& draw : draws) {
        draw.rate = std::min(draw.limit, draw.weight * level);
        draw.since = now;
        draw.mark = charge;
    }
}

double Sharing::done(std::uint32_t slot) const {
    double total = tasks_[slot].done;
    for (const Share& share : tasks_[slot].shares)
        if (kernel_.alive(share.activity)) total += kernel_.work_done(share.activity);
    return total;
}

double Sharing::take_energy(std::uint32_t slot) {
    return slot < tasks_.size() ? std::exchange(tasks_[slot].energy, 0.0) : 0.0;
}

double Sharing::take_used(std::uint32_t slot) {
    return slot < tasks_.size() ? std::exchange(tasks_[slot].used, 0.0) : 0.0;
}

}  // namespace twinloop
