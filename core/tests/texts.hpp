// Texts generated from bytes, and checks of parser invariants on them.
#pragma once

#include <cstdint>
#include <span>

void check_parsers(std::span<const std::uint8_t> bytes);
