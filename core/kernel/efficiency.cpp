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

void EfficiencyTable::evaluate(const Presence& where, std::span<KindPresence> present) const {
    for (KindPresence& each : present) {
        const auto row = rows_.find(each.kind);
        each.efficiency =
            row == rows_.end()
                ? 1.0
                : row->second[std::min<std::size_t>(where.running, row->second.size()) - 1];
    }
}

}  // namespace twinloop
