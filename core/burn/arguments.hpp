// What the program was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "rates.hpp"
#include "work.hpp"

namespace twinloop::burn {

// What cannot be done as it was asked for.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Arguments {
    bool help = false;
    bool calibrate = false;
    std::vector<Kind> kinds;  // one, unless rates are asked for
    std::optional<double> seconds;
    std::optional<std::uint64_t> units;
    std::uint64_t threads = 1;
    std::uint64_t seed = 0;
    Rates rates;
};

// Rates come from TWINLOOP_BURN_RATES; those of the command line win.
Arguments arguments(const std::vector<std::string>& words);

}  // namespace twinloop::burn
