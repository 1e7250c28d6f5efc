// An interpreter that reads bytes as a program of kernel operations, and stops the process with a
// message when a law of the kernel does not hold.
#pragma once

#include <cstdint>
#include <span>

void run_program(std::span<const std::uint8_t> bytes);
