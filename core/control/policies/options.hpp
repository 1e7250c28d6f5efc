// The options of the built-in policies, and the functions that make the policies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/scheduler_state.hpp"
#include "control/workflow_tables.hpp"

namespace twinloop {

enum class QueueOrder : std::uint8_t { arrival, shortest, longest, priority, fair_share };
enum class Backfill : std::uint8_t { none, easy, easy_time, conservative };
enum class Preemption : std::uint8_t { no, restart, resume };

// Rigid tasks in one queue: its order, and the rule by which tasks may pass.
struct BatchOptions {
    QueueOrder order = QueueOrder::arrival;
    Backfill backfill = Backfill::none;
    bool compress = true;       // conservative: plan anew when a task ends early
    std::uint32_t depth = 0;    // waiting tasks considered for backfilling; 0: all
    double age = 0.0;           // priority gained per second of waiting
    double half_life = 604800;  // of past usage, for fair shares (s)
    bool by_group = false;      // shares of groups, not of users
    Preemption preemption = Preemption::no;
};

enum class Filter : std::uint8_t { instance_count, vcpu, ram, capacity, resource };
enum class Weigher : std::uint8_t { instance_count, vcpu, ram, capacity };
enum class Pick : std::uint8_t { first, random, round_robin };

// One task at a time: of the machines that pass all filters, the best by weight.
struct FilterOptions {
    std::vector<std::pair<Filter, double>> filters;
    std::vector<std::pair<Weigher, double>> weighers;
    std::uint32_t subset = 1;
    bool skip = false;            // tasks may pass a task that fits nowhere
    bool refuse = false;          // a task that fits nowhere is refused, and does not wait
    bool smallest_first = false;  // by cores, then by memory, then by arrival
    bool waits = false;           // also a task that fits on no present machine waits
    Pick pick = Pick::first;
    std::uint64_t seed = 0;
};

// Switches machines off and on: a controller beside a scheduling policy.
struct PowerSavingOptions {
    double idle_time = 0.0;  // after which a machine is switched off (s)
    std::size_t keep = 0;    // machines that stay on
};

// Machines that run only while they are needed, beside a scheduling policy.
struct OnDemandOptions {
    bool one_at_a_time = true;  // no machine is switched on while another one is starting
};

// A client that rents instances of a cloud.
struct ClientOptions {
    std::uint16_t cloud = 0;
    std::uint16_t type = 0;
    std::uint16_t image = 0;
    double overcommit = 1.0;                                // of the hosts by the provider
    double bid = std::numeric_limits<double>::quiet_NaN();  // NaN: not at spot prices
};

// How a broker chooses the instance of a task; from `list` on, tasks on long paths come first.
enum class BrokerStrategy : std::uint8_t { asap, afap, list, deadline, budget };

// A client that rents instances for a queue of tasks.
struct BrokerOptions {
    ClientOptions client;
    BrokerStrategy strategy = BrokerStrategy::asap;
    double margin = 50.0;    // before the end of a unit of billing, in which idle instances stop
    double boot_base = 0.0;  // predicted boot: base + per_booting x (booting + 1) (s)
    double boot_per_booting = 0.0;
    double interval = 0.0;          // between scans of the queue (s); 0: at every event
    double later_interval = 0.0;    // likewise, after the last submission
    std::uint32_t instances = ~0U;  // at once
    std::uint32_t attempts = 10;    // to start an instance
    double retry = 60.0;            // after a refusal (s)
    double deadline = never;        // of all tasks
    double budget = never;
    bool published = false;           // the rules of SimSchlouder instead of those of its article
    bool validation = false;          // imitates faults of Schlouder
    bool boots_as_predicted = false;  // in place of the boot of the image
    // Of the recorded boots: dates of the requests, lags, and dates that only the imitation of
    // faults uses (s).
    std::vector<double> request_dates;
    std::vector<double> lags;
    std::vector<double> recorded_dates;
};

// Moves instances away from hosts with a low load.
enum class ConsolidationMethod : std::uint8_t { draining, first_fit, best_fit_decreasing, cost };
struct ConsolidationOptions {
    ConsolidationMethod method = ConsolidationMethod::draining;
    double interval = 600.0;  // between decisions (s)
    double threshold = 0.5;   // load below which a host is a candidate
    // For the method by cost: of a host, and of the copy of its instances
    double horizon = 3600.0;  // for which a drained host is expected to stay empty (s)
    double idle_watts = 0.0;
    double off_watts = 0.0;
    double switch_time = 0.0;    // off and on again (s)
    double switch_energy = 0.0;  // likewise (J)
    double bandwidth = never;    // bytes per second
};

// List scheduling of workflows: priority of ready tasks, cluster, and cores on one machine.
enum class ListOrder : std::uint8_t { bottom_level, children, data, work };
enum class ClusterChoice : std::uint8_t { fastest, most_idle, most_idle_speed, most_data };
struct ListOptions {
    ListOrder order = ListOrder::bottom_level;
    ClusterChoice cluster = ClusterChoice::most_idle_speed;
    double efficiency = 0.0;     // at least that, by the speed-up law; 0: as many cores as possible
    double cap = never;          // cores of a task, at most
    bool last_of_equals = true;  // clusters
    bool input_only = false;     // the data of a task
    std::shared_ptr<const WorkflowTables> tables = std::make_shared<const WorkflowTables>();
};

// Min-min, or max-min, by predicted completion times.
struct CompletionOptions {
    bool largest = false;  // the task with the latest completion first
    std::shared_ptr<const WorkflowTables> tables = std::make_shared<const WorkflowTables>();
};

// HEFT, or CPOP: a plan of all tasks at the start, which the run follows.
struct StaticOptions {
    bool critical_path = false;  // CPOP
    std::shared_ptr<const WorkflowTables> tables = std::make_shared<const WorkflowTables>();
};

std::unique_ptr<Controller> make_batch(const BatchOptions& options);
std::unique_ptr<Controller> make_filter(const FilterOptions& options);
std::unique_ptr<Controller> make_power_saving(const PowerSavingOptions& options);
std::unique_ptr<Controller> make_on_demand(const OnDemandOptions& options);
std::unique_ptr<Controller> make_consolidation(const ConsolidationOptions& options);
std::unique_ptr<Controller> make_one_per_task(const ClientOptions& options);
std::unique_ptr<Controller> make_one_instance(const ClientOptions& options);
std::unique_ptr<Controller> make_broker(const BrokerOptions& options);
std::unique_ptr<Controller> make_list_scheduling(const ListOptions& options);
std::unique_ptr<Controller> make_completion_times(const CompletionOptions& options);
std::unique_ptr<Controller> make_static_list(const StaticOptions& options);

}  // namespace twinloop
