// Runs random programs from fixed seeds; the arguments are their number and the first seed.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "program.hpp"

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    const long first = count > 2 ? std::strtol(arguments[2], nullptr, 10) : 0;
    for (long seed = first; seed < first + programs; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        std::vector<std::uint8_t> bytes(20 + random() % 400);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        std::fprintf(stderr, "\rprogram %ld", seed);
        run_program(bytes);
    }
    std::printf("\n%ld passed, 0 failed\n", programs);
    return 0;
}
