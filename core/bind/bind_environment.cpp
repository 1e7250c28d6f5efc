#include <nanobind/stl/string.h>

#include <algorithm>

#include "bind/environment.hpp"
#include "bind/fast_call.hpp"
#include "bind/observers.hpp"
#include "kernel/checks.hpp"

namespace twinloop::bind {
namespace {

PyObject* fast_timeout(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<Environment>(self, [&](Environment& env) {
        const auto [delay, value] = read_arguments<2>("timeout() takes a delay and a value",
                                                      {"delay", "value"}, 1, args, count, names);
        return env.timeout(self, as_real(delay), value ? value : Py_None);
    });
}

nb::object args_after_two(PyObject* const* args, Py_ssize_t count) {
    if (count == 2) return {};
    nb::object tuple = nb::steal(PyTuple_New(count - 2));
    for (Py_ssize_t i = 2; i < count; ++i) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(tuple.ptr(), i - 2, args[i]);
    }
    return tuple;
}

PyObject* fast_call_at(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return guard_call<Environment>(self, [&](Environment& env) {
        if (count < 2) throw nb::type_error("call_at() takes a time and a function");
        return env.call_at(self, as_real(args[0]), args[1], args_after_two(args, count));
    });
}

PyObject* fast_call_later(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return guard_call<Environment>(self, [&](Environment& env) {
        if (count < 2) throw nb::type_error("call_later() takes a delay and a function");
        const double delay = as_real(args[0]);
        check_not_negative("delay", delay);
        return env.call_at(self, env.sim.now() + delay, args[1], args_after_two(args, count));
    });
}

PyMethodDef fast_methods[] = {
    {"timeout", as_method(&fast_timeout), METH_FASTCALL | METH_KEYWORDS,
     "Create an event that happens after `delay` seconds, for a process to yield."},
    {"call_at", as_method(&fast_call_at), METH_FASTCALL,
     "Call `function(*args)` at an absolute time."},
    {"call_later", as_method(&fast_call_later), METH_FASTCALL, R"doc(
Call `function(*args)` after `delay` seconds.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> timer = env.call_later(5, print, "five")
>>> other = env.call_later(9, print, "nine")
>>> other.cancel()
True
>>> env.run()
five
)doc"},
};

}  // namespace

