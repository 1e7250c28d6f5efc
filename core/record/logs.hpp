// The records of a run. Rows are added at the end, so that copies of a run share what is recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/order.hpp"
#include "kernel/shared_rows.hpp"
#include "platform/cloud_plan.hpp"
#include "platform/machine.hpp"
#include "work/outcome.hpp"

namespace twinloop {

// Executions, with a row for each part of the machines.
struct PlacementRow {
    TaskId task;
    std::uint32_t attempt;
    MachineId machine;
    std::uint32_t count;
    double cores;
    double start;
    double end;
    Reason reason;
};

struct PlacementLog : SharedRows<PlacementRow> {
    void add(TaskId task, std::uint32_t attempt, std::span<const Part> parts, double start,
             double end, Reason reason) {
        for (const Part& part : parts)
            push_back({task, attempt, part.machine, part.count, part.cores, start, end, reason});
    }
};

// The use of machines over time: from `t` on, a machine is used at that rate.
struct UseRow {
    MachineId machine;
    double t;
    double used;  // reference core-seconds per second; NaN: it is not running
};

struct UseLog : SharedRows<UseRow> {
    // From an index in the log on, a machine has another capacity.
    struct Resize {
        std::size_t place = 0;
        MachineId machine = 0;
        double capacity = 0.0;
    };
    SharedRows<Resize> resizes;
    // From an index in the log on, a machine that is not running has this power. Without an entry
    // it has none.
    struct StatePower {
        std::size_t place = 0;
        double watts = 0.0;
    };
    SharedRows<StatePower> state_powers;
};

// A period in which a machine was down or in a state other than running. Periods of one machine do
// not overlap: a machine that is down has no other state.
struct StateRow {
    MachineId machine;
    StateId kind;
    double start;
    double finish;  // NaN: it has not ended
};

class StateLog : public SharedRows<StateRow> {
  public:
    // A machine that is down: no period of the running state is recorded.
    static constexpr StateId down = running_state;

    void begin(MachineId machine, StateId which, double now);
    void end(MachineId machine, double now);
    // Removes the periods that have ended.
    void forget();

  private:
    std::vector<std::size_t> open_;  // rows by machine
};

// How a period of an instance has ended.
enum class InstanceEnd : std::uint8_t { none, moved, resized, removed };

// A period in which an instance was on one host, with one size.
struct InstanceRow {
    MachineId instance;
    MachineId host;
    double cores;
    double memory;
    double start;
    double finish;  // NaN: it has not ended
    InstanceEnd reason;
};

class InstanceLog : public SharedRows<InstanceRow> {
  public:
    void begin(MachineId instance, MachineId host, double cores, double memory, double now);
    void end(MachineId instance, InstanceEnd reason, double now);
    // Removes the periods that have ended.
    void forget();

  private:
    std::vector<std::size_t> open_;  // row by machine, up to the last instance
};

// The states of a rented instance.
enum class InstanceState : std::uint8_t {
    requested,
    queued,
    allocated,
    initial_transfer,
    startup,
    running,
    migrating,
    stopped,
    suspend_transfer,
    suspended,
    resume_transfer,
    shutdown,
    destroyed
};

// Why a period of a rented instance has ended: the first ones end the rental, too.
enum class RentalEnd : std::uint8_t {
    none,
    released,
    refused,
    lost,
    expired,
    interrupted,  // the spot price has risen above its bid
    moved,
    suspended,
    shut_down,
    left,  // for another cloud
    resized
};

// A period that a rented instance has spent on one host. Times are NaN where it did not come so
// far, and in periods after the first one; the price is that of the rental, NaN before its end.
struct RentalRow {
    std::uint32_t serial;
    Rental rental;
    bool is_reserved;
    MachineId host;
    double requested;
    double placed;
    double ready;
    double ended;
    RentalEnd reason;
    double price;
};

// A migration of a rented instance to another host.
struct MigrationRow {
    std::uint32_t serial;
    MachineId from;
    MachineId to;
    double start;
    double finish;
    double bytes;
    double downtime;  // s
    std::uint32_t rounds;
    bool completed;
};

// A message between the client and the controller of a cloud.
struct MessageRow {
    std::uint32_t serial;
    std::uint16_t cloud;
    bool answers;  // from the controller to the client
    double bytes;
    double start;
    double finish;
};

// The answer to a question for the state of a rented instance.
struct DescriptionRow {
    std::uint32_t serial;
    InstanceState state;
    double asked;
    double answered;  // by the controller: the time of the state
    double received;  // by the client
};

// A period in which a rented instance was in one state.
struct InstanceStateRow {
    std::uint32_t serial;
    InstanceState state;
    double start;
    double finish;
};

// A change that the observers of a run receive: the state of an instance or a machine, or the queue
// or the capacity of a cloud.
struct Notice {
    enum class Kind : std::uint8_t { instance, machine, queue, capacity };
    Kind kind;
    std::uint32_t subject;  // rental, machine or cloud
    double time;
    double value;  // state, instances in the queue, or free cores
};

// A transfer of a file between its store and a machine.
struct TransferRow {
    TaskId task;
    std::uint32_t file;
    std::uint32_t store;
    MachineId machine;
    bool read;      // from the store; otherwise to it
    bool staged;    // between the store and that of the host of the machine
    bool finished;  // otherwise it was cancelled
    double bytes;   // that were moved
    double start;
    double end;
};
using TransferLog = SharedRows<TransferRow>;

struct OrderRow {
    double t;
    Order::Kind kind;
    StateId state;  // of an order of a state
    std::uint8_t controller;
    TaskId task;
    MachineId machine;
};

struct OrderLog : SharedRows<OrderRow> {
    // `first`: the first machine of a placement.
    void add(const Order& order, double now, MachineId first) {
        push_back({now, order.kind, order.state, order.controller, order.task,
                   order.kind == Order::Kind::place ? first : order.machine});
    }
};

}  // namespace twinloop
