// Runs random programs from a fixed seed; the argument is their number.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "program.hpp"

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    for (long seed = 0; seed < programs; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        std::vector<std::uint8_t> bytes(20 + random() % 400);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        std::fprintf(stderr, "\rprogram %ld", seed);
        run_program(bytes);
    }
    std::printf("\n%ld passed, 0 failed\n", programs);
    return 0;
}
