#include <nanobind/stl/string.h>

#include "bind/environment.hpp"

namespace twinloop::bind {
namespace {

nb::object condition(const nb::list& events, bool all) {
    std::vector<PyObject*> members;
    nb::handle env;
    for (const nb::handle each : events) {
        const Event* event = as_event(each);
        if (!event)
            throw nb::type_error(
                (std::string("expected events, got ") + nb::repr(each).c_str()).c_str());
        if (!env.is_valid()) env = event->env_object();
        if (!env.is(event->env_object()))
            throw nb::value_error("the events belong to different environments");
        members.push_back(each.ptr());
    }
    if (!env.is_valid()) throw nb::value_error("at least one event is needed");
    const std::size_t needed = all ? members.size() : 1;
    nb::object object = make<Condition>(types.condition, env, std::move(members), needed);
    part<Condition>(object).watch(object);
    return object;
}

nb::object pair(nb::handle left, nb::handle right, bool all) {
    nb::list both;
    both.append(left);
    both.append(right);
    return condition(both, all);
}

std::string shown(nb::handle self) {
    const Event& event = part<Event>(self);
    const char* stage = event.stage == Stage::pending     ? "pending"
                        : event.stage == Stage::triggered ? "triggered"
                                                          : "processed";
    return std::string("<") + nb::type_name(self.type()).c_str() + " " + stage + ">";
}

}  // namespace

void bind_events(nb::module_& module) {
    nb::class_<Event> event(module, "Event", nb::is_final(), nb::type_slots(collected<Event>),
                            R"doc(
An event that happens once, and that processes can wait for.

Created by `Environment.event` and triggered by `succeed` or `fail`:

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> ready = env.event()
>>> def worker():
...     value = yield ready
...     print(f"{env.now:g}: received {value}")
>>> process = env.process(worker())
>>> timer = env.call_later(3, ready.succeed, "data")
>>> env.run()
3: received data
)doc");
    types.event = reinterpret_cast<PyTypeObject*>(event.ptr());
    event
        .def(
            "succeed",
            [](nb::handle self, nb::object value) {
                part<Event>(self).trigger(self, std::move(value), true);
            },
            nb::arg("value") = nb::none(),
            nb::sig("def succeed(self, value: object = None) -> None"),
            "Trigger the event with a value for the waiting processes.")
        .def(
            "fail",
            [](nb::handle self, nb::object exception) {
                if (!PyExceptionInstance_Check(exception.ptr()))
                    throw nb::type_error("fail() takes an exception");
                part<Event>(self).trigger(self, std::move(exception), false);
            },
            nb::arg("exception"), nb::sig("def fail(self, exception: BaseException) -> None"),
            "Trigger the event with an exception, which is raised in the waiting processes, or by "
            "`run` if no process waits.")
        .def(
            "add_callback",
            [](nb::handle self, nb::handle function) {
                if (!PyCallable_Check(function.ptr()))
                    throw nb::type_error("add_callback() takes a function of the event");
                Event& event = part<Event>(self);
                if (event.stage != Stage::processed) {
                    event.add_waiter(function);
                    return;
                }
                const nb::object timer =
                    make<Timer>(types.timer, event.env_object(), function, nb::make_tuple(self));
                part<Timer>(timer).event = event.env().schedule_timer(event.env().sim.now(), timer);
            },
            nb::arg("function"),
            nb::sig("def add_callback(self, function: collections.abc.Callable[[Event], object]) "
                    "-> None"),
            "Call `function(event)` when the event happens; immediately if it already has.")
        .def_prop_ro(
            "triggered", [](const Event& self) { return self.stage != Stage::pending; },
            "Whether the event has a value or an exception.")
        .def_prop_ro(
            "processed", [](const Event& self) { return self.stage == Stage::processed; },
            "Whether the callbacks and waiting processes have run.")
        .def_prop_ro(
            "ok", [](const Event& self) { return self.stage != Stage::pending && self.ok; },
            "Whether the event succeeded.")
        .def_prop_ro(
            "value",
            [](const Event& self) {
                return self.value ? nb::borrow(self.value) : nb::object(nb::none());
            },
            nb::sig("def value(self) -> typing.Any"),
            "The value, or the exception of a failed event; None while pending.")
        .def(
            "__and__", [](nb::handle self, nb::handle other) { return pair(self, other, true); },
            nb::sig("def __and__(self, other: Event) -> Condition"),
            "Condition on both events, as by `all_of`.")
        .def(
            "__or__", [](nb::handle self, nb::handle other) { return pair(self, other, false); },
            nb::sig("def __or__(self, other: Event) -> Condition"),
            "Condition on either event, as by `any_of`.")
        .def("__repr__", [](nb::handle self) { return shown(self); });

    types.timeout = reinterpret_cast<PyTypeObject*>(
        nb::class_<Timeout, Event>(
            module, "Timeout", nb::is_final(), nb::type_slots(collected<Timeout>),
            "An event that happens after a delay; see `Environment.timeout`.")
            .ptr());

    nb::class_<Process, Event> process(module, "Process", nb::is_final(),
                                       nb::type_slots(collected<Process>), R"doc(
A process: a generator that runs in an environment; see `Environment.process`.

A process is an event that happens when the generator returns, with the returned value.
)doc");
    types.process = reinterpret_cast<PyTypeObject*>(process.ptr());
    process
        .def(
            "interrupt",
            [](nb::handle self, nb::object cause) {
                part<Process>(self).interrupt(self, std::move(cause));
            },
            nb::arg("cause") = nb::none(),
            nb::sig("def interrupt(self, cause: object = None) -> None"), R"doc(
Raise `Interrupt` in the process, at the current time.

The event that it waited for is not cancelled.

>>> from twinloop.engine import Environment, Interrupt
>>> env = Environment()
>>> def sleeper():
...     try:
...         yield env.timeout(100)
...     except Interrupt as interrupt:
...         print(f"{env.now:g}: interrupted by {interrupt.cause}")
>>> process = env.process(sleeper())
>>> timer = env.call_later(2, process.interrupt, "timer")
>>> env.run(until=10)
2: interrupted by timer
)doc")
        .def_prop_ro(
            "is_alive", [](const Process& self) { return self.stage == Stage::pending; },
            "Whether the generator has not returned yet.")
        .def_prop_ro(
            "target",
            [](const Process& self) {
                return self.target ? nb::borrow(self.target) : nb::object(nb::none());
            },
            nb::sig("def target(self) -> Event | None"), "The event that the process waits for.");

    types.condition = reinterpret_cast<PyTypeObject*>(
        nb::class_<Condition, Event>(
            module, "Condition", nb::is_final(), nb::type_slots(collected<Condition>),
            "An event that depends on other events; see `all_of` and `any_of`.")
            .ptr());

    nb::class_<Timer> timer(
        module, "Timer", nb::is_final(), nb::type_slots(collected<Timer>),
        "A scheduled call; see `Environment.call_later` and `Environment.every`.");
    types.timer = reinterpret_cast<PyTypeObject*>(timer.ptr());
    timer
        .def(
            "cancel",
            [](nb::handle self) {
                const Timer& timer = part<Timer>(self);
                return timer.env().cancel_timer(timer.event, self);
            },
            "Cancel the scheduled calls; False if none was pending.")
        .def_prop_ro(
            "pending",
            [](nb::handle self) {
                const Timer& timer = part<Timer>(self);
                return timer.env().timer_pending(timer.event, self);
            },
            nb::sig("def pending(self) -> bool"), "Whether a call is scheduled.")
        .def_prop_ro(
            "time",
            [](nb::handle self) -> nb::object {
                const Timer& timer = part<Timer>(self);
                if (!timer.env().timer_pending(timer.event, self)) return nb::none();
                return nb::float_(timer.env().sim.timer_time(timer.event));
            },
            nb::sig("def time(self) -> float | None"),
            "The time of the next call; None if none is scheduled.");

    module.def(
        "all_of", [](nb::object events) { return condition(nb::list(events), true); },
        nb::arg("events"),
        nb::sig("def all_of(events: collections.abc.Iterable[Event]) -> Condition"), R"doc(
Return an event that happens when all `events` have happened; its value maps each to its value.

>>> from twinloop.engine import Environment, all_of
>>> env = Environment()
>>> def both():
...     one, two = env.timeout(1, "a"), env.timeout(2, "b")
...     values = yield all_of([one, two])
...     print(f"{env.now:g}: {values[one]} {values[two]}")
>>> process = env.process(both())
>>> env.run()
2: a b
)doc");
    module.def(
        "any_of", [](nb::object events) { return condition(nb::list(events), false); },
        nb::arg("events"),
        nb::sig("def any_of(events: collections.abc.Iterable[Event]) -> Condition"), R"doc(
Return an event that happens when the first of `events` happens; its value maps the events that have
happened to their values.

>>> from twinloop.engine import Environment, any_of
>>> env = Environment()
>>> def job(host):
...     work, deadline = host.execute(5), env.timeout(3)
...     happened = yield any_of([work, deadline])
...     print(f"{env.now:g}: {'done' if work in happened else 'too late'}")
>>> process = env.process(job(env.resource(1)))
>>> env.run()
3: too late
)doc");
}

}  // namespace twinloop::bind
