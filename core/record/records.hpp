// The records that a run keeps: only those that were requested cost anything.
#pragma once

#include <cstddef>
#include <optional>

#include "record/logs.hpp"
#include "record/usage.hpp"

namespace twinloop {

struct Recording {
    bool placements = false;
    bool use = false;
    bool orders = false;
    bool machines = false;      // the first machine of the last execution of each task
    double usage_step = never;  // of the windows in which CPU time is counted; infinite: none
    double usage_rows = never;  // maximum number of these windows
};

struct Records {
    Recording recording;
    PlacementLog placements;
    UseLog use;
    OrderLog orders;
    StateLog states;
    InstanceLog instances;
    TransferLog transfers;  // with the placements
    SharedRows<RentalRow> rentals;
    SharedRows<MigrationRow> migrations;
    SharedRows<ResizeRow> resizes;  // of rented instances
    SharedRows<InstanceStateRow> instance_states;
    SharedRows<MachineId> last_machines;
    std::optional<UsageLog> usage;

    Records(const Recording& wanted, std::size_t tasks) : recording(wanted) {
        if (wanted.machines) last_machines.resize(tasks, no_machine);
        if (wanted.usage_step < never) usage.emplace(wanted.usage_step, wanted.usage_rows);
    }
};

}  // namespace twinloop
