// The choice of a filter scheduler among the machines that pass its filters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/policies/filter_rules.hpp"
#include "control/policies/host_index.hpp"
#include "control/policies/options.hpp"
#include "control/scheduler_state.hpp"
#include "kernel/draw.hpp"

namespace twinloop {

class FilterHosts {
  public:
    using Demand = FilterRules::Demand;

    explicit FilterHosts(const FilterOptions& options);

    [[nodiscard]] const FilterRules& rules() const { return rules_; }

    // The machine whose turn it is, and the state of the random numbers in two halves.
    [[nodiscard]] std::vector<double> memory() const {
        return {static_cast<double>(next_), static_cast<double>(draw_.state() >> 32),
                static_cast<double>(draw_.state() & 0xffffffffU)};
    }
    void restore_memory(std::span<const double> numbers) {
        if (numbers.size() != 3) return;
        next_ = static_cast<MachineId>(numbers[0]);
        draw_.set_state(static_cast<std::uint64_t>(numbers[1]) << 32 |
                        static_cast<std::uint64_t>(numbers[2]));
    }

    // Tasks were placed on these consecutive machines, or have left them.
    void update(const SchedulerState& scheduler, MachineId first, std::uint32_t count);

    // The machine was added, or changed in state or size.
    void change(const SchedulerState& scheduler, MachineId machine);

    // The machines for the task, in their order; none if it has to wait.
    [[nodiscard]] const std::vector<MachineId>& choose(const SchedulerState& scheduler, TaskId task,
                                                       const Demand& demand);

  private:
    void index_all(const SchedulerState& scheduler);
    void update(const SchedulerState& scheduler, MachineId machine);

    // Each fills `chosen_`.
    void choose_from_index(const SchedulerState& scheduler, TaskId task, const Demand& demand);
    void choose_from_all(const SchedulerState& scheduler, TaskId task, const Demand& demand);
    void choose_best(const SchedulerState& scheduler, std::size_t count);
    void choose_any(std::size_t count);
    void weigh(const SchedulerState& scheduler);

    FilterRules rules_;
    Draw draw_;
    Pick pick_;
    std::uint32_t subset_;
    bool indexed_;        // otherwise each choice looks at all machines
    bool known_ = false;  // the clocks of all machines are, and the index is complete
    HostIndex index_;
    MachineId next_ = 0;  // in turn

    std::vector<MachineId> passing_;
    std::vector<double> weights_;  // of the passing machines
    std::vector<double> values_;
    std::vector<MachineId> chosen_;
};

}  // namespace twinloop
