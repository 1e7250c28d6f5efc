#include "arguments.hpp"

#include <cstdlib>
#include <string>

#include "numbers.hpp"

namespace twinloop::burn {

namespace {

constexpr std::uint64_t most_threads = 4096;
constexpr double most_units = 0x1p53;

void read_rates(Rates& rates, const std::string& text, const std::string& from) {
    if (const auto problem = rates.read(text)) throw UsageError(from + " " + *problem);
}

void check(const Arguments& asked) {
    if (asked.help || asked.calibrate) {
        if (asked.calibrate && (asked.seconds || asked.units)) {
            throw UsageError("--calibrate takes kinds, no --seconds and no --work");
        }
        return;
    }
    if (asked.kinds.size() != 1) throw UsageError("give one kind of work");
    if (asked.seconds.has_value() == asked.units.has_value()) {
        throw UsageError("give either --seconds or --work");
    }
    const Kind kind = asked.kinds.front();
    if (asked.units && (kind == Kind::sleep || kind == Kind::mixed)) {
        throw UsageError(std::string(name_of(kind)) + " is measured in time: give --seconds");
    }
    if (asked.seconds && *asked.seconds > 1e9) throw UsageError("--seconds is at most 1e9");
}

}  // namespace

Arguments arguments(const std::vector<std::string>& words) {
    Arguments asked;
    if (const char* given = std::getenv("TWINLOOP_BURN_RATES")) {
        read_rates(asked.rates, given, "TWINLOOP_BURN_RATES");
    }
    for (std::size_t at = 0; at < words.size(); ++at) {
        std::string word = words[at];
        if (word == "-h" || word == "--help") {
            asked.help = true;
            continue;
        }
        if (word == "--calibrate") {
            asked.calibrate = true;
            continue;
        }
        if (!word.starts_with("-")) {
            const auto kind = kind_of(word);
            if (!kind) throw UsageError("'" + word + "' is no kind of work");
            asked.kinds.push_back(*kind);
            continue;
        }
        std::string value;
        if (const std::size_t equals = word.find('='); equals != std::string::npos) {
            value = word.substr(equals + 1);
            word.resize(equals);
        } else if (at + 1 < words.size()) {
            value = words[++at];
        } else {
            throw UsageError(word + ": a value is missing");
        }
        const auto wrong = [&](const char* must) {
            return UsageError(word + " '" + value + "': " + must);
        };
        if (word == "--seconds") {
            asked.seconds = number_of(value);
            if (!asked.seconds) throw wrong("no number of seconds from 0 up");
        } else if (word == "--work") {
            asked.units = count_of(value);
            if (!asked.units) throw wrong("no whole number of units from 0 up to 2^53");
        } else if (word == "--threads") {
            const auto found = count_of(value);
            if (!found || *found < 1 || *found > most_threads) throw wrong("not from 1 to 4096");
            asked.threads = *found;
        } else if (word == "--seed") {
            const auto found = count_of(value);
            if (!found) throw wrong("no whole number from 0 up to 2^53");
            asked.seed = *found;
        } else if (word == "--rates") {
            read_rates(asked.rates, value, "--rates");
        } else {
            throw UsageError("there is no option " + word);
        }
    }
    check(asked);
    return asked;
}

}  // namespace twinloop::burn
