#include "rates.hpp"

#include <algorithm>

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

double calibrated(Kind kind) {
    constexpr double short_run = 0.02;
    constexpr int repetitions = 7;
    const auto work = work_of(kind, 0);
    const auto cost = [&work](std::uint64_t units) {
        const double begin = thread_seconds();
        work->run(units);
        return thread_seconds() - begin;
    };
    // The first runs also bring caches and pages into the state that they have later.
    std::uint64_t units = 1U << 16U;
    double best = cost(units);
    while (best < short_run) {
        units *= 2;
        best = cost(units);
    }
    for (int run = 0; run < repetitions; ++run) best = std::min(best, cost(units));
    return static_cast<double>(units) / best;
}

}  // namespace twinloop::burn
