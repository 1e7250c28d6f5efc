// Interpreter of bytes as a program of kernel operations; aborts with a message when an invariant
// of the kernel does not hold.
#pragma once

#include <cstdint>
#include <span>

void run_program(std::span<const std::uint8_t> bytes);
