#include <nanobind/stl/string.h>

#include <cmath>

#include "bind/fast_call.hpp"
#include "bind/queueing.hpp"
#include "kernel/checks.hpp"

namespace twinloop::bind {
namespace {

nb::object or_none(nb::handle object) {
    return object.is_valid() ? nb::borrow(object) : nb::object(nb::none());
}

// ---- Methods ------------------------------------------------------------------------------------

PyObject* enter(PyObject* self, PyObject* /*unused*/) {
    Py_INCREF(self);
    return self;
}

PyObject* cancel(PyObject* self, PyObject* /*unused*/) {
    return guard_call<Operation>(self, [](Operation& operation) {
        operation.cancel();
        return nb::none();
    });
}

PyObject* leave(PyObject* self, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
    return cancel(self, nullptr);
}

// Frees the slot. A generator that is closed keeps it, as in SimPy.
PyObject* leave_request(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return guard_call<Request>(self, [&](Request& request) {
        request.cancel();
        const nb::handle owner = request.resource_object();
        if (!owner.is_valid() || (count > 0 && args[0] == PyExc_GeneratorExit)) return nb::none();
        const PyTypeObject* type = Py_TYPE(owner.ptr());
        if (type == types.queueing_resource || type == types.priority_resource ||
            type == types.preemptive_resource) {
            // No program refers to this release, so it needs no event object.
            auto& resource = part<QueueingResource>(owner);
            resource.free(request);
            resource.env().schedule_release(owner);
        } else {
            (void)owner.attr("release")(nb::handle(self));  // a subclass may replace it
        }
        return nb::none();
    });
}

PyObject* request(PyObject* self, PyObject* /*unused*/) {
    return guard_call<QueueingResource>(
        self, [&](QueueingResource& resource) { return resource.request(self); });
}

PyObject* request_with_priority(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                PyObject* names) {
    return guard_call<PriorityResource>(self, [&](PriorityResource& resource) {
        const auto [priority, preempt] =
            read_arguments<2>("request() takes a priority and preempt", {"priority", "preempt"}, 0,
                              args, count, names);
        const int preempts = preempt ? PyObject_IsTrue(preempt) : 1;
        if (preempts < 0) throw nb::python_error();
        return resource.request(self, priority, preempts == 1);
    });
}

PyObject* release(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<QueueingResource>(self, [&](QueueingResource& resource) {
        const auto [given] =
            read_arguments<1>("release() takes a request", {"request"}, 1, args, count, names);
        if (!PyType_IsSubtype(Py_TYPE(given), types.request))
            throw nb::type_error(
                (std::string("release() takes a request, got ") + nb::repr(given).c_str()).c_str());
        Request& request = part<Request>(given);
        if (!request.resource_object().is(self))
            throw std::invalid_argument("the request belongs to another resource");
        nb::object object = make<Release>(types.release, self, nb::handle(given));
        Release& operation = part<Release>(object);
        operation.object = object.ptr();
        resource.free(request);
        operation.complete(nb::none());
        return object;
    });
}

PyObject* put_item(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<Store>(self, [&](Store& store) {
        const auto [item] =
            read_arguments<1>("put() takes an item", {"item"}, 1, args, count, names);
        return store.submit_put(make<StorePut>(types.store_put, self, nb::handle(item)));
    });
}

PyObject* get_item(PyObject* self, PyObject* /*unused*/) {
    return guard_call<Store>(self, [&](Store& store) {
        return store.submit_get(make<StoreGet>(types.store_get, self, nb::handle()));
    });
}

PyObject* get_filtered(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<FilterStore>(self, [&](FilterStore& store) {
        const auto [filter] = read_arguments<1>("get() takes a filter: a function of an item",
                                                {"filter"}, 0, args, count, names);
        if (filter && !PyCallable_Check(filter))
            throw nb::type_error("get() takes a filter: a function of an item");
        return store.submit_get(
            make<FilterStoreGet>(types.filter_store_get, self, nb::handle(filter)));
    });
}

std::pair<PyObject*, Amount> read_amount(const char* usage, PyObject* const* args, Py_ssize_t count,
                                         PyObject* names) {
    const auto [given] = read_arguments<1>(usage, {"amount"}, 1, args, count, names);
    const Amount amount = amount_from(given);
    if (!(amount.value > 0.0)) refuse("amount", "positive", amount.value);
    return {given, amount};
}

PyObject* put_amount(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<Container>(self, [&](Container& container) {
        const auto [given, amount] = read_amount("put() takes an amount", args, count, names);
        return container.submit_put(
            make<ContainerPut>(types.container_put, self, nb::handle(given), amount));
    });
}

PyObject* get_amount(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guard_call<Container>(self, [&](Container& container) {
        const auto [given, amount] = read_amount("get() takes an amount", args, count, names);
        return container.submit_get(
            make<ContainerGet>(types.container_get, self, nb::handle(given), amount));
    });
}

constexpr int by_position = METH_FASTCALL;
constexpr int by_name = METH_FASTCALL | METH_KEYWORDS;
constexpr const char* release_doc =
    "Free the slot of a request; the next one is served when the returned event happens.\n\n"
    "The end of `with resource.request()` does the same. A request that holds no slot is left "
    "alone.";
constexpr const char* cancel_doc =
    "Leave the queue; an operation that has been carried out is not undone.";

PyMethodDef operation_methods[] = {
    {"__enter__", &enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(&leave), by_position, nullptr},
    {"cancel", &cancel, METH_NOARGS, cancel_doc},
};
PyMethodDef request_methods[] = {
    {"__exit__", as_method(&leave_request), by_position, nullptr},
};
PyMethodDef resource_methods[] = {
    {"request", &request, METH_NOARGS, "Request a slot; the event happens when it is granted."},
    {"release", as_method(&release), by_name, release_doc},
};
PyMethodDef priority_methods[] = {
    {"request", as_method(&request_with_priority), by_name,
     "Request a slot; of the waiting requests, the one with the least `priority` is served first.\n"
     "\n"
     "With a `PreemptiveResource`, `preempt` lets the request take the slot of a less urgent "
     "user."},
};
PyMethodDef store_methods[] = {
    {"put", as_method(&put_item), by_name, "Put an item; the event happens when there is space."},
    {"get", &get_item, METH_NOARGS, "Get an item, the value of the event."},
};
PyMethodDef filter_methods[] = {
    {"get", as_method(&get_filtered), by_name,
     "Get the first item for which `filter(item)` is true, the value of the event."},
};
PyMethodDef container_methods[] = {
    {"put", as_method(&put_amount), by_name,
     "Add an amount; the event happens when there is space for all of it."},
    {"get", as_method(&get_amount), by_name,
     "Take an amount; the event happens when all of it is there."},
};

template <class Class>
PyTypeObject* type_of(const Class& object) {
    return reinterpret_cast<PyTypeObject*>(object.ptr());
}

// ---- Events -------------------------------------------------------------------------------------

template <class Part, class Class>
void bind_operation(Class& operation) {
    add_methods(operation, operation_methods);
    operation
        .def_prop_ro(
            "resource", [](const Part& self) { return nb::borrow(self.resource_object()); },
            nb::sig("def resource(self) -> BaseResource"), "The resource.")
        .def_prop_ro(
            "proc", [](const Part& self) { return or_none(self.process_object()); },
            nb::sig("def proc(self) -> Process | None"),
            "The process that made the operation; None outside of processes.");
}

void bind_requests(nb::module_& module) {
    nb::class_<Request, Put> request(
        module, "Request", nb::is_final(), nb::type_slots(collected<Request>),
        "A request for a slot; the end of its `with` block frees the slot or leaves the queue.");
    types.request = type_of(request);
    add_methods(request, request_methods);
    request.def_prop_ro(
        "usage_since",
        [](const Request& self) {
            return !std::isnan(self.usage_since) ? nb::object(nb::float_(self.usage_since))
                                                 : nb::none();
        },
        nb::sig("def usage_since(self) -> float | None"),
        "The time at which the slot was granted; None before.");

    nb::class_<PriorityRequest, Request> with_priority(module, "PriorityRequest", nb::is_final(),
                                                       nb::type_slots(collected<PriorityRequest>),
                                                       "A request with a priority.");
    types.priority_request = type_of(with_priority);
    with_priority
        .def_prop_ro(
            "priority",
            [](const PriorityRequest& self) {
                return self.argument().is_valid() ? nb::borrow(self.argument())
                                                  : nb::object(nb::int_(0));
            },
            nb::sig("def priority(self) -> float"), "The priority; the least is served first.")
        .def_prop_ro(
            "preempt", [](const PriorityRequest& self) { return self.preempt; },
            "Whether the request may take the slot of a less urgent user.")
        .def_prop_ro(
            "time", [](const PriorityRequest& self) { return self.time; },
            "The time of the request.");

    nb::class_<Release, Get> release(module, "Release", nb::is_final(),
                                     nb::type_slots(collected<Release>),
                                     "The release of a slot, which happens at once.");
    types.release = type_of(release);
    release.def_prop_ro(
        "request", [](const Release& self) { return nb::borrow(self.argument()); },
        nb::sig("def request(self) -> Request"), "The request whose slot is released.");

    nb::class_<Preempted> preempted(module, "Preempted", nb::is_final(),
                                    nb::type_slots(collected<Preempted>),
                                    "The cause of the `Interrupt` of a process whose slot was "
                                    "taken; see `PreemptiveResource`.");
    types.preempted = type_of(preempted);
    preempted
        .def_prop_ro(
            "by", [](const Preempted& self) { return or_none(self.by()); },
            nb::sig("def by(self) -> Process | None"), "The process that has taken the slot.")
        .def_prop_ro(
            "usage_since", [](const Preempted& self) { return self.usage_since; },
            "The time from which the process had the slot.")
        .def_prop_ro(
            "resource", [](const Preempted& self) { return nb::borrow(self.resource()); },
            nb::sig("def resource(self) -> PreemptiveResource"), "The resource.");
}

void bind_transfers(nb::module_& module) {
    nb::class_<StorePut, Put> store_put(module, "StorePut", nb::is_final(),
                                        nb::type_slots(collected<StorePut>),
                                        "An item on its way into a store.");
    types.store_put = type_of(store_put);
    store_put.def_prop_ro(
        "item", [](const StorePut& self) { return nb::borrow(self.argument()); },
        nb::sig("def item(self) -> typing.Any"), "The item.");
    nb::class_<StoreGet, Get> store_get(module, "StoreGet", nb::is_final(),
                                        nb::type_slots(collected<StoreGet>),
                                        "A wait for an item of a store, which is its value.");
    types.store_get = type_of(store_get);
    nb::class_<FilterStoreGet, StoreGet> filtered(
        module, "FilterStoreGet", nb::is_final(), nb::type_slots(collected<FilterStoreGet>),
        "A wait for an item that a filter accepts, which is its value.");
    types.filter_store_get = type_of(filtered);
    filtered.def_prop_ro(
        "filter", [](const FilterStoreGet& self) { return or_none(self.argument()); },
        nb::sig("def filter(self) -> collections.abc.Callable[[typing.Any], object] | None"),
        "The filter; None accepts every item.");

    nb::class_<ContainerPut, Put> container_put(module, "ContainerPut", nb::is_final(),
                                                nb::type_slots(collected<ContainerPut>),
                                                "An amount on its way into a container.");
    types.container_put = type_of(container_put);
    container_put.def_prop_ro(
        "amount", [](const ContainerPut& self) { return nb::borrow(self.argument()); },
        nb::sig("def amount(self) -> float"), "The amount.");
    nb::class_<ContainerGet, Get> container_get(module, "ContainerGet", nb::is_final(),
                                                nb::type_slots(collected<ContainerGet>),
                                                "A wait for an amount of a container.");
    types.container_get = type_of(container_get);
    container_get.def_prop_ro(
        "amount", [](const ContainerGet& self) { return nb::borrow(self.argument()); },
        nb::sig("def amount(self) -> float"), "The amount.");
}

// ---- Views --------------------------------------------------------------------------------------

nb::object view(nb::handle self, Content content) {
    return make<SequenceView>(types.sequence_view, self, content);
}

template <Content content>
nb::object view_of(nb::handle self) {
    return view(self, content);
}

void bind_views(nb::module_& module) {
    nb::class_<SequenceView> views(
        module, "SequenceView", nb::is_final(), nb::type_slots(collected<SequenceView>),
        "A read-only view of the queue, the users or the items of a resource, always up to date.");
    types.sequence_view = type_of(views);
    views.def("__len__", &SequenceView::size)
        .def(
            "__getitem__",
            [](const SequenceView& self, nb::handle index) {
                const nb::object found =
                    nb::steal(PyObject_GetItem(self.list().ptr(), index.ptr()));
                if (!found.is_valid()) throw nb::python_error();
                return found;
            },
            nb::arg("index"), nb::sig("def __getitem__(self, index: int | slice) -> typing.Any"))
        .def(
            "__iter__",
            [](const SequenceView& self) { return nb::steal(PyObject_GetIter(self.list().ptr())); },
            nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"))
        .def(
            "__contains__",
            [](const SequenceView& self, nb::handle item) {
                const int found = PySequence_Contains(self.list().ptr(), item.ptr());
                if (found < 0) throw nb::python_error();
                return found == 1;
            },
            nb::arg("item").none(), nb::sig("def __contains__(self, item: object) -> bool"))
        .def(
            "__eq__",
            [](const SequenceView& self, nb::handle other) {
                if (Py_TYPE(other.ptr()) == types.sequence_view)
                    return nb::bool_(self.list().equal(part<SequenceView>(other).list()));
                return nb::bool_(self.list().equal(other));
            },
            nb::arg("other").none(), nb::sig("def __eq__(self, other: object) -> bool"))
        .def(
            "index",
            [](const SequenceView& self, nb::handle item) {
                const Py_ssize_t found = PySequence_Index(self.list().ptr(), item.ptr());
                if (found < 0) throw nb::python_error();
                return found;
            },
            nb::arg("item").none(), nb::sig("def index(self, item: object) -> int"),
            "Return the position of an item; `ValueError` if there is none.")
        .def(
            "count",
            [](const SequenceView& self, nb::handle item) {
                return PySequence_Count(self.list().ptr(), item.ptr());
            },
            nb::arg("item").none(), nb::sig("def count(self, item: object) -> int"),
            "Return how often an item occurs.")
        .def("__repr__", [](const SequenceView& self) { return nb::repr(self.list()); });
}

// ---- Resources ----------------------------------------------------------------------------------

// The constructor of all resources but containers.
template <class Part, class Class>
void bind_constructor(Class& resource, nb::object capacity, const char* signature) {
    resource.def(
        "__init__",
        [](Part* self, nb::handle env, nb::handle given) { new (self) Part(env, given); },
        nb::arg("env"), nb::arg("capacity") = std::move(capacity), nb::sig(signature));
}

constexpr const char* integer_constructor =
    "def __init__(self, env: Environment, capacity: float = 1) -> None";
constexpr const char* infinite_constructor =
    "def __init__(self, env: Environment, capacity: float = float('inf')) -> None";

void bind_base(nb::module_& module) {
    nb::class_<Put, Event> put(module, "Put", nb::is_final(), nb::type_slots(collected<Put>),
                               "A request, or a put into a store or a container: an event that can "
                               "be cancelled, also by the end of a `with` block.");
    bind_operation<Put>(put);
    nb::class_<Get, Event> get(module, "Get", nb::is_final(), nb::type_slots(collected<Get>),
                               "A release, or a get from a store or a container: an event that can "
                               "be cancelled, also by the end of a `with` block.");
    bind_operation<Get>(get);
    nb::class_<BaseResource>(
        module, "BaseResource", nb::type_slots(collected<BaseResource>),
        "What all resources with queues have: a capacity, and operations that wait.")
        .def_prop_ro(
            "capacity", [](const BaseResource& self) { return nb::borrow(self.capacity_object()); },
            nb::sig("def capacity(self) -> float"), "The capacity.")
        .def_prop_ro("put_queue", &view_of<Content::puts>,
                     nb::sig("def put_queue(self) -> SequenceView"),
                     "The puts or requests that wait, in the order of service.")
        .def_prop_ro("get_queue", &view_of<Content::gets>,
                     nb::sig("def get_queue(self) -> SequenceView"),
                     "The gets that wait, in the order of service.");
}

void bind_slots(nb::module_& module) {
    nb::class_<QueueingResource, BaseResource> resource(
        module, "QueueingResource", nb::type_slots(collected<QueueingResource>), R"doc(
Slots that processes request, hold and release: `capacity` of them, first come, first served.

`twinloop.engine.queueing.Resource`. The `with` block frees the slot, or leaves the queue, however it
ends:

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import Resource
>>> env = Environment()
>>> counter = Resource(env, capacity=1)
>>> def customer(name, service):
...     with counter.request() as turn:
...         yield turn
...         yield env.timeout(service)
...     print(f"{env.now:g}: {name} leaves, {len(counter.queue)} waiting")
>>> for name, service in [("first", 6), ("second", 1), ("third", 2)]:
...     process = env.process(customer(name, service))
>>> env.run()
6: first leaves, 2 waiting
7: second leaves, 1 waiting
9: third leaves, 0 waiting
)doc");
    types.queueing_resource = type_of(resource);
    bind_constructor<QueueingResource>(resource, nb::int_(1), integer_constructor);
    add_methods(resource, resource_methods);
    resource
        .def_prop_ro(
            "count", [](const QueueingResource& self) { return self.users.size(); },
            "The number of slots in use.")
        .def_prop_ro("users", &view_of<Content::users>, nb::sig("def users(self) -> SequenceView"),
                     "The requests that hold a slot, in the order in which they got it.")
        .def_prop_ro("queue", &view_of<Content::puts>, nb::sig("def queue(self) -> SequenceView"),
                     "The requests that wait, in the order of service.");

    nb::class_<PriorityResource, QueueingResource> with_priority(
        module, "PriorityResource", nb::type_slots(collected<PriorityResource>), R"doc(
Slots for which requests wait in the order of their priorities; the least is served first.

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import PriorityResource
>>> env = Environment()
>>> doctor = PriorityResource(env, capacity=1)
>>> def patient(name, priority):
...     with doctor.request(priority=priority) as turn:
...         yield turn
...         print(f"{env.now:g}: {name}")
...         yield env.timeout(10)
>>> for name, priority in [("cold", 3), ("check-up", 5), ("fracture", 1)]:
...     process = env.process(patient(name, priority))
>>> env.run()
0: cold
10: fracture
20: check-up
)doc");
    types.priority_resource = type_of(with_priority);
    bind_constructor<PriorityResource>(with_priority, nb::int_(1), integer_constructor);
    add_methods(with_priority, priority_methods);

    nb::class_<PreemptiveResource, PriorityResource> preemptive(
        module, "PreemptiveResource", nb::type_slots(collected<PreemptiveResource>), R"doc(
Slots that an urgent request takes from the least urgent user, which is interrupted.

The `cause` of the `Interrupt` is a `Preempted`. With `preempt=False`, a request waits.

>>> from twinloop.engine import Environment, Interrupt
>>> from twinloop.engine.queueing import PreemptiveResource
>>> env = Environment()
>>> machine = PreemptiveResource(env)
>>> def use(name, priority, start, duration):
...     yield env.timeout(start)
...     with machine.request(priority) as turn:
...         yield turn
...         try:
...             yield env.timeout(duration)
...             print(f"{env.now:g}: {name} is done")
...         except Interrupt as interrupt:
...             used = env.now - interrupt.cause.usage_since
...             print(f"{env.now:g}: {name} loses the machine after {used:g} s")
>>> jobs = [env.process(use("long", 2, 0, 10)), env.process(use("urgent", 1, 4, 3))]
>>> env.run()
4: long loses the machine after 4 s
7: urgent is done
)doc");
    types.preemptive_resource = type_of(preemptive);
    bind_constructor<PreemptiveResource>(preemptive, nb::int_(1), integer_constructor);
}

void bind_stores(nb::module_& module) {
    const nb::object unlimited = nb::float_(std::numeric_limits<double>::infinity());
    nb::class_<Store, BaseResource> store(module, "Store", nb::type_slots(collected<Store>), R"doc(
Up to `capacity` items, any objects: the first that was put is the first that a get returns.

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import Store
>>> env = Environment()
>>> belt = Store(env, capacity=2)
>>> def produce():
...     for item in ["a", "b", "c"]:
...         yield belt.put(item)
...         print(f"{env.now:g}: {item} on the belt")
>>> def consume():
...     while True:
...         yield env.timeout(5)
...         item = yield belt.get()
...         print(f"{env.now:g}: {item} taken")
>>> processes = [env.process(produce()), env.process(consume())]
>>> env.run(until=11)
0: a on the belt
0: b on the belt
5: a taken
5: c on the belt
10: b taken
>>> belt.items
['c']
)doc");
    bind_constructor<Store>(store, unlimited, infinite_constructor);
    add_methods(store, store_methods);
    store.def_prop_ro("items", &view_of<Content::items>, nb::sig("def items(self) -> SequenceView"),
                      "The items in the store.");

    nb::class_<PriorityStore, Store> with_priority(module, "PriorityStore",
                                                   nb::type_slots(collected<PriorityStore>), R"doc(
Items of which a get returns the least, by `<`; `PriorityItem` gives any object a priority.

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import PriorityItem, PriorityStore
>>> env = Environment()
>>> inbox = PriorityStore(env)
>>> def work():
...     yield inbox.put(PriorityItem(3, "invoice"))
...     yield inbox.put(PriorityItem(1, "alarm"))
...     first = yield inbox.get()
...     print(first.item)
>>> process = env.process(work())
>>> env.run()
alarm
)doc");
    bind_constructor<PriorityStore>(with_priority, unlimited, infinite_constructor);

    nb::class_<FilterStore, Store> filtered(module, "FilterStore",
                                            nb::type_slots(collected<FilterStore>), R"doc(
Items of which a get returns the first that its filter accepts; other gets do not wait for it.

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import FilterStore
>>> env = Environment()
>>> pool = FilterStore(env)
>>> def work():
...     for size in [2, 8, 4]:
...         yield pool.put(size)
...     found = yield pool.get(lambda size: size >= 4)
...     print(found, pool.items)
>>> process = env.process(work())
>>> env.run()
8 [2, 4]
)doc");
    bind_constructor<FilterStore>(filtered, unlimited, infinite_constructor);
    add_methods(filtered, filter_methods);
}

void bind_container(nb::module_& module) {
    nb::class_<Container, BaseResource> container(module, "Container",
                                                  nb::type_slots(collected<Container>), R"doc(
An amount between 0 and `capacity` that processes add to and take from, initially `init`.

>>> from twinloop.engine import Environment
>>> from twinloop.engine.queueing import Container
>>> env = Environment()
>>> tank = Container(env, capacity=100, init=20)
>>> def car():
...     yield tank.get(50)
...     print(f"{env.now:g}: refuelled, {tank.level} left")
>>> def tanker():
...     yield env.timeout(8)
...     yield tank.put(60)
>>> processes = [env.process(car()), env.process(tanker())]
>>> env.run()
8: refuelled, 30 left
)doc");
    container.def(
        "__init__",
        [](Container* self, nb::handle env, nb::handle capacity, nb::handle init) {
            new (self) Container(env, capacity, init);
        },
        nb::arg("env"), nb::arg("capacity") = nb::float_(std::numeric_limits<double>::infinity()),
        nb::arg("init") = nb::int_(0),
        nb::sig("def __init__(self, env: Environment, capacity: float = float('inf'), init: float "
                "= 0) -> None"));
    add_methods(container, container_methods);
    container.def_prop_ro("level", &Container::level, nb::sig("def level(self) -> float"),
                          "The amount now; an integer if only integers were added and taken.");
}

}  // namespace

void bind_queueing(nb::module_& module) {
    bind_views(module);
    bind_base(module);
    bind_requests(module);
    bind_transfers(module);
    bind_slots(module);
    bind_stores(module);
    bind_container(module);
}

}  // namespace twinloop::bind
