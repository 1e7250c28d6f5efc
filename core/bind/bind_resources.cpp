#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "bind/environment.hpp"
#include "kernel/checks.hpp"

namespace twinloop::bind {
namespace {

Simulation& sim(const Activity& activity) { return activity.env().sim; }

std::string_view state(const Activity& activity) {
    if (activity.ended) return activity.how == Ending::finished ? "finished" : "cancelled";
    switch (sim(activity).activity(activity.id).state) {
        case State::waiting:
            return "waiting";
        case State::suspended:
            return "suspended";
        default:
            return "running";
    }
}

// Applies a change to an active activity; raises an error if it has ended.
template <class Change>
void change(Activity& activity, const char* verb, Change&& apply) {
    if (activity.ended)
        throw std::runtime_error(std::string("cannot ") + verb + " activity " + activity.name() +
                                 ": it has " + std::string(state(activity)) + " already");
    apply(sim(activity));
}

class LinearCost final : public CostModel {
  public:
    LinearCost(double idle, double full) : idle_(idle), full_(full) {
        check_not_negative("idle", idle);
        check_not_negative("full", full);
    }
    [[nodiscard]] double rate(double used, double capacity) const override {
        const double utilisation = capacity > 0.0 ? std::min(used / capacity, 1.0) : 0.0;
        return idle_ + (full_ - idle_) * utilisation;
    }

