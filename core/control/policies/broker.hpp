// The client of a cloud that rents instances for a queue of tasks: a broker. A task is assigned to
// an instance, existing or new, and never moves. The decisions use predicted times.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {

// An instance of the broker, from the decision to rent it to its release.
struct BrokerNode {
    // Future: decided, not yet requested. Lagging: booted, its first task may not start yet.
    enum class State : std::uint8_t { future, booting, lagging, ready };

    State state = State::future;
    std::uint32_t index = 0;   // of the decision to rent it
    std::uint32_t record = 0;  // of the recorded boot, if there is one
    std::uint32_t attempts = 1;
    MachineId machine = no_machine;
    double cores = 1.0;
    double memory = 0.0;
    double decided = 0.0;
    double requested = 0.0;  // the time of the decision until then
    double begin = 0.0;      // of its bill, predicted as its request until it is known
    double request_at = 0.0;
    double open_at = 0.0;          // when its first task may start
    double predicted_boot = 0.0;   // s
    double idle_at = 0.0;          // predicted, of a node with one core
    double idle_since = 0.0;       // when it became idle
    double approved = 1.0;         // units of time that a budget covers
    std::deque<TaskId> queue;      // assigned, not started
    std::vector<TaskId> running;   // in the order of their starts
    std::vector<double> cores_at;  // predicted, by core, of a node with several cores
    bool is_stale = false;         // these are to be computed again
    bool is_listed = false;        // among the idle nodes
    bool has_host = false;         // of which the bill knows
    double claimed_at = -never;    // when it last got a task while it was idle

    [[nodiscard]] bool is_idle() const {
        return state == State::ready && queue.empty() && running.empty();
    }
};

class Broker : public Controller {
  public:
    explicit Broker(BrokerOptions options) : options_(std::move(options)) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Broker>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    // It gives back instances whose unit of time ends.
    [[nodiscard]] bool decides_when_idle() const override { return true; }
    [[nodiscard]] bool continues() const override { return !order_.empty(); }
    [[nodiscard]] bool bids() const override { return !std::isnan(options_.client.bid); }
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override;

    void submitted(const SchedulerState& scheduler, TaskId task) override;
    void withdrawn(const SchedulerState& scheduler, TaskId task) override;
    void ended(const SchedulerState& scheduler, TaskId task) override;
    void rental_changed(const SchedulerState& scheduler, MachineId instance,
                        RentalEvent event) override;
    void decide(SchedulerState& scheduler) override;

  private:
    static constexpr std::uint32_t no_node = ~0U;
    static constexpr std::uint32_t new_node = ~0U - 1;

    // --- the life of instances (broker.cpp)
    void prepare(const SchedulerState& scheduler);
    void scan(SchedulerState& scheduler);
    void assign_waiting(SchedulerState& scheduler);
    void stop_idle(SchedulerState& scheduler);
    void enforce_budget(SchedulerState& scheduler);
    void start_tasks(SchedulerState& scheduler, std::uint32_t node);
    void assign(SchedulerState& scheduler, TaskId task, std::uint32_t node);
    std::uint32_t add_node(SchedulerState& scheduler, TaskId task);
    void request(SchedulerState& scheduler, std::uint32_t node);
    void remove_node(const SchedulerState& scheduler, std::uint32_t node);
    void set_state(BrokerNode& node, BrokerNode::State state);
    [[nodiscard]] std::uint32_t count(BrokerNode::State state) const {
        return counts_[static_cast<std::size_t>(state)];
    }
    // Counts an instance less; with the imitation of faults it may be counted no longer.
    void end_boot() {
        if (booting_ > 0) --booting_;
    }
    void note_submission(double time);
    // Whether the instance has got a host: if its bill counts from then on, so do its predictions.
    void find_host(const SchedulerState& scheduler, BrokerNode& node) const;
    void find_hosts(const SchedulerState& scheduler);
    // Whether its bill has begun; it begins now at the earliest otherwise.
    [[nodiscard]] bool is_billed(const BrokerNode& node) const {
        return from_request_ || node.has_host;
    }
    // Counts the units of an instance that ends now: none if it had no host.
    void spend(const SchedulerState& scheduler, BrokerNode& node);
    void return_tasks(BrokerNode& node);
    void replace(SchedulerState& scheduler, std::uint32_t node);
    void give_up(SchedulerState& scheduler);
    void set_wakes(SchedulerState& scheduler);
    [[nodiscard]] bool can_rent(const SchedulerState& scheduler, const Rental& rental) const;
    [[nodiscard]] Rental make_rental(const SchedulerState& scheduler, TaskId task) const;
    [[nodiscard]] std::uint32_t node_on(MachineId machine) const {
        return machine < on_machine_.size() ? on_machine_[machine] : no_node;
    }
    [[nodiscard]] bool is_outbid(const SchedulerState& scheduler) const {
        return twinloop::is_outbid(scheduler, options_.client.cloud, options_.client.bid);
    }
    void insert(std::uint32_t node);
    void remove_from_order(std::uint32_t node);
    [[nodiscard]] bool is_before(std::uint32_t node, std::uint32_t other) const;
    // The first scan at this time or later.
    [[nodiscard]] double next_scan(double time) const;
    [[nodiscard]] bool may_stop(const BrokerNode& node, double now) const;
    [[nodiscard]] double stop_time(const BrokerNode& node, double now) const;
    // The first scan after this time, and the last one that is not after it.
    [[nodiscard]] double scan_after(double time) const;
    [[nodiscard]] double last_scan(double time) const;
    [[nodiscard]] double recorded(std::span<const double> values, std::uint32_t record,
                                  double otherwise) const {
        const bool is_known = record < values.size() && !std::isnan(values[record]);
        return is_known ? values[record] : otherwise;
    }

