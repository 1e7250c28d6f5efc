#include <nanobind/stl/string.h>

#include "bind/environment.hpp"

namespace twinloop::bind {
namespace {

// The lease, or an error that names the resource.
ResourceId lease_id(const Resource& self) {
    self.check_open();
    if (!self.sim().is_lease(self.id))
        throw nb::value_error(
            ("resource " + self.name + " is not a lease: create one with its lease()").c_str());
    return self.id;
}

nb::object add_lease(nb::handle self, double size, nb::handle weight, nb::handle name) {
    const Resource& host = part<Resource>(self);
    Environment& env = host.env();
    const double given = weight.is_none() ? 0.0 : nb::cast<double>(weight);
    if (!weight.is_none() && !(given > 0.0)) throw nb::value_error("weight must be positive");
    const ResourceId id = env.sim.add_lease(host.open_id(), size, given);
    nb::object lease = make<Resource>(
        types.resource, host.env_object(), id,
        name.is_none() ? "lease " + std::to_string(id) : nb::cast<std::string>(name), nb::none());
    if (id == env.resources.size()) {
        env.resources.push_back(lease.inc_ref().ptr());
    } else {
        // The index of a lease that was released.
        PyObject* before = std::exchange(env.resources[id], lease.inc_ref().ptr());
        Py_DECREF(before);
    }
    return lease;
}

void release_lease(Resource& self) {
    Simulation& sim = self.sim();
    const ResourceId id = lease_id(self);
    sim.release_lease(id);
    self.last = {sim.consumed(id), sim.done(id), sim.cost(id)};
}

void move_lease(Resource& self, nb::handle to) {
    const ResourceId id = lease_id(self);
    const auto route = self.env().route_of(to);
    if (route.size() != 1) throw nb::value_error("a lease is on one host");
    self.sim().move_lease(id, route.front());
}

}  // namespace

void bind_leases(nb::class_<Resource>& resource) {
    resource
        .def("lease", &add_lease, nb::arg("size"), nb::kw_only(), nb::arg("weight") = nb::none(),
             nb::arg("name") = nb::none(),
             nb::sig("def lease(self, size: float, *, weight: float | None = None, name: str | "
                     "None = None) -> Resource"),
             R"doc(
Create a lease on this resource, its host: a resource of its own, such as a virtual machine.

The lease gets at most its `size`, at most what its activities can use, and else its fair share of the
host by `weight` (default: its size); its activities share what it gets. What it leaves is shared by
the others on the host. The sizes of the leases may add up to more than the capacity of the host.

A resource with leases, and a lease, can only be used alone: activities that use several resources at
once, and leases of leases, are refused.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(3, name="host")
>>> large, small = host.lease(4, name="large"), host.lease(2, name="small")
>>> narrow, wide = large.execute(10, limit=0.5), large.execute(10)
>>> other = small.execute(10)
>>> large.rate, small.rate, narrow.rate, wide.rate
(2.0, 1.0, 0.5, 1.5)
)doc")
        .def(
            "resize",
            [](Resource& self, double size) { self.sim().set_capacity(lease_id(self), size); },
            nb::arg("size"),
            "Set the size of a lease, and its weight, if that is its size. The same as "
            "`set_capacity`; 0 stops its activities.")
        .def(
            "set_weight",
            [](Resource& self, double weight) {
                self.sim().set_lease_weight(lease_id(self), weight);
            },
            nb::arg("weight"), "Set the weight of a lease on its host.")
        .def(
            "suspend", [](Resource& self) { self.sim().suspend_lease(lease_id(self)); },
            "Pause all activities of a lease; the work done is kept, and the host is free for "
            "others.")
        .def(
            "resume", [](Resource& self) { self.sim().resume_lease(lease_id(self)); },
            "Continue a lease after `suspend`.")
        .def("move", &move_lease, nb::arg("host"),
             nb::sig("def move(self, host: Resource) -> None"),
             "Move a lease with its activities to another host; the work done is kept.")
        .def("release", &release_lease, R"doc(
End a lease: its activities are cancelled, and it cannot be used any more.

>>> from twinloop.engine import Environment
>>> env = Environment()
>>> host = env.resource(2)
>>> lease = host.lease(1)
>>> job = lease.execute(10)
>>> env.run(until=4)
>>> lease.release()
>>> job.state, job.done, lease.consumed, host.running
('cancelled', 4.0, 4.0, 0)
)doc")
        .def_prop_ro(
            "host",
            [](const Resource& self) -> nb::object {
                if (self.last || !self.sim().is_lease(self.id)) return nb::none();
                return nb::borrow(self.env().resources[self.sim().lease(self.id).host]);
            },
            nb::sig("def host(self) -> Resource | None"),
            "The host of a lease; None for other resources.")
        .def_prop_ro(
            "leases",
            [](const Resource& self) {
                nb::list found;
                if (!self.last)
                    for (const ResourceId id : self.sim().leases_on(self.id))
                        found.append(nb::handle(self.env().resources[id]));
                return found;
            },
            nb::sig("def leases(self) -> list[Resource]"), "The leases on this resource.")
        .def_prop_ro(
            "weight",
            [](const Resource& self) -> nb::object {
                if (self.last || !self.sim().is_lease(self.id)) return nb::none();
                return nb::float_(self.sim().lease(self.id).weight);
            },
            nb::sig("def weight(self) -> float | None"),
            "The weight of a lease on its host; None for other resources.")
        .def_prop_ro(
            "suspended",
            [](const Resource& self) {
                return !self.last && self.sim().is_lease(self.id) &&
                       self.sim().lease(self.id).suspended;
            },
            "Whether it is a lease that is suspended.");
}

}  // namespace twinloop::bind
