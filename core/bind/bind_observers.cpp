#include <nanobind/ndarray.h>

#include "bind/arrays.hpp"
#include "bind/environment.hpp"
#include "bind/observers.hpp"

namespace twinloop::bind {

// ---- Onlooker -----------------------------------------------------------------------------------

Onlooker::Onlooker(nb::handle env, nb::handle started, nb::handle ended, nb::handle rate)
    : started_(started.inc_ref().ptr()), ended_(ended.inc_ref().ptr()), rate_(rate.inc_ref().ptr()),
      env_(env.inc_ref().ptr()) {}

void Onlooker::call(PyObject* function, nb::handle argument) {
    const nb::object result = nb::steal(PyObject_CallOneArg(function, argument.ptr()));
    if (!result.is_valid()) throw nb::python_error();
}

void Onlooker::started(ActivityId id) {
    if (Py_IsNone(started_)) return;
    const nb::object activity = nb::borrow(look(part<Environment>(env_).sim.token(id.slot)));
    part<Activity>(activity).id = id;
    call(started_, activity);
}

void Onlooker::ended(std::uint64_t token, Ending how, const Final& figures) {
    if (Py_IsNone(ended_)) return;
    const nb::object activity = nb::borrow(look(token));
    part<Activity>(activity).conclude(how, figures, part<Environment>(env_).sim.now());
    call(ended_, activity);
}

void Onlooker::rate_changed(ResourceId resource, double, double) {
    if (!Py_IsNone(rate_)) call(rate_, part<Environment>(env_).resources[resource]);
}

int Onlooker::traverse(visitproc visit, void* arg) const {
    Py_VISIT(started_);
    Py_VISIT(ended_);
    Py_VISIT(rate_);
    Py_VISIT(env_);
    return 0;
}

void Onlooker::release() {
    Py_CLEAR(started_);
    Py_CLEAR(ended_);
    Py_CLEAR(rate_);
    Py_CLEAR(env_);
}

// ---- Attaching ----------------------------------------------------------------------------------

void attach(nb::handle env, nb::handle object, Observer* observer) {
    Environment& environment = part<Environment>(env);
    environment.sim.add_observer(observer);
    environment.onlookers.push_back(object.inc_ref().ptr());
}

void detach(nb::handle env, nb::handle object, Observer* observer) {
    Environment& environment = part<Environment>(env);
    if (std::erase(environment.onlookers, object.ptr()) == 0) return;
    environment.sim.remove_observer(observer);
    object.dec_ref();
}

nb::dict rate_columns(const RateRecorder& recorder) {
    nb::dict columns;
    columns["t"] = as_array(recorder.times);
    columns["resource"] = as_array(recorder.resources);
    columns["rate"] = as_array(recorder.rates);
    return columns;
}

void bind_observers(nb::module_& module) {
    nb::class_<Onlooker> onlooker(module, "Observer", nb::is_final(),
                                  nb::type_slots(collected<Onlooker>),
                                  "Callbacks on activities and rates; see `Environment.observe`.");
    types.onlooker = reinterpret_cast<PyTypeObject*>(onlooker.ptr());
    onlooker.def(
        "stop",
        [](nb::handle self) {
            Onlooker& each = part<Onlooker>(self);
            detach(each.env(), self, &each);
        },
        nb::sig("def stop(self) -> None"), "Remove the callbacks.");

    nb::class_<Recording> recording(
        module, "Recording", nb::is_final(), nb::type_slots(collected<Recording>),
        "The rates of all resources over time; see `Environment.record`.");
    types.recording = reinterpret_cast<PyTypeObject*>(recording.ptr());
    recording
        .def(
            "rates", [](const Recording& self) { return rate_columns(self.recorder); },
            nb::sig("def rates(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
            "Return the columns `t`, `resource` (index) and `rate`: a row per change, valid until "
            "the next row of the same resource.")
        .def(
            "stop",
            [](nb::handle self) {
                Recording& each = part<Recording>(self);
                detach(each.env(), self, &each.recorder);
            },
            nb::sig("def stop(self) -> None"), "Stop recording; the recorded rates are kept.");
}

}  // namespace twinloop::bind
