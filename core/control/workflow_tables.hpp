// What policies of workflows know beyond the scheduler state: constant tables, shared by all runs,
// and the files of the tasks in the present run.
#pragma once

#include <cstdint>
#include <vector>

namespace twinloop {

class Simulation;
class Transfers;
struct FileTable;

struct WorkflowTables {
    std::vector<std::uint32_t> clusters;        // by machine
    std::vector<std::uint32_t> store_clusters;  // by store of the platform; ~0: it is in none
    std::vector<std::uint32_t> ranks;           // by task: the place of its id among all ids
};

// The files that tasks read and write, and the stores in which they are; nullptr: not known.
struct DataView {
    const FileTable* files = nullptr;
    const Transfers* transfers = nullptr;
    const Simulation* simulation = nullptr;
};

}  // namespace twinloop
