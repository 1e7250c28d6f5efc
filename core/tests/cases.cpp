// Small simulations of the kernel with results worked out by hand, for interfaces that only native
// code uses.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernel/simulation.hpp"

namespace {

using namespace twinloop;

void require_equal(double value, double expected, const char* what) {
    if (value == expected || std::abs(value - expected) <= 1e-12 * std::abs(expected)) return;
    std::fprintf(stderr, "%s: %.17g, expected %.17g\n", what, value, expected);
    std::exit(1);
}

ActivitySpec work_of(double work, double limit = never, double weight = 1.0) {
    ActivitySpec spec;
    spec.work = work;
    spec.limit = limit;
    spec.weight = weight;
    return spec;
}

// Work takes `load` times as long on a resource that is overloaded by that factor.
class ByLoad final : public Efficiency {
  public:
    void evaluate(const Presence& where, std::span<KindPresence> present) const override {
        for (KindPresence& each : present)
            each.efficiency = std::min(1.0, where.capacity / where.demand);
    }
};

void test_efficiency_follows_demand_and_capacity(bool in_group) {
    Simulation simulation;
    const ResourceId host = simulation.add_resource(2.0, std::make_shared<ByLoad>());
    const ResourceId other = simulation.add_resource(100.0);
    std::vector<ResourceId> route = {host};
    if (in_group) route.push_back(other);
    const auto first = simulation.start(work_of(100.0, 2.0), route);
    const auto second = simulation.start(work_of(100.0, 2.0), route);
    // Demand 4 on capacity 2: each draws 1, of which half becomes work.
    simulation.run_until(8.0);
    require_equal(simulation.work_done(first), 4.0, "work at load 2");
    simulation.set_capacity(host, 4.0);
    simulation.run_until(10.0);
    require_equal(simulation.work_done(first), 8.0, "work at load 1 after a change of capacity");
    simulation.set_limit(second, 6.0);
    // Demand 8 on capacity 4: each draws 2, of which half becomes work.
    simulation.run_until(14.0);
    require_equal(simulation.work_done(first), 12.0, "work at load 2 after a change of limit");
    require_equal(simulation.consumed(first), 20.0, "consumption");
    simulation.set_limit(second, never);
    simulation.run_until(20.0);
    require_equal(simulation.work_done(first), 12.0, "work beside an activity without a limit");
    simulation.cancel(second);
    simulation.run_until(21.0);
    require_equal(simulation.work_done(first), 14.0, "work of an activity that is alone again");
}

class LinearCost final : public CostModel {
  public:
    LinearCost(double idle, double full) : idle_(idle), full_(full) {}
    [[nodiscard]] double rate(double used, double capacity) const override {
        return idle_ + (full_ - idle_) * used / capacity;
    }

