// Moves the instances of lightly loaded hosts to others, so that these hosts can be switched off.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {
namespace {

class Consolidation final : public Controller {
  public:
    explicit Consolidation(const ConsolidationOptions& options) : options_(options) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Consolidation>(*this);
    }
    [[nodiscard]] bool decides_when_idle() const override { return true; }
    [[nodiscard]] std::vector<double> memory() const override { return {next_}; }
    void restore_memory(const SchedulerState&, std::span<const double> numbers) override {
        if (!numbers.empty()) next_ = numbers.front();
    }

    void decide(SchedulerState& scheduler) override {
        if (std::isnan(next_)) next_ = scheduler.now() + options_.interval;
        continue_moves(scheduler);
        if (scheduler.now() >= next_) {
            // Instances that wait will load the hosts.
            if (scheduler.waiting_count() == 0) {
                if (options_.method == ConsolidationMethod::first_fit) move_to_front(scheduler);
                else consolidate(scheduler);
            }
            while (next_ <= scheduler.now()) next_ += options_.interval;
        }
        scheduler.wake(next_);
    }

  private:
    struct Source {
        double order;
        MachineId host;
    };
    struct Move {
        TaskId instance;
        MachineId from;
        MachineId host;
    };

    [[nodiscard]] static double load(const SchedulerState& scheduler, MachineId host) {
        const double cores = scheduler.machines()[host].cores;
        return cores > 0 ? 1.0 - scheduler.space().cores(host) / cores : 0.0;
    }

    void consolidate(SchedulerState& scheduler) {
        free_ = scheduler.space();
        hosts_.clear();
        std::vector<Source> sources;
        for (MachineId host = 0; host < scheduler.machines().size(); ++host) {
            if (!free_.open(host) || free_.occupants(host) == 0) continue;
            hosts_.push_back(host);
            if (load(scheduler, host) < options_.threshold && is_settled(scheduler, host))
                sources.push_back({find_order(scheduler, host), host});
        }
        std::ranges::stable_sort(sources, {}, &Source::order);
        kept_.assign(scheduler.machines().size(), 0);
        for (const Move& move : later_) {
            kept_[move.from] = kept_[move.host] = 1;
            std::erase(hosts_, move.from);
            std::erase(hosts_, move.host);
        }
        for (const Source& each : sources) {
            // Hosts that have received instances stay.
            if (kept_[each.host] != 0 || !find_moves(scheduler, each.host)) continue;
            std::erase(hosts_, each.host);
            for (const Move& move : moves_) kept_[move.host] = 1;
            if (weighs_cost()) later_.insert(later_.end(), moves_.begin(), moves_.end());
            else
                for (const Move& move : moves_) scheduler.migrate(move.instance, move.host);
        }
        continue_moves(scheduler);
    }

    // Instances of the last hosts move to the first ones with room, one by one: hosts may be
    // emptied in part, and in several decisions.
    void move_to_front(SchedulerState& scheduler) {
        free_ = scheduler.space();
        hosts_.clear();
        for (MachineId host = 0; host < scheduler.machines().size(); ++host)
            if (free_.open(host) && free_.occupants(host) > 0) hosts_.push_back(host);
        kept_.assign(scheduler.machines().size(), 0);
        for (std::size_t at = hosts_.size(); at-- > 0;) {
            const MachineId from = hosts_[at];
            if (kept_[from] != 0 || !is_settled(scheduler, from)) continue;
            for (const TaskId instance : scheduler.tasks_on(from)) {
                const Request& size = scheduler.request(instance);
                const auto to = std::find_if(
                    hosts_.begin(), hosts_.begin() + static_cast<long>(at),
                    [&](MachineId host) { return free_.holds(host, size.cores, size.memory, {}); });
                if (to == hosts_.begin() + static_cast<long>(at)) continue;
                const Part part{*to, 1, size.cores};
                free_.take(scheduler.needs(instance), {&part, 1});
                kept_[*to] = 1;
                scheduler.migrate(instance, *to);
            }
        }
    }

