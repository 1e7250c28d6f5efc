// Free capacity under a long sequence of fractional tasks: sums must not drift.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "control/space.hpp"

namespace {

using namespace twinloop;

[[noreturn]] void fail(const char* law) {
    std::fprintf(stderr, "\nviolated: %s\n", law);
    std::abort();
}

struct Taken {
    Needs needs;
    std::vector<Part> parts;
};

void run(std::uint64_t seed, long operations) {
    std::mt19937_64 random(seed);
    const std::vector<MachineSpec> machines = {{3.0}, {4.0}, {1.0}, {2.5}};
    const Space empty(machines, 0, {});
    Space space = empty;
    std::vector<Taken> taken;
    const auto total = [&] {
        double sum = 0.0;
        for (MachineId m = 0; m < space.size(); ++m)
            if (space.open(m)) sum += space.cores(m);
        return sum;
    };
    for (long i = 0; i < operations; ++i) {
        const auto kind = random() % 8;
        if (kind == 0) {
            const auto machine = static_cast<MachineId>(random() % machines.size());
            space.set_open(machine, !space.open(machine));
        } else if (kind < 5) {
            Taken task;
            task.needs.cores = static_cast<double>(1 + random() % 30) / 10.0;
            if (!space.find(task.needs, task.parts)) continue;
            space.take(task.needs, task.parts);
            taken.push_back(task);
        } else if (!taken.empty()) {
            std::swap(taken[random() % taken.size()], taken.back());
            space.give(taken.back().needs, taken.back().parts);
            taken.pop_back();
        }
        if (std::abs(space.total_cores() - total()) > 1e-12)
            fail("the total is the sum of the free cores of the open machines");
    }
    for (const Taken& task : taken) space.give(task.needs, task.parts);
    for (MachineId m = 0; m < space.size(); ++m) {
        space.set_open(m, true);
        if (space.cores(m) != empty.cores(m)) fail("an empty machine has all its cores");
    }
    if (space.total_cores() != empty.total_cores()) fail("empty machines have all their cores");
}

}  // namespace

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 20;
    for (long seed = 0; seed < programs; ++seed) run(static_cast<std::uint64_t>(seed), 200'000);
    std::printf("%ld passed, 0 failed\n", programs);
    return 0;
}
