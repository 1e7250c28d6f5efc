// Runs of one scenario on several threads: the same results, bit by bit, as one after the other.
// The arguments are the numbers of scenarios and of threads. Under ThreadSanitizer it also shows
// that runs share nothing that one of them writes.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "random_scenario.hpp"
#include "world/kpis.hpp"
#include "world_laws.hpp"

namespace {

using namespace twinloop;

constexpr std::size_t rows = 12;

// Values by name, as `run_many` receives them.
const std::vector<std::pair<const char*, double ModelValues::*>> common = {
    {"speed_factor", &ModelValues::speed_factor},
    {"service_factor", &ModelValues::service_factor},
    {"startup_overhead", &ModelValues::startup_overhead},
    {"effective_capacity", &ModelValues::effective_capacity},
    {"dispatch_latency", &ModelValues::dispatch_latency},
    {"release_latency", &ModelValues::release_latency},
    {"decision_interval", &ModelValues::decision_interval}};

ValueColumns make_columns() {
    ValueColumns made;
    for (const auto& each : common) made.add(each.first);
    return made;
}

std::vector<double> pick_row(ModelValues values, std::mt19937_64& random) {
    const auto factor = [&] { return 0.5 + static_cast<double>(random() % 8) / 4.0; };
    values.speed_factor *= factor();
    values.service_factor *= factor();
    std::vector<double> row;
    for (const auto& each : common) row.push_back(values.*each.second);
    return row;
}

std::unique_ptr<World> start(const RandomScenario& made, std::span<const double> row) {
    static const ValueColumns columns = make_columns();
    return std::make_unique<World>(made.scenario, made.all, made.scenario->values(row, columns),
                                   made.controller->clone(), made.recording);
}

std::unique_ptr<World> run(const RandomScenario& made, std::span<const double> row) {
    auto world = start(made, row);
    while (world->step()) {
    }
    return world;
}

void compare(std::uint64_t seed, unsigned threads) {
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> bytes(600);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    Bytes program(bytes);
    const RandomScenario made(program);
    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < rows; ++i) values.push_back(pick_row(made.values, random));
    std::vector<std::unique_ptr<World>> found(rows);
    {
        std::atomic<std::size_t> next{0};
        std::vector<std::jthread> workers;
        for (unsigned i = 0; i < threads; ++i)
            workers.emplace_back([&] {
                for (std::size_t row = next++; row < rows; row = next++)
                    found[row] = run(made, values[row]);
            });
    }
    for (std::size_t i = 0; i < rows; ++i) {
        const auto expected = run(made, values[i]);
        check_equal(*expected, *found[i]);
        const auto here = kpis(*expected);
        const auto there = kpis(*found[i]);
        for (std::size_t kpi = 0; kpi < here.size(); ++kpi)
            require(here[kpi] == there[kpi] || (here[kpi] != here[kpi] && there[kpi] != there[kpi]),
                    "runs on threads have the same figures");
    }
}

// Copies of a running world and the world itself continue at the same time.
void fork(std::uint64_t seed, unsigned threads) {
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> bytes(600);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    Bytes program(bytes);
    const RandomScenario made(program);
    const auto row = pick_row(made.values, random);
    const auto first = start(made, row);
    World& world = *first;
    const auto finish = [](World& run) {
        while (run.step()) {
        }
    };
    for (std::uint64_t steps = random() % 20; steps > 0 && world.step(); --steps) {
    }
    std::vector<std::unique_ptr<World>> copies;
    {
        std::vector<std::jthread> workers;
        for (unsigned i = 0; i < threads; ++i) {
            World& copy = *copies.emplace_back(std::make_unique<World>(world));
            workers.emplace_back([&] { finish(copy); });
        }
        finish(world);
    }
    const auto expected = run(made, row);
    for (const auto& copy : copies) check_equal(*expected, *copy);
    check_equal(*expected, world);
}

}  // namespace

int main(int count, char** arguments) {
    const long scenarios = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 200;
    const long threads = count > 2 ? std::strtol(arguments[2], nullptr, 10) : 4;
    for (long seed = 0; seed < scenarios; ++seed)
        compare(static_cast<std::uint64_t>(seed), static_cast<unsigned>(threads));
    for (long seed = 0; seed < scenarios; ++seed)
        fork(static_cast<std::uint64_t>(seed), static_cast<unsigned>(threads));
    std::printf("%ld passed, 0 failed\n", scenarios);
    return 0;
}
