// The options of the built-in policies, and how one is made of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/desk.hpp"

namespace twinloop {

enum class Order : std::uint8_t { arrival, shortest, longest, priority, fair_share };
enum class Backfill : std::uint8_t { none, easy, easy_time, conservative };
enum class Preemption : std::uint8_t { no, restart, resume };

// Rigid tasks in one queue: who is first, and who may pass.
struct BatchOptions {
    Order order = Order::arrival;
    Backfill backfill = Backfill::none;
    bool compress = true;       // conservative: plan anew when a task ends early
    std::uint32_t depth = 0;    // waiting tasks that backfilling looks at; 0: all
    double age = 0.0;           // priority gained per second of waiting
    double half_life = 604800;  // of past use, for fair shares (s)
    bool by_group = false;      // shares of groups, not of users
    Preemption preemption = Preemption::no;
};

enum class Filter : std::uint8_t { instance_count, vcpu, ram, capacity, resource };
enum class Weigher : std::uint8_t { instance_count, vcpu, ram, capacity };
enum class Pick : std::uint8_t { first, random, round_robin };

// One task at a time to one machine: those that pass all filters, the best by weight.
struct FilterOptions {
    std::vector<std::pair<Filter, double>> filters;
    std::vector<std::pair<Weigher, double>> weighers;
    std::uint32_t subset = 1;
    bool skip = false;  // those behind a task that fits nowhere may pass it
    Pick pick = Pick::first;
    std::uint64_t seed = 0;
};

std::unique_ptr<Policy> make_batch(const BatchOptions& options);
std::unique_ptr<Policy> make_filter(const FilterOptions& options);

}  // namespace twinloop