    // --- predictions (broker_prediction.cpp)
    [[nodiscard]] double units(double time) const;
    [[nodiscard]] double predict_boot() const;
    // The predicted time at which so many cores of the node are idle.
    [[nodiscard]] double idle_time(const SchedulerState& scheduler, BrokerNode& node,
                                   double cores) const;
    void predict_cores(const SchedulerState& scheduler, BrokerNode& node) const;
    // The predicted uptime of the node when it is idle again.
    [[nodiscard]] double uptime_at_idle(const BrokerNode& node, double idle, double now) const;
    // The rest of the unit of time in which the node ends another `work` seconds, with the margin.
    [[nodiscard]] double left(double uptime, double work) const;
    [[nodiscard]] bool fits(const SchedulerState& scheduler, const BrokerNode& node,
                            TaskId task) const;

    // --- choice of the instance (broker_choice.cpp)
    [[nodiscard]] std::uint32_t choose(const SchedulerState& scheduler, TaskId task);
    [[nodiscard]] std::uint32_t choose_asap(const SchedulerState& scheduler, TaskId task,
                                            bool rents);
    [[nodiscard]] std::uint32_t choose_afap(const SchedulerState& scheduler, TaskId task,
                                            bool rents);
    [[nodiscard]] std::uint32_t choose_list(const SchedulerState& scheduler, TaskId task,
                                            bool rents);
    [[nodiscard]] std::uint32_t choose_deadline(const SchedulerState& scheduler, TaskId task,
                                                bool rents);
    [[nodiscard]] std::uint32_t choose_budget(const SchedulerState& scheduler, TaskId task,
                                              bool rents);
    void rank_tasks(const SchedulerState& scheduler);
    void rank_added_tasks(const SchedulerState& scheduler);
    // Units that the budget pays; infinite without a price or a budget.
    [[nodiscard]] double budget_units() const;
    [[nodiscard]] bool is_ranked() const { return options_.strategy >= BrokerStrategy::list; }
    // What the task costs on the node beyond what it costs already (units of time).
    [[nodiscard]] double extra_units(const SchedulerState& scheduler, BrokerNode& node,
                                     double start, double work) const;
    // Units that are begun, or predicted to be begun, of all instances so far.
    [[nodiscard]] double planned_units(const SchedulerState& scheduler);

    BrokerOptions options_;
    bool prepared_ = false;
    double unit_ = never;                    // of billing (s)
    bool from_request_ = true;               // the bill of an instance counts from then on
    double price_ = 0.0;                     // of a unit
    double last_submission_ = 0.0;           // of the workload
    double later_from_ = 0.0;                // the scan from which on the later interval applies
    double scanned_ = -never;                // time of the last scan
    bool has_changed_ = false;               // instances or tasks, since the last scan
    std::uint32_t booting_ = 0;              // instances, as the prediction of boots counts them
    std::uint32_t decided_ = 0;              // instances, ever
    double spent_units_ = 0.0;               // of instances that have ended
    double unassigned_ = 0.0;                // predicted work of tasks that were never assigned (s)
    std::array<std::uint32_t, 4> counts_{};  // nodes, by state
    std::vector<BrokerNode> nodes_;
    std::vector<std::uint32_t> free_;        // places of nodes that are gone
    std::vector<std::uint32_t> order_;       // the nodes, in the order of comparison
    std::vector<std::uint32_t> idle_;        // nodes that are idle
    std::vector<std::uint32_t> on_machine_;  // nodes, by machine
    std::vector<std::uint32_t> startable_;   // nodes on which tasks may be able to start
    std::vector<std::uint32_t> failed_;      // nodes to be replaced
    std::vector<MachineId> unused_;          // instances of an earlier client
    std::vector<TaskId> waiting_;         // without an instance, in the order of their assignment
    std::vector<TaskId> arrived_;         // likewise, not yet in that order
    std::vector<std::uint32_t> node_of_;  // by task
    std::vector<double> work_;            // by task: predicted, until it is assigned (s)
    std::vector<double> ranks_;           // by task: work on the longest path from its start (s)
    std::vector<double> latest_;          // by task: its latest end for the deadline
};

}  // namespace twinloop