  private:
    double idle_;
    double full_;
};

void test_cost_is_charged_in_proportion_to_rates(bool in_group) {
    Simulation simulation;
    const ResourceId host = simulation.add_resource(4.0);
    const ResourceId other = simulation.add_resource(100.0);
    std::vector<ResourceId> route = {host};
    if (in_group) route.push_back(other);
    const auto narrow = simulation.start(work_of(100.0, 1.0), route);
    simulation.run_until(1.0);
    simulation.set_cost_model(host, std::make_shared<LinearCost>(10.0, 50.0));
    simulation.run_until(2.0);
    // One of four in use costs 20 per second.
    require_equal(simulation.cost(host), 20.0, "cost of the first second with a model");
    require_equal(simulation.cost(narrow), 20.0, "charge of the only activity");
    const auto wide = simulation.start(work_of(100.0), route);
    simulation.run_until(4.0);
    // All in use costs 50 per second: 12.5 for each unit of rate.
    require_equal(simulation.cost(host), 120.0, "cost of a full resource");
    require_equal(simulation.cost(narrow), 45.0, "charge at the limit");
    require_equal(simulation.cost(wide), 75.0, "charge at the level");
    simulation.set_limit(narrow, 3.0);
    simulation.run_until(5.0);
    require_equal(simulation.cost(narrow), 70.0, "charge after a switch to the level");
    require_equal(simulation.cost(wide), 100.0, "charge beside it");
    const Simulation copy(simulation);
    simulation.suspend(narrow);
    simulation.suspend(wide);
    simulation.run_until(6.0);
    require_equal(simulation.cost(host), 180.0, "cost of an idle second");
    require_equal(simulation.cost(narrow), 70.0, "charge of a suspended activity");
    simulation.set_cost_model(host, nullptr);
    simulation.resume(wide);
    simulation.run_until(8.0);
    require_equal(simulation.cost(host), 180.0, "cost without a model");
    require_equal(simulation.cost(wide), 100.0, "charge without a model");
    simulation.set_cost_model(host, std::make_shared<LinearCost>(10.0, 10.0));
    simulation.set_cost_model(other, std::make_shared<LinearCost>(2.0, 2.0));
    simulation.run_until(9.0);
    require_equal(simulation.cost(host), 190.0, "cost of another model");
    require_equal(simulation.cost(wide), in_group ? 112.0 : 110.0, "charge of all resources");
    require_equal(simulation.cost(other), 2.0, "cost of the other resource");
    require_equal(copy.cost(host), 170.0, "cost in a copy");
}

void test_charges_start_where_a_resource_gets_its_first_model() {
    Simulation simulation;
    const ResourceId priced = simulation.add_resource(1.0);
    const ResourceId other = simulation.add_resource(1.0);
    simulation.set_cost_model(priced, std::make_shared<LinearCost>(3.0, 3.0));
    const ResourceId first[] = {priced};
    const ResourceId second[] = {other};
    const auto stays = simulation.start(work_of(100.0), first);
    simulation.run_until(2.0);
    const auto moves = simulation.start(work_of(100.0), first);
    simulation.run_until(4.0);
    require_equal(simulation.cost(stays), 9.0, "charge of the first activity");
    require_equal(simulation.cost(moves), 3.0, "charge of the second activity");
    simulation.move(moves, second);
    simulation.run_until(5.0);
    simulation.set_cost_model(other, std::make_shared<LinearCost>(5.0, 5.0));
    simulation.run_until(6.0);
    require_equal(simulation.cost(moves), 8.0, "charge after the first model");
}

// A year at a price of 1e15 per unit of rate leaves the charges after it exact.
void test_small_charges_are_exact_after_large_prices() {
    Simulation simulation;
    const ResourceId host = simulation.add_resource(64.0);
    simulation.set_cost_model(host, std::make_shared<LinearCost>(100.0, 100.0));
    const ResourceId route[] = {host};
    const auto small = simulation.start(work_of(1e30, 1e-13), route);
    const auto late = simulation.start(work_of(1e30, 1.0), route);
    simulation.suspend(late);
    simulation.run_until(3e7);
    require_equal(simulation.cost(small), 3e9, "charge of the only activity");
    simulation.cancel(small);
    const auto least = simulation.start(work_of(1e30, 1e-13), route);
    simulation.run_until(6e7);
    simulation.resume(late);
    simulation.run_until(6e7 + 1.0);
    require_equal(simulation.cost(late), 100.0 / (1.0 + 1e-13), "charge of one second");
    require_equal(simulation.cost(least), 3e9, "charge of the activity beside it");
}

// A flow that couples a resource with many plain activities to another makes their group. Soon
// after its end the resource is shared by virtual time again, whether or not the rest of the group
// is still coupled, and the activities end and are charged as without it.
void test_a_group_dissolves_when_no_flow_couples_it(bool coupled_elsewhere) {
    constexpr int count = 1000;
    Simulation simulation;
    const ResourceId host = simulation.add_resource(1.0);
    const ResourceId link = simulation.add_resource(1e9);
    const ResourceId far = simulation.add_resource(1e9);
    simulation.set_cost_model(host, std::make_shared<LinearCost>(10.0, 50.0));
    const ResourceId plain[] = {host};
    const ResourceId path[] = {host, link};
    const ResourceId onward[] = {link, far};
    std::vector<ActivityId> sharers;
    for (int i = 1; i <= count; ++i) sharers.push_back(simulation.start(work_of(i), plain));
    if (coupled_elsewhere) (void)simulation.start(work_of(1e30, 1.0), onward);
    const auto flow = simulation.start(work_of(1.0, 1e-30), path);
    simulation.run_until(1.0);
    require_equal(simulation.has_group(host), true, "a group with the flow");
    simulation.cancel(flow);
    // The flow took next to nothing: activity i ends when those before it are done, and those after
    // it have done as much.
    const auto end_of = [](double i) { return i * (i + 1) / 2 + (count - i) * i; };
    const ActivityId last = sharers.back();
    for (const double ended : {1.0, 2.0, 61.0, 62.0}) {
        simulation.run_until(end_of(ended) + 0.5);
        require_equal(simulation.has_group(host), ended < (coupled_elsewhere ? 62.0 : 2.0),
                      "a group after the flow");
        require_equal(simulation.has_group(link), coupled_elsewhere, "a group elsewhere");
        require_equal(simulation.cost(last), 50.0 * simulation.consumed(last),
                      "charge of the last activity");
        require_equal(static_cast<double>(simulation.live()), count - ended + coupled_elsewhere,
                      "activities that have not ended");
    }
    simulation.run_until(end_of(count) + 0.5);
    require_equal(static_cast<double>(simulation.live()), coupled_elsewhere,
                  "activities at the end");
    require_equal(simulation.cost(host), 50.0 * end_of(count) + 10.0 * 0.5, "cost of the host");
}

// A flow that comes and goes does not take the group apart each time.
void test_a_group_outlives_a_short_gap_between_flows() {
    Simulation simulation;
    const ResourceId path[] = {simulation.add_resource(1.0), simulation.add_resource(1.0)};
    const ResourceId plain[] = {path[0]};
    for (int i = 0; i < 100; ++i) (void)simulation.start(work_of(1e6), plain);
    (void)simulation.start(work_of(0.0), path);
    simulation.run_until(1.0);
    require_equal(simulation.has_group(path[0]), true, "a group after the flow");
}

void test_kinds_are_forgotten_in_any_order() {
    Simulation simulation;
    const ResourceId route[] = {simulation.add_resource(
        1.0, std::make_shared<EfficiencyTable>(
                 std::map<Kind, std::vector<double>>{{5, {0.5}}, {9, {0.25}}}))};
    std::vector<ActivityId> started;
    for (const Kind kind : {Kind{9}, Kind{3}, Kind{5}, Kind{1}}) {
        ActivitySpec spec = work_of(100.0, 0.25);
        spec.kind = kind;
        started.push_back(simulation.start(spec, route));
    }
    simulation.run_until(4.0);
    simulation.suspend(started[1]);
    simulation.suspend(started[3]);
    simulation.run_until(8.0);
    simulation.resume(started[1]);
    simulation.cancel(started[0]);
    simulation.run_until(12.0);
    require_equal(simulation.work_done(started[1]), 2.0, "work of kind 3");
    require_equal(simulation.work_done(started[2]), 1.5, "work of kind 5");
    require_equal(simulation.work_done(started[3]), 1.0, "work of kind 1");
    require_equal(simulation.done(route[0]), 5.0, "work of all kinds");
}

void test_an_infinite_time_is_refused() {
    Simulation simulation;
    const ResourceId route[] = {simulation.add_resource(1.0)};
    (void)simulation.start(work_of(1.0), route);
    try {
        simulation.run_until(never);
    } catch (const std::invalid_argument&) {
        require_equal(simulation.now(), 0.0, "the time after a refusal");
        return;
    }
    require_equal(0.0, 1.0, "refusals of an infinite time");
}

// The level of the others is positive, although the limited activity takes the whole capacity.
void test_rates_add_up_where_a_weight_is_large() {
    for (const bool settled : {false, true}) {
        Simulation simulation;
        const ResourceId route[] = {simulation.add_resource(5.0)};
        const auto heavy = simulation.start(work_of(1e30, 5.0, 1e50), route);
        const auto light = simulation.start(work_of(1e30), route);
        if (settled) simulation.run_until(1.0);
        require_equal(simulation.rate(heavy), 5.0, "rate of the heavy activity");
        require_equal(simulation.rate(light), 5e-50, "rate of the light activity");
    }
}

void test_a_released_lease_is_refused() {
    Simulation simulation;
    const ResourceId host = simulation.add_resource(4.0);
    const ResourceId lease = simulation.add_lease(host, 2.0, 0.0);
    simulation.release_lease(lease);
    double refused = 0.0;
    for (const bool profile : {false, true}) {
        try {
            if (profile) simulation.set_profile(lease, {1.0}, {3.0});
            else simulation.set_capacity(lease, 3.0);
        } catch (const std::invalid_argument&) {
            ++refused;
        }
    }
    require_equal(refused, 2.0, "refusals of a released lease");
}

}  // namespace

int main() {
    for (const bool in_group : {false, true}) {
        test_efficiency_follows_demand_and_capacity(in_group);
        test_cost_is_charged_in_proportion_to_rates(in_group);
        test_a_group_dissolves_when_no_flow_couples_it(in_group);
    }
    test_a_group_outlives_a_short_gap_between_flows();
    test_kinds_are_forgotten_in_any_order();
    test_an_infinite_time_is_refused();
    test_rates_add_up_where_a_weight_is_large();
    test_a_released_lease_is_refused();
    test_charges_start_where_a_resource_gets_its_first_model();
    test_small_charges_are_exact_after_large_prices();
    std::puts("passed");
    return 0;
}
