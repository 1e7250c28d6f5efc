// Test of a space whose state is one bit per machine against its twin, whose state is in vectors:
// the same answers to the same random requests.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "control/space.hpp"

namespace {

using namespace twinloop;

struct Placement {
    Needs needs;
    std::vector<Part> parts;
};

class Twins {
  public:
    Twins(std::size_t machines, std::uint64_t seed)
        : random_(seed), bits_(std::vector<MachineSpec>(machines), 0, {}), vectors_(bits_) {
        // Any change of a machine moves the state to the vectors, even one that changes nothing.
        vectors_.set_open(0, true);
        fractions_ = random_() % 2 == 0;
    }

    void run(int steps) {
        for (int step = 0; step < steps; ++step) {
            const std::uint64_t kind = random_() % 100;
            if (kind < 50) {
                place();
            } else if (kind < 98 || !fractions_) {
                release();
            } else {
                close_or_open();
            }
            check(bits_.total_cores() == vectors_.total_cores(), "the free cores differ");
            for (MachineId m = 0; m < bits_.size(); ++m) compare(m);
        }
    }

  private:
    void place() {
        Needs needs;
        needs.cores = static_cast<double>(1 + random_() % (random_() % 2 ? 4 : bits_.size()));
        if (fractions_ && random_() % 20 == 0) needs.cores += random_() % 2 ? -1.0 : 0.5;
        if (random_() % 4 == 0) needs.nodes = static_cast<std::int32_t>(needs.cores);
        std::vector<Part> parts;
        std::vector<Part> twin;
        const bool found = find(bits_, needs, parts);
        check(found == find(vectors_, needs, twin), "only one has room");
        check(parts.size() == twin.size(), "the parts differ");
        for (std::size_t i = 0; i < parts.size(); ++i)
            check(parts[i].machine == twin[i].machine && parts[i].count == twin[i].count &&
                      parts[i].cores == twin[i].cores,
                  "the parts differ");
        picky_ = random_() % 4 == 0;
        if (!found) return;
        // A controller may take more than is free.
        if (fractions_ && random_() % 50 == 0)
            parts = {{static_cast<MachineId>(random_() % bits_.size()), 1, 1.0}};
        bits_.take(needs, parts);
        vectors_.take(needs, parts);
        placed_.push_back({needs, parts});
    }

    bool find(const Space& space, const Needs& needs, std::vector<Part>& parts) const {
        if (!picky_) return space.find(needs, parts);
        return space.find(needs, [](MachineId machine) { return machine % 3 != 1; }, parts);
    }

    void release() {
        if (placed_.empty()) return;
        std::swap(placed_[random_() % placed_.size()], placed_.back());
        bits_.give(placed_.back().needs, placed_.back().parts);
        vectors_.give(placed_.back().needs, placed_.back().parts);
        placed_.pop_back();
    }

    void close_or_open() {
        const auto machine = static_cast<MachineId>(random_() % bits_.size());
        const bool open = !bits_.open(machine);
        bits_.set_open(machine, open);
        vectors_.set_open(machine, open);
    }

    void compare(MachineId m) const {
        check(bits_.cores(m) == vectors_.cores(m) && bits_.memory(m) == vectors_.memory(m) &&
                  bits_.occupants(m) == vectors_.occupants(m) && bits_.open(m) == vectors_.open(m),
              "a machine differs");
        check(bits_.index().test(m) == vectors_.index().test(m), "the index differs");
        check(bits_.index().next(m) == vectors_.index().next(m), "the next free machine differs");
    }

    static void check(bool holds, const char* what) {
        if (holds) return;
        std::printf("%s\n", what);
        std::exit(1);
    }

    std::mt19937_64 random_;
    Space bits_;
    Space vectors_;
    std::vector<Placement> placed_;
    bool fractions_ = false;  // some tasks take parts of cores, and machines are closed
    bool picky_ = false;      // not all machines are allowed
};

}  // namespace

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    for (long seed = 0; seed < programs; ++seed) {
        const auto number = static_cast<std::uint64_t>(seed);
        Twins(1 + number * number % 300, number).run(100);
    }
    std::printf("%ld passed, 0 failed\n", programs);
    return 0;
}
