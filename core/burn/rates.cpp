#include "rates.hpp"

#include <algorithm>
#include <limits>

#include "clocks.hpp"
#include "numbers.hpp"

namespace twinloop::burn {

std::vector<Kind> ingredients(Kind kind) {
    if (kind == Kind::mixed) {
        std::vector<Kind> found;
        for (const Phase& phase : mixed_phases) {
            for (const Kind part : ingredients(phase.kind)) found.push_back(part);
        }
        return found;
    }
    if (std::ranges::find(busy_kinds, kind) == busy_kinds.end()) return {};
    return {kind};
}

std::optional<std::string> Rates::read(std::string_view text) {
    while (!text.empty()) {
        const std::string_view pair = text.substr(0, text.find(','));
        text.remove_prefix(std::min(pair.size() + 1, text.size()));
        const std::size_t equals = pair.find('=');
        const auto kind = kind_of(pair.substr(0, equals));
        if (!kind || std::ranges::find(busy_kinds, *kind) == busy_kinds.end()) {
            return "'" + std::string(pair) + "': a rate is one of cpu, memory, stream or cache";
        }
        const auto rate = equals == std::string_view::npos
                              ? std::nullopt
                              : number_of(std::string(pair.substr(equals + 1)));
        if (!rate || *rate <= 0.0) {
            return "'" + std::string(pair) + "': a rate is written as cpu=2.5e8";
        }
        set(*kind, *rate);
    }
    return std::nullopt;
}

Calibration calibrated(Kind kind) {
    // On a shared machine, many short runs find an undisturbed period sooner than a few long ones.
    // Disturbances last longer than a run, so disturbed runs must not confirm each other.
    constexpr double short_run = 0.005;
    constexpr double least = 0.2;
    constexpr double most = 1.5;
    const auto work = work_of(kind, 0);
    const auto cost = [&work](std::uint64_t units) {
        const double begin = thread_seconds();
        work->run(units);
        return thread_seconds() - begin;
    };
    // Complete rounds are alike after the first, which warms up pages and caches.
    std::uint64_t units = work->round();
    work->run(units);
    // Of two, because a disturbance can make the shortest run appear long enough.
    while (std::min(cost(units), cost(units)) < short_run) units *= 2;
    double best = std::numeric_limits<double>::infinity();
    double second = best;
    double spent = 0.0;
    bool agreed = false;
    while (spent < least || (!agreed && spent < most)) {
        const double found = cost(units);
        second = std::min(second, std::max(best, found));
        best = std::min(best, found);
        spent += found;
        agreed = second <= best * (1.0 + agreement);
    }
    return {.rate = static_cast<double>(units) / best, .agreed = agreed};
}

}  // namespace twinloop::burn
