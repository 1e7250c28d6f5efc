// Tasks that share machines: each part of a task is an activity of the kernel, and a machine is a
// resource. A task goes on when the last of its parts has ended.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernel/simulation.hpp"
#include "model/meter.hpp"
#include "model/problem.hpp"

namespace twinloop {

class Sharing final : public Client {
  public:
    // `metered`: somebody wants to know what machines are used for; `listed`: by whom. Otherwise
    // nobody is told.
    Sharing(std::shared_ptr<const ContentionRule> rule, std::span<const double> capacities,
            double now, bool metered, bool listed);
    Sharing(const Sharing& other);
    Sharing(Sharing&&) = delete;
    Sharing& operator=(const Sharing&) = delete;
    Sharing& operator=(Sharing&&) = delete;
    ~Sharing() override = default;

    // `slot` names the task. The work and the limit of a part follow its share of the cores.
    void start(std::uint32_t slot, std::span<const Part> parts, double cores, double work,
               double limit, Kind kind);
    void stop(std::uint32_t slot);
    void set_capacity(MachineId machine, double capacity, double now);

    [[nodiscard]] double next_time() { return kernel_.next_time(); }
    // All that is due; the slots whose parts have all ended are added to `finished`.
    void advance(double now, std::vector<std::uint32_t>& finished);
    // Brings the meters of the machines whose use has changed up to now, and says which; before,
    // what each part there has drawn since when: `drew(slot, place among its parts, rate, since)`.
    template <class Note, class Drew>
    void update(std::vector<Meter>& meters, double now, Note&& note, Drew&& drew) {
        for (const MachineId machine : dirty_) {
            changed_[machine] = 0;
            Meter& meter = meters[machine];
            meter.advance(now);
            if (listed_) {
                for (const Draw& draw : draws_[machine])
                    if (draw.mark != never) drew(draw.slot, draw.place, draw.rate, draw.since);
                charge(machine, meter.charge, now);
            }
            meter.used.clear();
            meter.used.add(kernel_.rate(static_cast<ResourceId>(machine)));
            note(machine);
        }
        dirty_.clear();
    }
    // Work done by what a slot has started last, and the energy charged to it since then.
    [[nodiscard]] double done(std::uint32_t slot) const;
    [[nodiscard]] double take_energy(std::uint32_t slot);
    // Energy charged to it that was not taken, given the charge of each machine.
    template <class Charge>
    [[nodiscard]] double energy(std::uint32_t slot, Charge&& charge) const {
        if (slot >= tasks_.size()) return 0.0;
        double total = tasks_[slot].energy;
        for (const Share& share : tasks_[slot].shares)
            for (const Draw& draw : draws_[share.machine])
                if (draw.slot == slot && draw.mark != never)
                    total += draw.rate * (charge(share.machine) - draw.mark);
        return total;
    }
    // Capacity taken by parts of it that have ended since this was last asked.
    [[nodiscard]] double take_used(std::uint32_t slot);

    void fired(std::uint64_t, bool) override {}
    void dropped(std::uint64_t) override {}
    double feed(std::uint64_t) override { return never; }
    void ended(std::uint64_t token, Ending how, const Final& figures) override;

  private:
    // A part of a task.
    struct Share {
        MachineId machine = 0;
        ActivityId activity;
        double limit = 0.0;
    };
    // What such a part draws, and is charged for if its machine has a power model.
    struct Draw {
        std::uint32_t slot = 0;
        std::uint32_t place = 0;  // among the parts of the task
        ActivityId activity;
        double limit = 0.0;
        double weight = 1.0;
        double rate = 0.0;
        double since = 0.0;
        double mark = never;  // of the meter's charge
    };
    struct Task {
        std::vector<Share> shares;
        std::uint32_t left = 0;
        double done = 0.0;  // by parts that have ended
        double energy = 0.0;
        double used = 0.0;
    };
    class Crowding;

    void make_rules();
    void charge(MachineId machine, double charge, double now);
    void touch(MachineId machine);
    [[nodiscard]] double load(MachineId machine) const {
        return asked_[machine].value() / capacities_[machine];
    }

    std::shared_ptr<const ContentionRule> rule_;
    Simulation kernel_;
    std::vector<double> capacities_;
    std::vector<Sum> asked_;                // the limits of all that is on a machine
    std::vector<std::vector<Draw>> draws_;  // by machine, until those that are over are charged
    std::vector<Task> tasks_;
    bool metered_;
    bool listed_;
    std::vector<MachineId> dirty_;       // whose use has changed
    std::vector<std::uint8_t> changed_;  // by machine: is it among these?
    std::vector<std::uint32_t> done_slots_;
};

}  // namespace twinloop
