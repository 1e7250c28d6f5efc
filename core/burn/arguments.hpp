// What the program was asked for.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
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
    bool timed = false;       // seconds count, else units
    double seconds = 0.0;
    std::uint64_t units = 0;
    std::uint64_t threads = 1;
    std::uint64_t seed = 0;
    Rates rates;
};

// Rates come from TWINLOOP_BURN_RATES; those of the command line win.
Arguments arguments(const std::vector<std::string>& words);

}  // namespace twinloop::burn
