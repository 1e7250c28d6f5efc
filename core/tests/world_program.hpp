// Interpreter of bytes as a scenario and a program of operations on worlds of it; aborts with a
// message when a law does not hold.
#pragma once

#include <cstdint>
#include <span>

void run_world_program(std::span<const std::uint8_t> bytes);
