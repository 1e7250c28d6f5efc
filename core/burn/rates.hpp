// How many units of each kind a core does in a second of its time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "work.hpp"

namespace twinloop::burn {

// Kinds that keep a core busy all the time, so that a second of CPU time is what they are paid in.
inline constexpr std::array<Kind, 4> busy_kinds{Kind::cpu, Kind::memory, Kind::stream, Kind::cache};

// Those of the busy kinds that this kind consists of.
std::vector<Kind> ingredients(Kind kind);

class Rates {
  public:
    // Takes rates written as cpu=2.5e8,cache=7e7 and says what is wrong with them, if anything is.
    std::optional<std::string> read(std::string_view text);

    std::optional<double> of(Kind kind) const { return rates_[static_cast<std::size_t>(kind)]; }
    void set(Kind kind, double rate) { rates_[static_cast<std::size_t>(kind)] = rate; }

  private:
    std::array<std::optional<double>, kind_names.size()> rates_;
};

// How far the best two runs of a calibration may be apart, as a share of the best.
inline constexpr double agreement = 0.03;

struct Calibration {
    double rate;
    bool agreed;  // whether a second run confirms the best one
};

// The best of many short runs: what an undisturbed core does.
Calibration calibrated(Kind kind);

}  // namespace twinloop::burn
