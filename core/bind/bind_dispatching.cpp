// The scheduler with its policy without a simulation, for real executions.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <string>

#include "bind/event.hpp"
#include "bind/in_use.hpp"
#include "bind/policies.hpp"
#include "bind/sources.hpp"

namespace twinloop::bind {
namespace {

constexpr const char* decision_names[] = {"place", "preempt", "kill", "close", "reserve", "wake"};

// A policy and its scheduler state without a simulator, for real executions.
struct Dispatching {
    std::unique_ptr<Controller> policy;
    SchedulerState scheduler;

    void go_to(double now) {
        if (!(now >= scheduler.now()))
            throw nb::value_error("`now` is earlier than in the previous call");
        scheduler.set_now(now);
    }
    [[nodiscard]] TaskId task(std::int64_t task, Phase phase, const char* otherwise) const {
        const TaskId found = task_at(scheduler, task);
        if (scheduler.phase(found) != phase)
            throw nb::value_error(("task " + std::to_string(task) + " " + otherwise).c_str());
        return found;
    }
};

struct DispatcherHandle {
    mutable Dispatching dispatching;
    nb::object names;
    std::shared_ptr<InUse> guard = std::make_shared<InUse>("a dispatcher");

    [[nodiscard]] Held<Dispatching> hold() const { return {dispatching, guard}; }
};

void bind_dispatcher(nb::module_& module) {
    nb::class_<DispatcherHandle>(
        module, "Dispatcher", nb::is_final(),
        "A policy and its scheduler state without a simulation, for real executions: the caller "
        "reports events, `decide` returns decisions.")
        .def(
            "__init__",
            [](DispatcherHandle* self, const ScenarioHandle& scenario, nb::handle policy,
               std::uint64_t seed) {
                const Scenario& all = *scenario.scenario;
                auto decider = policy_from(policy, scenario.names, seed);
                SchedulerState scheduler = all.make_scheduler_state(*decider, ModelValues{});
                for (TaskId task = 0; task < all.size(); ++task)
                    scheduler.set_planned_time(task, all.requested_or_recorded_time(task));
                // Their sizes are known, but not where they are.
                if (all.files) scheduler.set_data({all.files.get(), nullptr, nullptr});
                // Real machines are opened and closed at once.
                scheduler.set_state_tables(StateTables::common());
                scheduler.set_controller(decider.get());
                new (self)
                    DispatcherHandle{{std::move(decider), std::move(scheduler)}, scenario.names};
                attach(*self->dispatching.policy, self->guard);
            },
            nb::arg("scenario"), nb::arg("policy"), nb::arg("seed") = 0)
        .def_prop_ro(
            "view",
            [](DispatcherHandle& self) {
                return View{&self.hold()->scheduler, self.names, self.guard};
            },
            nb::keep_alive<0, 1>(), "The view of the policy.")
        .def(
            "add",
            [](DispatcherHandle& self, nb::handle row) {
                const NewTask made = new_task_from(row);
                const auto held = self.hold();
                SchedulerState& scheduler = held->scheduler;
                const TaskId task = scheduler.add_task(made.row, made.amounts, made.name);
                const double asked = made.row.request.time;
                scheduler.set_planned_time(
                    task, std::isnan(asked) ? scheduler.tasks()[task].length : asked);
                return scheduler.is_possible(task);
            },
            nb::arg("row"), nb::sig("def add(self, row: object) -> bool"),
            "Add a task that is not in the scenario, a row of `twinloop.engine.new_rows`; return "
            "whether it can ever be placed. Its number is the next one.")
        .def(
            "submit",
            [](DispatcherHandle& self, std::int64_t task, double now, nb::handle submitted) {
                const auto held = self.hold();
                held->go_to(now);
                const TaskId found = held->task(task, Phase::absent, "has already been submitted");
                if (!submitted.is_none()) {
                    const auto since = nb::cast<double>(submitted);
                    if (!(since <= now))
                        throw nb::value_error("`submitted` must be a time up to `now`");
                    held->scheduler.set_times(found, since, held->scheduler.planned_time(found));
                }
                held->scheduler.submit(found);
            },
            nb::arg("task"), nb::arg("now"), nb::arg("submitted") = nb::none(),
            nb::sig("def submit(self, task: int, now: float, submitted: float | None = None) -> "
                    "None"),
            "Add a task to the queue; `submitted` is its submission time if earlier than `now`.")
        .def(
            "end",
            [](DispatcherHandle& self, std::int64_t task, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->scheduler.end(held->task(task, Phase::running, "has no machine"));
            },
            nb::arg("task"), nb::arg("now"),
            "Record the end of a task, which releases its machines.")
        .def(
            "reject_placement",
            [](DispatcherHandle& self, std::int64_t task, double now, const std::string& why) {
                const auto held = self.hold();
                held->go_to(now);
                const TaskId placed = held->task(task, Phase::running, "has no machine");
                const std::span<const Part> had = held->scheduler.parts(placed);
                const std::vector<Part> parts(had.begin(), had.end());
                held->scheduler.end(placed);
                held->scheduler.submit(placed);
                held->policy->start_failed(held->scheduler, placed, parts, why.c_str());
            },
            nb::arg("task"), nb::arg("now"), nb::arg("why") = "",
            "Return a placed task to the queue because it could not be started; the policy "
            "receives "
            "the reason.")
        .def(
            "withdraw",
            [](DispatcherHandle& self, std::int64_t task, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->scheduler.withdraw(held->task(task, Phase::waiting, "does not wait"));
            },
            nb::arg("task"), nb::arg("now"), "Remove a waiting task from the queue.")
        .def(
            "set_open",
            [](DispatcherHandle& self, std::int64_t machine, bool open, double now) {
                const auto held = self.hold();
                held->go_to(now);
                held->scheduler.set_present(machine_at(held->scheduler, machine), open);
            },
            nb::arg("machine"), nb::arg("open"), nb::arg("now"),
            "Set whether tasks may be placed on the machine.")
        .def_prop_ro(
            "wake_time",
            [](const DispatcherHandle& self) { return self.hold()->scheduler.wake_time(); },
            "The time of the next requested decision (s); infinite if none is requested.")
        .def(
            "decide",
            [](DispatcherHandle& self, double now) {
                const auto held = self.hold();
                held->go_to(now);
                nb::list made;
                if (!held->scheduler.must_decide()) {
                    if (held->scheduler.wake_time() <= now) held->scheduler.clear_wake();
                    return made;
                }
                for (const Order& decision : held->scheduler.decide()) {
                    nb::list where;
                    if (decision.kind == Order::Kind::place)
                        for (const Part& part : held->scheduler.parts(decision.task))
                            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                                where.append(nb::make_tuple(m, part.cores));
                    if (decision.machine != no_machine)
                        where.append(nb::make_tuple(decision.machine, 0.0));
                    const nb::object task =
                        decision.task == no_task ? nb::none() : nb::object(nb::int_(decision.task));
                    made.append(nb::make_tuple(
                        decision.state == running_state
                            ? "open"
                            : decision_names[static_cast<std::size_t>(decision.kind)],
                        task, where));
                }
                return made;
            },
            nb::arg("now"),
            nb::sig("def decide(self, now: float) -> list[tuple[str, int | None, list[tuple[int, "
                    "float]]]]"),
            "Return the decisions of the policy: (kind, task, machines and cores) for each.");
}

}  // namespace

void bind_dispatching(nb::module_& module) { bind_dispatcher(module); }

}  // namespace twinloop::bind