    // Copies to or from one host slow down each other, and so prolong the downtime: a host takes
    // part in one at a time. What is not possible any more is left out.
    void continue_moves(SchedulerState& scheduler) {
        std::erase_if(later_, [&](const Move& move) {
            if (scheduler.phase(move.instance) != Phase::running ||
                scheduler.parts(move.instance).front().machine != move.from)
                return true;
            if (is_copied(scheduler, move.from) || is_copied(scheduler, move.host)) return false;
            if (find_move_obstacle(scheduler, move.instance, move.host) == nullptr)
                scheduler.migrate(move.instance, move.host);
            return true;
        });
    }

    // Whether an instance moves to or from the host.
    [[nodiscard]] static bool is_copied(SchedulerState& scheduler, MachineId host) {
        return std::ranges::any_of(scheduler.tasks_on(host), [&](TaskId instance) {
            return scheduler.other_end(instance) != no_task;
        });
    }

    // Whether all instances of a host can be moved.
    [[nodiscard]] static bool is_settled(SchedulerState& scheduler, MachineId host) {
        return std::ranges::all_of(scheduler.tasks_on(host), [&](TaskId instance) {
            return scheduler.other_end(instance) == no_task && !scheduler.is_starting(instance);
        });
    }

    [[nodiscard]] double find_order(SchedulerState& scheduler, MachineId host) const {
        return weighs_cost() ? total_memory(scheduler, host) : load(scheduler, host);
    }

    [[nodiscard]] bool weighs_cost() const { return options_.method == ConsolidationMethod::cost; }

    [[nodiscard]] static double total_memory(SchedulerState& scheduler, MachineId host) {
        double bytes = 0.0;
        for (const TaskId instance : scheduler.tasks_on(host))
            bytes += scheduler.request(instance).memory;
        return bytes;
    }

    // Whether the energy that is saved while the host stays empty exceeds that of switching it off
    // and on again. It still runs during the copy.
    [[nodiscard]] bool pays(SchedulerState& scheduler, MachineId host) const {
        if (!weighs_cost()) return true;
        const double copy = total_memory(scheduler, host) / options_.bandwidth;
        const double off = options_.horizon - copy - options_.switch_time;
        return off >= 0 && options_.idle_watts * (options_.horizon - copy) >
                               options_.off_watts * off + options_.switch_energy;
    }

    // Finds hosts for all instances of one; free capacity is as after the moves if it succeeds.
    bool find_moves(SchedulerState& scheduler, MachineId from) {
        if (!pays(scheduler, from)) return false;
        std::vector<TaskId> instances = scheduler.tasks_on(from);
        if (options_.method != ConsolidationMethod::draining)
            std::ranges::stable_sort(instances, std::ranges::greater(),
                                     [&](TaskId each) { return scheduler.request(each).cores; });
        moves_.clear();
        for (const TaskId instance : instances) {
            const MachineId to = find_host(scheduler, instance, from);
            if (to == no_machine) {
                for (const Move& move : moves_) give(scheduler, move);
                return false;
            }
            moves_.push_back({instance, from, to});
            const Part part{to, 1, scheduler.request(instance).cores};
            free_.take(scheduler.needs(instance), {&part, 1});
        }
        return true;
    }

    void give(SchedulerState& scheduler, const Move& move) {
        const Part part{move.host, 1, scheduler.request(move.instance).cores};
        free_.give(scheduler.needs(move.instance), {&part, 1});
    }

    // The first host with room, or the one with the least.
    [[nodiscard]] MachineId find_host(const SchedulerState& scheduler, TaskId instance,
                                      MachineId from) const {
        const Request& size = scheduler.request(instance);
        MachineId best = no_machine;
        for (const MachineId host : hosts_) {
            if (host == from || !free_.holds(host, size.cores, size.memory, {})) continue;
            if (options_.method == ConsolidationMethod::draining) return host;
            if (best == no_machine || free_.cores(host) < free_.cores(best)) best = host;
        }
        return best;
    }

    ConsolidationOptions options_;
    double next_ = std::numeric_limits<double>::quiet_NaN();
    Space free_;                      // after the moves so far
    std::vector<MachineId> hosts_;    // that may receive instances
    std::vector<std::uint8_t> kept_;  // hosts that have received some
    std::vector<Move> moves_;
    std::vector<Move> later_;  // after others of the same hosts
};

}  // namespace

std::unique_ptr<Controller> make_consolidation(const ConsolidationOptions& options) {
    return std::make_unique<Consolidation>(options);
}

}  // namespace twinloop