void bind_environment(nb::module_& module) {
    nb::class_<Environment> environment(module, "Environment", nb::is_final(),
                                        nb::type_slots(collected<Environment>), R"doc(
A discrete-event simulation: a clock, an event queue, and resources that activities share.

Processes are generators that yield the events they wait for:

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(capacity=1, name="host")
>>> def job(name, work):
...     yield host.execute(work)
...     print(f"{env.now:g}: {name} done")
>>> for name, work in [("short", 2), ("long", 4)]:
...     process = env.process(job(name, work))
>>> env.run()
4: short done
6: long done

`start` is the initial time of the clock. `sharing` is the rule by which activities share a resource:
"max-min" (each gets min(limit, weight x level)) or "strict-priority" (higher priorities are served
first; equal priorities share max-min).
)doc");
    types.environment = reinterpret_cast<PyTypeObject*>(environment.ptr());
    environment
        .def(nb::init<double, const std::string&>(), nb::kw_only(), nb::arg("start") = 0.0,
             nb::arg("sharing") = "max-min",
             nb::sig("def __init__(self, *, start: float = 0.0, sharing: typing.Literal['max-min', "
                     "'strict-priority'] = 'max-min') -> None"))
        .def_prop_ro(
            "now", [](const Environment& self) { return self.sim.now(); },
            "The current time in seconds.")
        .def_prop_ro(
            "active_process",
            [](const Environment& self) {
                return self.active ? nb::borrow(self.active) : nb::object(nb::none());
            },
            nb::sig("def active_process(self) -> Process | None"),
            "The process that runs now; None outside of processes.")
        .def_prop_ro(
            "events", [](const Environment& self) { return self.sim.events(); },
            "The number of events so far: starts and ends of activities, timers, steps of "
            "profiles.")

        // Time
        .def(
            "event", [](nb::handle self) { return make<Event>(types.event, self); },
            nb::sig("def event(self) -> Event"),
            "Create an event, which is triggered by `succeed` or `fail`.")
        .def(
            "process",
            [](nb::handle self, nb::handle generator) {
                if (!PyIter_Check(generator.ptr()) ||
                    PyObject_HasAttrString(generator.ptr(), "throw") != 1)
                    throw nb::type_error(
                        "process() takes a generator: call the generator function, as in "
                        "env.process(job(1))");
                Environment& env = part<Environment>(self);
                nb::object process = make<Process>(types.process, self, generator);
                env.schedule(env.sim.now(), process, EventKind::urgent);
                ++env.processes;
                return process;
            },
            nb::arg("generator"),
            nb::sig("def process(self, generator: collections.abc.Generator[Event, typing.Any, "
                    "object]) "
                    "-> Process"),
            "Start a process: the generator runs from event to event, beginning now.")
        .def(
            "every",
            [](nb::handle self, double period, nb::handle function, nb::args args, nb::handle start,
               nb::handle count) {
                if (!PyCallable_Check(function.ptr()))
                    throw nb::type_error("a timer needs a function to call");
                Environment& env = part<Environment>(self);
                std::uint64_t times = std::numeric_limits<std::uint64_t>::max();
                if (!count.is_none()) {
                    const auto given = nb::cast<std::int64_t>(count);
                    if (given < 1) throw nb::value_error("count must be at least 1");
                    times = static_cast<std::uint64_t>(given);
                }
                check_positive("period", period);
                const double first =
                    start.is_none() ? env.sim.now() + period : nb::cast<double>(start);
                nb::object timer = make<Timer>(types.timer, self, function, args);
                part<Timer>(timer).event = env.schedule_timer_every(first, period, times, timer);
                return timer;
            },
            nb::arg("period"), nb::arg("function"), nb::arg("args"), nb::kw_only(),
            nb::arg("start") = nb::none(), nb::arg("count") = nb::none(),
            nb::sig(
                "def every(self, period: float, function: collections.abc.Callable[..., object], "
                "*args: object, start: float | None = None, count: int | None = None) -> Timer"),
            R"doc(
Call `function(*args)` periodically: first at `start` (by default one period from now), `count` times
or until cancelled.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> timer = env.every(10, lambda: print(f"tick at {env.now:g}"), count=3)
>>> env.run()
tick at 10
tick at 20
tick at 30
)doc")
        .def(
            "run", [](Environment& self, nb::handle until) { return self.run(until); },
            nb::arg("until") = nb::none(),
            nb::sig("def run(self, until: float | Event | None = None) -> typing.Any"), R"doc(
Run to the end, until a time, or until an event has happened; return the value of that event.

Events at the time `until` itself are left for the next run. A run to the end raises `StalledError`
if activities remain that can never end:

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(0, name="host")
>>> job = host.execute(1, name="job")
>>> env.run()
Traceback (most recent call last):
    ...
twinloop.engine.StalledError: 1 activity can never end:
  job: the capacity of host is 0 and nothing is left to change it
)doc")
        .def("step", &Environment::step,
             "Process the next event (simultaneous ends on one resource count as one); return "
             "False if "
             "there is none.")
        .def(
            "peek",
            [](Environment& self) {
                self.check_idle();
                return self.sim.next_time();
            },
            "Return the time of the next event; infinity if there is none.")
        .def(
            "jump",
            [](Environment& self, double to) {
                self.check_idle();
                self.sim.jump(to);
            },
            nb::arg("to"), "Advance the clock without events; an event before `to` is an error.")
        .def("skip", &Environment::skip, nb::arg("to"), R"doc(
Advance the clock and drop the timers before `to`; return the number of dropped calls.

Recurring timers continue with their first time at or after `to`. Activities are not dropped: they
continue and end at their usual times.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> timer = env.every(10, lambda: print(f"tick at {env.now:g}"))
>>> env.skip(95)
9
>>> env.run(until=101)
tick at 100
)doc")

        // Resources and activities
        .def(
            "resource",
            [](nb::handle self, double capacity, nb::handle name, nb::handle efficiency) {
                return part<Environment>(self).add_resource(
                    self, capacity, name.is_none() ? "" : nb::cast<std::string>(name), efficiency);
            },
            nb::arg("capacity"), nb::arg("name") = nb::none(), nb::kw_only(),
            nb::arg("efficiency") = nb::none(),
            nb::sig(
                "def resource(self, capacity: float, name: str | None = None, *, efficiency: "
                "collections.abc.Mapping[int, collections.abc.Sequence[float]] | "
                "collections.abc.Callable[[dict[int, int]], collections.abc.Mapping[int, float]] "
                "| None = None) -> Resource"),
            R"doc(
Create a resource.

`efficiency` is the share of its consumption that an activity turns into work, depending on the other
activities there: a mapping of kind to the values for one, two, ... activities (the last value also
applies to more), or a function from counts by kind to efficiencies by kind, which must not use the
environment.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(2, efficiency={0: [1.0, 0.8]})
>>> jobs = [host.execute(8, limit=1) for _ in range(2)]
>>> env.run()
>>> env.now, jobs[0].consumed, jobs[0].done
(10.0, 10.0, 8.0)
)doc")
        .def(
            "start",
            [](nb::handle self, double work, nb::object resources, nb::handle limit, double weight,
               std::int64_t kind, std::int64_t priority, double latency, nb::handle at,
               nb::handle name) {
                if (Py_TYPE(resources.ptr()) != types.resource) resources = nb::tuple(resources);
                return part<Environment>(self).start(
                    self, work, resources, {limit, weight, kind, priority, latency, at, name});
            },
            nb::arg("work"), nb::arg("resources"), nb::kw_only(), nb::arg("limit") = nb::none(),
            nb::arg("weight") = 1.0, nb::arg("kind") = 0, nb::arg("priority") = 0,
            nb::arg("latency") = 0.0, nb::arg("at") = nb::none(), nb::arg("name") = nb::none(),
            nb::sig(
                "def start(self, work: float, resources: Resource | "
                "collections.abc.Iterable[Resource], *, limit: float | None = None, weight: float "
                "= 1.0, kind: int = 0, priority: int = 0, latency: float = 0.0, at: float | None "
                "= None, name: str | None = None) -> Activity"),
            R"doc(
Start an activity that uses one or more resources, at the same rate on all of them.

`limit` is its maximum rate, `weight` its weight in the sharing, `kind` the index of its efficiency,
`priority` its rank under strict priority. It starts after `latency` seconds, or at the time `at`.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> up, down = env.resource(100, "up"), env.resource(40, "down")
>>> transfer = env.start(800, [up, down])
>>> env.run()
>>> transfer.finished
20.0
)doc")
        .def_prop_ro("activities", &Environment::activities,
                     nb::sig("def activities(self) -> list[Activity]"),
                     "The activities that have not ended, in the order of their start.")
        .def_prop_ro(
            "resources",
            [](const Environment& self) {
                nb::list list;
                for (PyObject* each : self.resources)
                    if (!part<Resource>(each).last) list.append(nb::handle(each));
                return list;
            },
            nb::sig("def resources(self) -> list[Resource]"),
            "All resources, without leases that were released, by their index.")
        .def(
            "influence_group",
            [](Environment& self, nb::handle resource) {
                const auto route = self.route_of(resource);
                if (route.size() != 1)
                    throw nb::value_error("influence_group() takes one resource");
                nb::list members;
                for (const ResourceId id : self.sim.influence_group(route.front()))
                    members.append(nb::handle(self.resources[id]));
                return members;
            },
            nb::arg("resource"),
            nb::sig("def influence_group(self, resource: Resource) -> list[Resource]"),
            "Return the resources that activities couple to this one, directly or indirectly, "
            "including itself.")

        .def_prop_ro(
            "network", [](nb::handle self) { return network_of(self); },
            nb::sig("def network(self) -> Network | None"),
            "The network of the environment, if `Network(env)` has made one.")

        // Observers
        .def(
            "observe",
            [](nb::handle self, nb::handle started, nb::handle ended, nb::handle rate) {
                for (const nb::handle each : {started, ended, rate})
                    if (!each.is_none() && !PyCallable_Check(each.ptr()))
                        throw nb::type_error("observe() takes functions");
                nb::object object = make<Onlooker>(types.onlooker, self, started, ended, rate);
                attach(self, object, &part<Onlooker>(object));
                return object;
            },
            nb::kw_only(), nb::arg("started") = nb::none(), nb::arg("ended") = nb::none(),
            nb::arg("rate") = nb::none(),
            nb::sig(
                "def observe(self, *, started: collections.abc.Callable[[Activity], object] | None "
                "= None, ended: collections.abc.Callable[[Activity], object] | None = None, rate: "
                "collections.abc.Callable[[Resource], object] | None = None) -> Observer"),
            R"doc(
Register callbacks for the start and the end of activities and for changes of the rate of resources.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(2, "host")
>>> observer = env.observe(rate=lambda r: print(f"{env.now:g}: {r.name} at {r.rate:g}"))
>>> job = host.execute(5, limit=1)
>>> env.run()
0: host at 1
5: host at 0
)doc")
        .def(
            "record",
            [](nb::handle self) {
                nb::object object = make<Recording>(types.recording, self);
                attach(self, object, &part<Recording>(object).recorder);
                return object;
            },
            nb::sig("def record(self) -> Recording"),
            "Record the rates of all resources from now on, without calls into Python.")

        // Copies
        .def("copy", &Environment::copy, nb::sig("def copy(self) -> Environment"), R"doc(
Return an independent copy of the simulation, which gives the same results.

Python code cannot be copied: an environment with running processes, pending timers or activities
that a process waits for raises an error. Observers are not copied; efficiency functions are shared.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(1)
>>> job = host.execute(10)
>>> env.run(until=3)
>>> what_if = env.copy()
>>> what_if.counterpart(host).set_capacity(7)
>>> what_if.run(); env.run()
>>> what_if.now, env.now
(4.0, 10.0)
)doc")
        .def(
            "counterpart", &Environment::counterpart, nb::arg("original"),
            "Return the resource or activity of this copy that corresponds to one of the original.")
        .def("__repr__", [](const Environment& self) {
            const auto counted = [](std::size_t count, const char* one, const char* many) {
                return std::to_string(count) + " " + (count == 1 ? one : many);
            };
            return "<Environment at " + text(self.sim.now()) + ": " +
                   counted(self.resources.size(), "resource", "resources") + ", " +
                   counted(self.sim.live(), "activity", "activities") + ">";
        });
    add_methods(environment, fast_methods);
}

}  // namespace twinloop::bind
