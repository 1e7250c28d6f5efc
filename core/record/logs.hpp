// The records of a run, as columns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/order.hpp"
#include "platform/machine.hpp"
#include "work/outcome.hpp"

namespace twinloop {

// Executions, with a row for each part of the machines.
struct PlacementLog {
    std::vector<std::uint32_t> task;
    std::vector<std::uint32_t> attempt;
    std::vector<std::uint32_t> machine;
    std::vector<std::uint32_t> count;
    std::vector<double> cores;
    std::vector<double> start;
    std::vector<double> end;
    std::vector<std::uint8_t> reason;

    void add(TaskId id, std::uint32_t number, std::span<const Part> parts, double from,
             double until, Reason why);
};

// The use of machines over time: from `t` on, a machine is used at that rate.
struct UseLog {
    // From an index in the log on, a machine has another capacity.
    struct Resize {
        std::size_t place = 0;
        MachineId machine = 0;
        double capacity = 0.0;
    };
    std::vector<std::uint32_t> machine;
    std::vector<double> t;
    std::vector<double> used;  // reference core-seconds per second; NaN: it is down or off
    std::vector<Resize> resizes;

    void reserve(std::size_t rows) {
        machine.reserve(rows);
        t.reserve(rows);
        used.reserve(rows);
    }
    void add(MachineId id, double time, double rate) {
        machine.push_back(id);
        t.push_back(time);
        used.push_back(rate);
    }
};

// The periods in which machines were down or switched off; a period without an end has NaN.
class StateLog {
  public:
    enum class Kind : std::uint8_t { down, off };

    void begin(MachineId id, Kind which, double now);
    void end(MachineId id, Kind which, double now);

    std::vector<std::uint32_t> machine;
    std::vector<double> start;
    std::vector<double> finish;
    std::vector<std::uint8_t> kind;

  private:
    std::array<std::vector<std::size_t>, 2> open_;  // rows by kind and machine
};

struct OrderLog {
    std::vector<double> t;
    std::vector<std::uint8_t> kind;
    std::vector<std::uint32_t> task;
    std::vector<std::uint32_t> machine;

    // `first`: the first machine of a placement.
    void add(const Order& order, double now, MachineId first) {
        t.push_back(now);
        kind.push_back(static_cast<std::uint8_t>(order.kind));
        task.push_back(order.task);
        machine.push_back(order.kind == Order::Kind::place ? first : order.machine);
    }
};

}  // namespace twinloop
