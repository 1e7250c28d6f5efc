// twinloop-burn: a known amount of real work.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "arguments.hpp"
#include "clocks.hpp"
#include "numbers.hpp"

namespace twinloop::burn {

namespace {

constexpr int bad_input = 2;

constexpr const char* usage =
    "usage: twinloop-burn KIND (--seconds S | --work W) [--threads N] [--seed I] [--rates R]\n"
    "       twinloop-burn --calibrate [KIND...]\n"
    "\n"
    "Do a known amount of work and print its cost as one JSON object.\n"
    "\n"
    "kinds:      cpu memory stream cache mixed sleep io\n"
    "--seconds S the work that an idle core does in S seconds, on each thread\n"
    "--work W    exactly W units of the kind, on each thread\n"
    "--threads N number of threads (1)\n"
    "--seed I    seed of the data; the amount of work does not depend on it (0)\n"
    "--rates R   units per CPU second, as cpu=2.5e8,cache=7e7; by default those of\n"
    "            TWINLOOP_BURN_RATES; missing rates are measured first\n"
    "--calibrate measure the rates and print them as one JSON object\n";

struct Part {
    Kind kind;
    std::uint64_t units;
};

double measured(Kind kind) {
    const Calibration found = calibrated(kind);
    if (!found.agreed) {
        std::fprintf(
            stderr,
            "twinloop-burn: no two runs of %s were within %g %% of the best: other processes "
            "use the machine, and %.3g units per CPU second may be wrong\n",
            std::string(name_of(kind)).c_str(), agreement * 100.0, found.rate);
    }
    return found.rate;
}

double rate_of(Kind kind, Rates& rates) {
    if (kind == Kind::sleep) return sleep_rate;
    if (kind == Kind::io) return io_rate;
    if (const auto known = rates.of(kind)) return *known;
    const std::string name(name_of(kind));
    const double found = measured(kind);
    std::fprintf(stderr,
                 "twinloop-burn: no rate of %s was given; measured %s=%.17g units per CPU second\n",
                 name.c_str(), name.c_str(), found);
    rates.set(kind, found);
    return found;
}

std::uint64_t units_for(double seconds, double rate) {
    const double units = std::nearbyint(seconds * rate);
    if (units > most_units) throw UsageError("--seconds is more than 2^53 units of work");
    return static_cast<std::uint64_t>(units);
}

// The parts of the work of each thread, in order.
std::vector<Part> parts_of(Arguments& asked) {
    const Kind kind = asked.kinds.front();
    if (!asked.timed) return {{kind, asked.units}};
    if (kind != Kind::mixed) {
        return {{kind, units_for(asked.seconds, rate_of(kind, asked.rates))}};
    }
    std::vector<Part> parts;
    for (const Phase& phase : mixed_phases) {
        const double rate = rate_of(phase.kind, asked.rates);
        parts.push_back({phase.kind, units_for(asked.seconds * phase.share, rate)});
    }
    return parts;
}

struct Outcome {
    double cpu = 0.0;
    std::uint64_t checksum = 0;
    std::exception_ptr problem;
};

void burn(const std::vector<Part>& parts, std::uint64_t seed, std::latch& all_there,
          Outcome& outcome) {
    all_there.arrive_and_wait();
    try {
        for (const Part& part : parts) {
            const auto work = work_of(part.kind, seed);
            work->run(part.units);
            outcome.checksum += work->checksum();
        }
    } catch (...) {
        outcome.problem = std::current_exception();
    }
    outcome.cpu = thread_seconds();
}

Outcome burn_on_threads(const std::vector<Part>& parts, const Arguments& asked) {
    std::vector<Outcome> outcomes(asked.threads);
    std::latch all_there(static_cast<std::ptrdiff_t>(asked.threads));
    std::vector<std::thread> threads;
    threads.reserve(asked.threads);
    try {
        for (std::uint64_t thread = 0; thread < asked.threads; ++thread) {
            threads.emplace_back(burn, std::cref(parts), asked.seed + thread, std::ref(all_there),
                                 std::ref(outcomes[thread]));
        }
    } catch (const std::system_error& error) {
        // The threads started so far would wait forever for the others.
        std::fprintf(stderr, "twinloop-burn: only %zu threads could be started: %s\n",
                     threads.size(), error.what());
        std::_Exit(EXIT_FAILURE);
    }
    for (std::thread& thread : threads) thread.join();
    Outcome all;
    for (const Outcome& one : outcomes) {
        if (one.problem) std::rethrow_exception(one.problem);
        all.cpu += one.cpu;
        all.checksum += one.checksum;
    }
    return all;
}

void print_rates(const Arguments& asked) {
    Rates rates;
    std::vector<Kind> wanted;
    for (const Kind kind : asked.kinds) {
        for (const Kind part : ingredients(kind)) wanted.push_back(part);
    }
    if (asked.kinds.empty()) wanted.assign(busy_kinds.begin(), busy_kinds.end());
    std::string text;
    for (const Kind kind : wanted) {
        if (rates.of(kind)) continue;
        const double rate = measured(kind);
        rates.set(kind, rate);
        char pair[64];
        std::snprintf(pair, sizeof pair, "%s\"%s\": %.17g", text.empty() ? "" : ", ",
                      std::string(name_of(kind)).c_str(), rate);
        text += pair;
    }
    std::printf("{%s}\n", text.c_str());
}

void print_outcome(const Arguments& asked, const std::vector<Part>& parts, const Outcome& outcome,
                   double wall) {
    const Kind kind = asked.kinds.front();
    std::uint64_t units = 0;
    for (const Part& part : parts) {
        // Pauses between the parts of mixed work are not counted.
        if (part.kind == kind || part.kind != Kind::sleep) units += part.units;
    }
    std::printf("{\"kind\": \"%s\", \"units\": %" PRIu64 ", \"threads\": %" PRIu64
                ", \"seed\": %" PRIu64
                ", \"cpu_s\": %.6f, \"wall_s\": %.6f, \"checksum\": \"%016" PRIx64 "\"}\n",
                std::string(name_of(kind)).c_str(), units, asked.threads, asked.seed, outcome.cpu,
                wall, outcome.checksum);
}

int run(const std::vector<std::string>& words) {
    Arguments asked = arguments(words);
    if (asked.help) {
        std::fputs(usage, stdout);
    } else if (asked.calibrate) {
        print_rates(asked);
    } else {
        const std::vector<Part> parts = parts_of(asked);
        const double begin = wall_seconds();
        const Outcome outcome = burn_on_threads(parts, asked);
        print_outcome(asked, parts, outcome, wall_seconds() - begin);
    }
    if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
    return EXIT_SUCCESS;
}

}  // namespace

}  // namespace twinloop::burn

int main(int count, char** words) {
    try {
        return twinloop::burn::run({words + 1, words + count});
    } catch (const twinloop::burn::UsageError& error) {
        std::fprintf(stderr, "twinloop-burn: %s (see twinloop-burn --help)\n", error.what());
        return twinloop::burn::bad_input;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "twinloop-burn: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
