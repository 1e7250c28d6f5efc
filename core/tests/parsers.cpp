// Parses random texts from a fixed seed; the argument is their number.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "texts.hpp"

int main(int count, char** arguments) {
    const long texts = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    for (long seed = 0; seed < texts; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        std::vector<std::uint8_t> bytes(random() % 200);
        // Mostly pieces of valid texts, which have small numbers.
        for (std::uint8_t& byte : bytes)
            byte = static_cast<std::uint8_t>(random() % (random() % 8 ? 40 : 256));
        check_parsers(bytes);
    }
    std::printf("%ld passed, 0 failed\n", texts);
    return 0;
}
