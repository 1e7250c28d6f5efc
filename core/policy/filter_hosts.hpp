// The machines as a filter scheduler sees them: which of those that pass its filters a task gets.
#pragma once

#include <cstdint>
#include <vector>

#include "model/desk.hpp"
#include "policy/filter_draw.hpp"
#include "policy/filter_rules.hpp"
#include "policy/host_index.hpp"
#include "policy/options.hpp"

namespace twinloop {

class FilterHosts {
  public:
    using Asked = FilterRules::Asked;

    explicit FilterHosts(const FilterOptions& options);

    [[nodiscard]] const FilterRules& rules() const { return rules_; }

    // Looks at all machines again before the next choice.
    void forget() { known_ = false; }
    void look(const Desk& desk);
    // Something has come to these machines, that follow each other, or has left them.
    void update(const Desk& desk, MachineId first, std::uint32_t count);

    // The machines for the task, in their order; none if it has to wait.
    [[nodiscard]] const std::vector<MachineId>& choose(const Desk& desk, TaskId task,
                                                       const Asked& asked);

  private:
    void update(const Desk& desk, MachineId machine);

    // Each fills chosen_.
    void choose_from_index(const Desk& desk, TaskId task, const Asked& asked);
    void choose_from_all(const Desk& desk, TaskId task, const Asked& asked);
    void choose_best(const Desk& desk, std::size_t count);
    void choose_any(std::size_t count);
    void weigh(const Desk& desk);

    FilterRules rules_;
    Draw draw_;
    Pick pick_;
    std::uint32_t subset_;
    bool indexed_;  // otherwise each choice looks at all machines
    bool known_ = false;
    HostIndex index_;
    MachineId next_ = 0;  // of the round

    std::vector<MachineId> passing_;
    std::vector<double> weights_;  // of those
    std::vector<double> values_;
    std::vector<MachineId> chosen_;
};

}  // namespace twinloop
