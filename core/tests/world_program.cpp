#include "world_program.hpp"

#include <array>
#include <memory>
#include <vector>

#include "random_scenario.hpp"
#include "world_laws.hpp"

namespace {

using namespace twinloop;

// A world and copies of it, which all operations must keep equal.
class Worlds {
  public:
    explicit Worlds(Bytes& bytes) : bytes_(bytes), made_(bytes), overcommits_(!made_.batch) {
        copies_.emplace_back(new World(made_.start()));
        instant_ = first().now();
    }

    void operate() {
        const double before = first().now();
        apply();
        for (const auto& each : copies_) {
            require(each->now() >= before, "time does not decrease");
            check_equal(first(), *each);
        }
        check_state(first(), overcommits_);
    }

    void finish() {
        for (const auto& each : copies_) {
            drain(*each);
            check_equal(first(), *each);
        }
        check_state(first(), overcommits_);
        if (!is_full(first())) check_end(first(), instant_);
    }

  private:
    [[nodiscard]] World& first() { return *copies_.front(); }
    [[nodiscard]] static bool is_full(const World& world) {
        return world.state().records.usage && world.state().records.usage->full();
    }

    // The next instant; false if there is none. The outages after the horizon become known when
    // they are needed.
    bool step(World& world) {
        bool stepped = world.step();
        if (!stepped && world.needs_outages()) {
            world.extend(made_.all);
            stepped = world.step();
        }
        if (stepped && &world == &first()) instant_ = world.now();
        return stepped;
    }

    void drain(World& world) {
        double last = world.now();
        for (int count = 0; step(world); ++count) {
            require(count < 100'000, "a run has an end");
            require(world.now() >= last, "time does not decrease");
            last = world.now();
        }
    }

    void run_until(World& world, double time) {
        while (world.next_time() <= time && step(world)) {
        }
        if (is_full(world)) return;
        world.run_until(time);
        if (!world.needs_outages()) return;
        world.extend(made_.all);
        world.run_until(time);
    }

    template <class Operation>
    void on_all(Operation&& operation) {
        for (const auto& each : copies_) operation(*each);
    }

    void apply() {
        switch (bytes_.below(16)) {
            case 0:
            case 1:
            case 2:
            case 3:
                on_all([&](World& world) { step(world); });
                break;
            case 4: {
                const double time = first().now() + pick(bytes_, {0.5, 0, 1, 3, 0.1, 1000});
                on_all([&](World& world) { run_until(world, time); });
                break;
            }
            case 5:
            case 6:
                if (copies_.size() < 3) copies_.push_back(std::make_unique<World>(first()));
                break;
            case 7:
                if (copies_.size() > 1) copies_.erase(copies_.begin());
                break;
            case 8:
            case 9:
                change([&](auto&& operation) { on_all(operation); });
                break;
            case 10: {
                // A copy that changes and ends does not affect the others.
                World branch(first());
                change([&](auto&& operation) { operation(branch); });
                drain(branch);
                check_state(branch, overcommits_);
                break;
            }
            default:
                inject();
                break;
        }
    }

    // A change of machines.
    template <class Apply>
    void change(Apply&& apply) {
        const WorldState& state = first().state();
        const auto machine = static_cast<MachineId>(bytes_.below(state.fleet.size()));
        switch (bytes_.below(10)) {
            case 0:
            case 1:
                apply([&](World& world) { world.fail(machine); });
                break;
            case 2:
                if (state.fleet[machine].outages > 0 && !is_on_absent_host(machine))
                    apply([&](World& world) { world.restore(machine); });
                break;
            case 3:
                resize(machine, apply);
                break;
            case 4: {
                const MachineSpec spec = pick_machine(bytes_, bytes_.below(2) == 0);
                const bool has_model = bytes_.below(2) != 0 && !state.fleet[machine].is_instance;
                const MachineId like = has_model ? machine : no_machine;
                const std::array<double, 1> amounts = {pick(bytes_, {0, 2})};
                const auto given = std::span(amounts).first(state.scheduler.space().resources());
                apply([&](World& world) { world.add_machine(spec, given, like); });
                break;
            }
            case 5: {
                const auto target = static_cast<StateId>(bytes_.below(5));
                if (!state.scheduler.state_table(machine).has(target) ||
                    state.scheduler.state_table(machine)[target].is_transition())
                    break;
                apply([&](World& world) { (void)world.set_state(machine, target); });
                break;
            }
            case 6:
            case 7:
                rent(machine, apply);
                break;
            case 8: {
                const auto host = static_cast<MachineId>(bytes_.below(state.fleet.size()));
                const bool beyond = pick_beyond();
                apply([&](World& world) { (void)world.move_instance(machine, host, beyond); });
                break;
            }
            default:
                if (!state.fleet[machine].removed)
                    apply([&](World& world) { world.remove_machine(machine); });
                break;
        }
    }

    [[nodiscard]] bool is_on_absent_host(MachineId machine) {
        const MachineId host = first().scheduler().host_of(machine);
        return host != no_machine && !first().scheduler().is_present(host);
    }
    [[nodiscard]] bool pick_beyond() {
        const bool beyond = bytes_.below(2) == 0;
        overcommits_ = overcommits_ || beyond;
        return beyond;
    }

    // An instance, or a refusal without effect.
    template <class Apply>
    void rent(MachineId host, Apply&& apply) {
        const double cores = pick(bytes_, {1, 2, 0.5, 4});
        const double memory = pick(bytes_, {1, never, 3});
        const bool beyond = pick_beyond();
        apply([&](World& world) {
            try {
                world.add_instance(host, cores, memory, beyond);
            } catch (const std::invalid_argument&) {
            }
        });
    }

    // To a size that its tasks fit in.
    template <class Apply>
    void resize(MachineId machine, Apply&& apply) {
        const WorldState& state = first().state();
        const double cores = pick(bytes_, {1, 2, 4, 8, 0.5, 0});
        if (state.fleet[machine].is_instance) {
            const bool beyond = pick_beyond();
            apply([&](World& world) { (void)world.resize_instance(machine, cores, beyond); });
            return;
        }
        const double capacity = state.scheduler.machines()[machine].cores;
        const double used = capacity - state.scheduler.space().cores(machine);
        if (cores * state.values.effective_capacity < std::min(used, capacity) - slack) return;
        apply([&](World& world) { world.set_cores(machine, cores); });
    }

    void inject() {
        NewTask given;
        given.row = pick_task(bytes_);
        given.row.request.submit = first().now() + pick(bytes_, {0, 0, 1, 2.5});
        given.amounts.assign(first().scheduler().space().resources(), pick(bytes_, {0, 1}));
        const std::size_t tasks = first().tasks().size();
        for (std::size_t parents = bytes_.below(3); parents > 0 && tasks > 0; --parents) {
            const auto parent = static_cast<TaskId>(bytes_.below(tasks));
            if (std::ranges::find(given.parents, decltype(given.parents)::value_type(parent)) ==
                given.parents.end())
                given.parents.emplace_back(parent);
        }
        on_all([&](World& world) { world.inject(given); });
    }

    Bytes& bytes_;
    RandomScenario made_;
    bool overcommits_;
    double instant_ = 0.0;  // the last one of the first world
    std::vector<std::unique_ptr<World>> copies_;
};

}  // namespace

void run_world_program(std::span<const std::uint8_t> program) {
    Bytes bytes(program);
    Worlds worlds(bytes);
    while (!bytes.empty()) worlds.operate();
    worlds.finish();
}
