// Texts made from bytes, and the laws of the parsers checked on them.
#pragma once

#include <cstdint>
#include <span>

void check_parsers(std::span<const std::uint8_t> bytes);
