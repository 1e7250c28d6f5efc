#include "arguments.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include "numbers.hpp"

namespace twinloop::burn {

namespace {

constexpr std::uint64_t most_threads = 4096;

void read_rates(Rates& rates, const std::string& text, const std::string& from) {
    if (const auto problem = rates.read(text)) throw UsageError(from + " " + *problem);
}

template <typename Value>
Value required(const std::optional<Value>& value, const std::string& option,
               const std::string& text, const std::string& must) {
    if (!value) throw UsageError(option + " '" + text + "': " + must);
    return *value;
}

// Number of occurrences of the two mutually exclusive options.
struct Amounts {
    int seconds = 0;
    int units = 0;
};

void check(const Arguments& asked, Amounts given) {
    if (asked.help) return;
    if (asked.calibrate) {
        if (given.seconds + given.units == 0) return;
        throw UsageError("--calibrate takes kinds, not --seconds or --work");
    }
    if (asked.kinds.size() != 1) throw UsageError("give one kind of work");
    if (given.seconds + given.units != 1) throw UsageError("give either --seconds or --work");
    const Kind kind = asked.kinds.front();
    if (!asked.timed && (kind == Kind::sleep || kind == Kind::mixed)) {
        throw UsageError(std::string(name_of(kind)) + " is measured in time: give --seconds");
    }
    if (asked.seconds > 1e9) throw UsageError("--seconds is at most 1e9");
}

void set_option(Arguments& asked, Amounts& given, const std::string& option,
                const std::string& text) {
    if (option == "--seconds") {
        asked.seconds =
            required(number_of(text), option, text, "must be a number of seconds, 0 or more");
        asked.timed = true;
        ++given.seconds;
    } else if (option == "--work") {
        asked.units =
            required(count_of(text), option, text, "must be a whole number of units up to 2^53");
        ++given.units;
    } else if (option == "--threads") {
        auto found = count_of(text);
        if (found && (*found < 1 || *found > most_threads)) found.reset();
        asked.threads = required(found, option, text, "must be from 1 to 4096");
    } else if (option == "--seed") {
        asked.seed =
            required(count_of(text), option, text, "must be a whole number from 0 to 2^53");
    } else if (option == "--rates") {
        read_rates(asked.rates, text, option);
    } else {
        throw UsageError("unknown option " + option);
    }
}

}  // namespace

Arguments arguments(const std::vector<std::string>& words) {
    Arguments asked;
    Amounts given;
    if (const char* said = std::getenv("TWINLOOP_BURN_RATES")) {
        read_rates(asked.rates, said, "TWINLOOP_BURN_RATES");
    }
    for (std::size_t at = 0; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (word == "-h" || word == "--help") {
            asked.help = true;
        } else if (word == "--calibrate") {
            asked.calibrate = true;
        } else if (!word.starts_with('-')) {
            asked.kinds.push_back(
                required(kind_of(word), "kind", word,
                         "must be one of cpu, memory, stream, cache, mixed, sleep, io"));
        } else if (const std::size_t equals = word.find('='); equals != std::string::npos) {
            set_option(asked, given, word.substr(0, equals), word.substr(equals + 1));
        } else if (at + 1 < words.size()) {
            set_option(asked, given, word, words[++at]);
        } else {
            throw UsageError(word + " needs a value");
        }
    }
    check(asked, given);
    return asked;
}

}  // namespace twinloop::burn
