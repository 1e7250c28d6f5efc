// Test of arrays that share rows against vectors that do not: random changes of arrays and of their
// copies, on one thread and on several.
#include "kernel/shared_rows.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace twinloop;

// So large that chunks have few rows, and aligned as the rows of tasks.
struct alignas(64) LargeRow {
    std::uint64_t value = 7;
    std::uint64_t rest[511] = {};
};
static_assert(SharedRows<LargeRow>::chunk_rows == 8);

void check(bool condition, const char* what) {
    if (condition) return;
    std::printf("FAILED: %s\n", what);
    std::exit(1);
}

class Twins {
  public:
    explicit Twins(std::uint64_t seed) : random_(seed) {
        const std::size_t size = random_() % 3 == 0 ? 0 : random_() % 1200;
        rows_ = SharedRows<LargeRow>(size);
        values_.assign(size, LargeRow().value);
    }
    // A copy, which makes other changes.
    Twins fork() {
        Twins copy(*this);
        copy.random_.seed(random_());
        return copy;
    }

    void change(int steps) {
        for (int step = 0; step < steps; ++step) {
            const std::uint64_t kind = random_() % 100;
            if (kind < 60 && !values_.empty()) {
                const std::size_t at = random_() % values_.size();
                rows_.edit(at).value = values_[at] = random_();
            } else if (kind < 95) {
                LargeRow row;
                row.value = random_();
                rows_.push_back(row);
                values_.push_back(row.value);
            } else if (kind < 98) {
                const std::size_t size = values_.size() + random_() % 40;
                rows_.resize(size);
                values_.resize(size, LargeRow().value);
            } else if (kind == 98) {
                SharedRows<LargeRow> moved = std::move(rows_);
                rows_ = std::move(moved);
            } else if (random_() % 20 == 0) {
                rows_.clear();
                values_.clear();
            }
        }
    }
    void compare() const {
        check(rows_.size() == values_.size(), "the sizes differ");
        for (std::size_t at = 0; at < values_.size(); ++at)
            check(rows_[at].value == values_[at], "a row differs");
    }

  private:
    std::mt19937_64 random_;
    SharedRows<LargeRow> rows_;
    std::vector<std::uint64_t> values_;
};

void change_in_turns(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Twins> all;
    all.emplace_back(seed);
    for (int step = 0; step < 60; ++step) {
        const std::size_t at = random() % all.size();
        if (random() % 3 == 0 && all.size() < 8) {
            all.push_back(all[at].fork());
        } else if (random() % 5 == 0 && all.size() > 1) {
            std::swap(all[at], all.back());
            all.pop_back();
        } else {
            all[at].change(static_cast<int>(random() % 30));
        }
        for (const Twins& each : all) each.compare();
    }
}

void change_on_threads(std::uint64_t seed) {
    Twins original(seed);
    for (int round = 0; round < 3; ++round) {
        std::vector<std::jthread> workers;
        workers.reserve(3);
        for (int copy = 0; copy < 3; ++copy)
            workers.emplace_back([mine = original.fork()]() mutable {
                mine.change(100);
                Twins other = mine.fork();
                other.change(50);
                mine.compare();
                other.compare();
            });
        original.change(100);
        original.compare();
    }
}

}  // namespace

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 200;
    for (long seed = 0; seed < programs; ++seed) change_in_turns(static_cast<std::uint64_t>(seed));
    for (long seed = 0; seed < programs / 10; ++seed)
        change_on_threads(static_cast<std::uint64_t>(seed));
    std::printf("%ld passed, 0 failed\n", programs);
    return 0;
}
