#include "kernel/efficiency.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernel/checks.hpp"

namespace twinloop {

EfficiencyTable::EfficiencyTable(std::map<Kind, std::vector<double>> rows)
    : rows_(std::move(rows)) {
    for (const auto& [kind, row] : rows_) {
        if (row.empty())
            throw std::invalid_argument("efficiency of kind " + std::to_string(kind) +
                                        ": give at least one value (for one activity)");
        for (const double value : row) check_efficiency(kind, value);
    }
}

void EfficiencyTable::evaluate(std::span<KindPresence> present) const {
    std::size_t total = 0;
    for (const KindPresence& each : present) total += each.running;
    for (KindPresence& each : present) {
        const auto row = rows_.find(each.kind);
        if (row == rows_.end() || total == 0) {
            each.efficiency = 1.0;
        } else {
            each.efficiency = row->second[std::min(total, row->second.size()) - 1];
        }
    }
}

}  // namespace twinloop
