// Rates: units of work of each kind per second of CPU time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "work.hpp"

namespace twinloop::burn {

// Kinds that keep a core busy all the time, whose rate is per second of CPU time.
inline constexpr std::array<Kind, 4> busy_kinds{Kind::cpu, Kind::memory, Kind::stream, Kind::cache};

// The busy kinds that this kind consists of.
std::vector<Kind> ingredients(Kind kind);

class Rates {
  public:
    // Reads rates such as cpu=2.5e8,cache=7e7; returns an error message if they are not valid.
    std::optional<std::string> read(std::string_view text);

    std::optional<double> of(Kind kind) const { return rates_[static_cast<std::size_t>(kind)]; }
    void set(Kind kind, double rate) { rates_[static_cast<std::size_t>(kind)] = rate; }

  private:
    std::array<std::optional<double>, kind_names.size()> rates_;
};

// Maximum relative difference of the best two runs of a calibration.
inline constexpr double agreement = 0.03;

struct Calibration {
    double rate;
    bool agreed;  // whether a second run confirms the best one
};

// Rate of the best of many short runs, i.e. of an idle core.
Calibration calibrated(Kind kind);

}  // namespace twinloop::burn
