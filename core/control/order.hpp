// An order of a controller.
#pragma once

#include <cstdint>

#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "work/request.hpp"

namespace twinloop {

struct Order {
    enum class Kind : std::uint8_t {
        place,
        preempt,
        kill,
        set_state,
        reserve,
        wake,
        rent,
        release,
        migrate,
        resize
    };
    Kind kind = Kind::place;
    StateId state = no_state;     // the ordered one
    std::uint8_t controller = 0;  // index of the controller that gave it
    TaskId task = no_task;
    MachineId machine = no_machine;
    // Index of the parts that the task has left, of the status of the machine, of the rental, or of
    // the number of cores.
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

}  // namespace twinloop