  private:
    double idle_;
    double full_;
};

nb::object or_infinite(double limit) {
    return limit < never ? nb::object(nb::float_(limit)) : nb::none();
}

}  // namespace

void bind_resources(nb::module_& module) {
    nb::class_<Resource> resource(module, "Resource", nb::is_final(),
                                  nb::type_slots(collected<Resource>), R"doc(
A capacity that activities share: cores, bandwidth, a disk. Created by `Environment.resource`.

Sharing is max-min fair: each running activity gets min(limit, weight x level), where the level is
such that the rates add up to the capacity.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(capacity=4, name="host")
>>> narrow = host.execute(10, limit=1)
>>> wide = host.execute(30)
>>> narrow.rate, wide.rate, host.level
(1.0, 3.0, 3.0)
>>> env.run()
>>> env.now, host.consumed
(10.0, 40.0)
)doc");
    types.resource = reinterpret_cast<PyTypeObject*>(resource.ptr());
    resource
        .def(
            "execute",
            [](nb::handle self, double work, nb::handle limit, double weight, std::int64_t kind,
               std::int64_t priority, double latency, nb::handle at, nb::handle name) {
                const Resource& resource = part<Resource>(self);
                return resource.env().start(resource.env_object(), work, self,
                                            {limit, weight, kind, priority, latency, at, name});
            },
            nb::arg("work"), nb::kw_only(), nb::arg("limit") = nb::none(), nb::arg("weight") = 1.0,
            nb::arg("kind") = 0, nb::arg("priority") = 0, nb::arg("latency") = 0.0,
            nb::arg("at") = nb::none(), nb::arg("name") = nb::none(),
            nb::sig(
                "def execute(self, work: float, *, limit: float | None = None, weight: float = "
                "1.0, "
                "kind: int = 0, priority: int = 0, latency: float = 0.0, at: float | None = None, "
                "name: str | None = None) -> Activity"),
            R"doc(
Start an activity of so much `work` on the resource; `Environment.start` describes the options.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(2)
>>> def job():
...     yield host.execute(6)
...     return env.now
>>> env.run(until=env.process(job()))
3.0
)doc")
        .def(
            "set_capacity",
            [](Resource& self, double capacity) {
                self.sim().set_capacity(self.open_id(), capacity);
            },
            nb::arg("capacity"),
            "Set the capacity from now on; 0 stops all activities on the resource.")
        .def(
            "set_profile",
            [](Resource& self, std::vector<double> times, std::vector<double> capacities,
               nb::handle period) {
                self.sim().set_profile(self.open_id(), std::move(times), std::move(capacities),
                                       period.is_none() ? never : nb::cast<double>(period));
            },
            nb::arg("times"), nb::arg("capacities"), nb::arg("period") = nb::none(),
            nb::sig("def set_profile(self, times: collections.abc.Sequence[float], capacities: "
                    "collections.abc.Sequence[float], period: float | None = None) -> None"),
            R"doc(
Set the capacity over time: at each of `times` it changes to the corresponding value of `capacities`.

With a period the steps repeat. An earlier profile is replaced.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(1)
>>> host.set_profile([10, 20], [0, 1])
>>> job = host.execute(15)
>>> env.run()
>>> job.finished
25.0
)doc")
        .def(
            "set_cost",
            [](Resource& self, double idle, double full) {
                self.sim().set_cost_model(self.open_id(), std::make_shared<LinearCost>(idle, full));
            },
            nb::arg("idle"), nb::arg("full"), R"doc(
Set the cost per second, such as the power, from now on: `idle` when unused, `full` when all of the
capacity is in use, linear in between.

While activities use the resource, its cost is charged to them in proportion to their rates; the cost
of an unused resource is charged to none.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(4, name="host")
>>> host.set_cost(idle=100, full=300)
>>> jobs = [host.execute(30, limit=1), host.execute(30, limit=3)]
>>> env.run(until=10)
>>> host.cost, [job.cost for job in jobs]
(3000.0, [750.0, 2250.0])
)doc")
        .def(
            "remove_cost",
            [](Resource& self) { self.sim().set_cost_model(self.open_id(), nullptr); },
            "End the cost of the resource, as when a machine is switched off.")
        .def_prop_ro(
            "cost",
            [](const Resource& self) {
                return self.last ? self.last->cost : self.sim().cost(self.id);
            },
            "The cost so far: the integral of the cost per second.")
        .def_prop_ro(
            "capacity", [](const Resource& self) { return self.sim().capacity(self.open_id()); },
            "The current capacity.")
        .def_prop_ro(
            "level", [](const Resource& self) { return self.sim().level(self.open_id()); },
            "The rate per unit of weight of the activities below their limit; infinite if there "
            "are "
            "none.")
        .def_prop_ro(
            "rate", [](const Resource& self) { return self.sim().rate(self.open_id()); },
            "The capacity in use now.")
        .def_prop_ro(
            "consumed",
            [](const Resource& self) {
                return self.last ? self.last->consumed : self.sim().consumed(self.id);
            },
            "The capacity consumed so far: the integral of `rate`.")
        .def_prop_ro(
            "done",
            [](const Resource& self) {
                return self.last ? self.last->done : self.sim().done(self.id);
            },
            "The work done so far: consumption times efficiency.")
        .def_prop_ro(
            "running", [](const Resource& self) { return self.sim().running(self.open_id()); },
            "The number of activities that use the resource now.")
        .def_prop_ro(
            "name", [](const Resource& self) { return self.name; }, "The name.")
        .def_prop_ro(
            "index", [](const Resource& self) { return self.id; },
            "The index among the resources of the environment, from 0.")
        .def_prop_ro(
            "env", [](const Resource& self) { return nb::borrow(self.env_object()); },
            nb::sig("def env(self) -> Environment"), "The environment.")
        .def("__repr__", [](const Resource& self) {
            return "<Resource " + self.name + ": " +
                   (self.last ? "released" : "capacity " + text(self.sim().capacity(self.id))) +
                   ">";
        });
    bind_leases(resource);

    nb::class_<Activity, Event> activity(module, "Activity", nb::is_final(),
                                         nb::type_slots(collected<Activity>), R"doc(
Work in progress on one or more resources; see `Environment.start`.

An activity is an event that happens when the work is done. If it is cancelled, `Cancelled` is raised
in the waiting processes.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(1)
>>> job = host.execute(10, name="job")
>>> env.run(until=4)
>>> job.done, job.remaining
(4.0, 6.0)
>>> job.suspend(); env.run(until=10); job.resume()
>>> env.run()
>>> job.finished
16.0
)doc");
    types.activity = reinterpret_cast<PyTypeObject*>(activity.ptr());
    activity
        .def(
            "suspend",
            [](Activity& self) {
                change(self, "suspend", [&](Simulation& sim) { sim.suspend(self.id); });
            },
            "Pause the activity; the work done is kept.")
        .def(
            "resume",
            [](Activity& self) {
                change(self, "resume", [&](Simulation& sim) { sim.resume(self.id); });
            },
            "Continue after `suspend`.")
        .def(
            "cancel",
            [](Activity& self) {
                change(self, "cancel", [&](Simulation& sim) { sim.cancel(self.id); });
            },
            "End the activity now, unfinished.")
        .def(
            "set_limit",
            [](Activity& self, nb::handle limit) {
                const double value = limit.is_none() ? never : nb::cast<double>(limit);
                change(self, "limit", [&](Simulation& sim) { sim.set_limit(self.id, value); });
                self.limit = value;
            },
            nb::arg("limit").none(), nb::sig("def set_limit(self, limit: float | None) -> None"),
            "Set the maximum rate; None removes it, 0 stops the activity.")
        .def(
            "set_weight",
            [](Activity& self, double weight) {
                change(self, "weigh", [&](Simulation& sim) { sim.set_weight(self.id, weight); });
                self.weight = weight;
            },
            nb::arg("weight"), "Set the weight.")
        .def(
            "set_remaining",
            [](Activity& self, double work) {
                change(self, "change", [&](Simulation& sim) { sim.set_remaining(self.id, work); });
            },
            nb::arg("work"), "Set the remaining work.")
        .def(
            "move",
            [](Activity& self, nb::object to) {
                nb::object on =
                    Py_TYPE(to.ptr()) == types.resource ? to : nb::object(nb::tuple(to));
                const auto route = self.env().route_of(on);
                change(self, "move", [&](Simulation& sim) { sim.move(self.id, route); });
                PyObject* old = std::exchange(self.on, on.release().ptr());
                Py_DECREF(old);
            },
            nb::arg("to"),
            nb::sig("def move(self, to: Resource | collections.abc.Iterable[Resource]) -> None"),
            "Use other resources from now on; the work done is kept.")
        .def_prop_ro(
            "remaining",
            [](const Activity& self) {
                return self.ended ? self.figures.remaining : sim(self).remaining(self.id);
            },
            "The remaining work.")
        .def_prop_ro(
            "done",
            [](const Activity& self) {
                return self.ended ? self.figures.done : sim(self).work_done(self.id);
            },
            "The work done.")
        .def_prop_ro(
            "consumed",
            [](const Activity& self) {
                return self.ended ? self.figures.consumed : sim(self).consumed(self.id);
            },
            "The capacity consumed: more than the work done where the efficiency is below 1.")
        .def_prop_ro(
            "cost",
            [](const Activity& self) {
                return self.ended ? self.figures.cost : sim(self).cost(self.id);
            },
            "The cost charged to the activity by its resources; see `Resource.set_cost`.")
        .def_prop_ro(
            "rate", [](const Activity& self) { return self.ended ? 0.0 : sim(self).rate(self.id); },
            "The capacity in use now, per second.")
        .def_prop_ro(
            "limit", [](const Activity& self) { return or_infinite(self.limit); },
            nb::sig("def limit(self) -> float | None"), "The maximum rate; None if unlimited.")
        .def_prop_ro(
            "weight", [](const Activity& self) { return self.weight; }, "The weight.")
        .def_prop_ro(
            "kind", [](const Activity& self) { return self.kind; }, "The kind.")
        .def_prop_ro(
            "priority", [](const Activity& self) { return self.priority; }, "The priority.")
        .def_prop_ro(
            "state", [](const Activity& self) { return std::string(state(self)); },
            nb::sig("def state(self) -> typing.Literal['waiting', 'running', 'suspended', "
                    "'finished', 'cancelled']"),
            "The state of the activity.")
        .def_prop_ro(
            "started",
            [](const Activity& self) -> nb::object {
                const double started =
                    self.ended ? self.figures.started : sim(self).activity(self.id).started;
                return std::isnan(started) ? nb::none() : nb::object(nb::float_(started));
            },
            nb::sig("def started(self) -> float | None"), "The start time; None before the start.")
        .def_prop_ro(
            "finished",
            [](const Activity& self) -> nb::object {
                if (!self.ended) return nb::none();
                return nb::float_(self.finished);
            },
            nb::sig("def finished(self) -> float | None"), "The end time; None before the end.")
        .def_prop_ro(
            "resources",
            [](const Activity& self) {
                return PyTuple_Check(self.on) ? nb::borrow<nb::tuple>(self.on)
                                              : nb::make_tuple(nb::handle(self.on));
            },
            nb::sig("def resources(self) -> tuple[Resource, ...]"), "The resources in use.")
        .def_prop_ro(
            "name", [](const Activity& self) { return self.name(); }, "The name.")
        .def("__repr__", [](const Activity& self) {
            return "<Activity " + self.name() + ": " + std::string(state(self)) + ">";
        });
}

}  // namespace twinloop::bind
