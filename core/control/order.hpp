// An order of a controller.
#pragma once

#include <cstdint>

#include "platform/machine.hpp"
#include "work/request.hpp"

namespace twinloop {

struct Order {
    enum class Kind : std::uint8_t { place, preempt, kill, switch_on, switch_off, reserve };
    Kind kind = Kind::place;
    TaskId task = no_task;
    MachineId machine = no_machine;
    std::uint32_t first = 0;  // of the parts that the task has left
    std::uint32_t count = 0;
};

}  // namespace twinloop
