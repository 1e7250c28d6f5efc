// Command-line arguments.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rates.hpp"
#include "work.hpp"

namespace twinloop::burn {

// Error in the command line.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Arguments {
    bool help = false;
    bool calibrate = false;
    std::vector<Kind> kinds;  // one, except with --calibrate
    bool timed = false;       // --seconds, otherwise --work
    double seconds = 0.0;
    std::uint64_t units = 0;
    std::uint64_t threads = 1;
    std::uint64_t seed = 0;
    Rates rates;
};

// Rates come from TWINLOOP_BURN_RATES; the command line takes precedence.
Arguments arguments(const std::vector<std::string>& words);

}  // namespace twinloop::burn
