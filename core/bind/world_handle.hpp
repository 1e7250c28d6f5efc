// A run in the Python interface.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "bind/in_use.hpp"
#include "bind/policies.hpp"
#include "world/world.hpp"

namespace twinloop::bind {

// A run that can be accessed only through `hold`, which guards against concurrent use.
class WorldHandle {
  public:
    WorldHandle(std::unique_ptr<World> run, nb::object names, std::shared_ptr<InUse> guard)
        : run_(std::move(run)), names_(std::move(names)), guard_(std::move(guard)) {}

    [[nodiscard]] Held<World> hold() const { return {*run_, guard_}; }
    [[nodiscard]] View view() const { return {&hold()->scheduler(), names_, guard_}; }
    // The names of tasks and machines, after machines were added.
    void set_names(nb::object names) {
        const auto run = hold();
        names_ = std::move(names);
        rename(run->controller(), names_);
    }
    // With another policy if that is not None. `seed`: of a policy in Python.
    [[nodiscard]] WorldHandle copy(nb::handle policy, std::uint64_t seed, bool resumes,
                                   bool history) const {
        const auto run = hold();
        auto made =
            policy.is_none() ? run->controller().clone() : policy_from(policy, names_, seed);
        Controller& kept = *made;
        const WorldState& state = run->state();
        auto other = std::make_unique<World>(*run, std::move(made));
        if (state.scenario->may_share(state.values, kept)) other->share_machines();
        auto guard = make_guard();
        attach(kept, guard);
        if (!policy.is_none())
            other->introduce_controller(resumes ? Interrupted::resume : Interrupted::restart);
        if (!history) other->forget_history();
        return {std::move(other), names_, std::move(guard)};
    }
    static std::shared_ptr<InUse> make_guard() { return std::make_shared<InUse>("a simulation"); }

  private:
    std::unique_ptr<World> run_;
    nb::object names_;
    std::shared_ptr<InUse> guard_;
};

// An enumerator as Python reads it.
template <class Enum>
std::uint8_t code(Enum value) {
    return static_cast<std::uint8_t>(value);
}

// The clouds of a run: tables of instances, and orders from outside.
void bind_clouds(nb::class_<WorldHandle>& run);

}  // namespace twinloop::bind
