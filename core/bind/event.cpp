#include "bind/event.hpp"

#include <algorithm>

#include "bind/environment.hpp"

namespace twinloop::bind {

Types types;

Event* as_event(nb::handle object) {
    const PyTypeObject* type = Py_TYPE(object.ptr());
    if (type == types.timeout || type == types.activity || type == types.process ||
        type == types.condition || type == types.event)
        return &part<Event>(object);
    return PyType_IsSubtype(Py_TYPE(object.ptr()), types.event) ? &part<Event>(object) : nullptr;
}

// ---- Event --------------------------------------------------------------------------------------

Environment& Event::env() const { return part<Environment>(env_); }

void Event::add_waiter(nb::handle waiter) {
    Py_INCREF(waiter.ptr());
    if (!first_ && more_.empty()) {
        first_ = waiter.ptr();
    } else {
        more_.push_back(waiter.ptr());
    }
}

void Event::remove_waiter(nb::handle waiter) {
    if (first_ == waiter.ptr()) {
        Py_CLEAR(first_);
        return;
    }
    const auto found = std::ranges::find(more_, waiter.ptr());
    if (found == more_.end()) return;
    PyObject* removed = *found;
    more_.erase(found);
    Py_DECREF(removed);
}

void Event::settle(nb::object outcome, bool success) {
    if (stage != Stage::pending) throw std::runtime_error("the event has been triggered already");
    value = outcome.release().ptr();
    ok = success;
    stage = Stage::triggered;
}

void Event::trigger(nb::handle self, nb::object outcome, bool success) {
    settle(std::move(outcome), success);
    env().schedule(env().sim.now(), self);
}

void Event::process(nb::handle self) {
    const nb::object keep = nb::borrow(self);
    stage = Stage::processed;
    std::vector<PyObject*> others;
    std::size_t notified = 0;
    bool received = false;
    try {
        prepare(self);
        others = std::exchange(more_, {});
        if (first_) received = tell(self, take_first());
        while (notified < others.size()) received |= tell(self, nb::steal(others[notified++]));
    } catch (...) {
        // The remaining waiters are notified when the simulation continues.
        if (notified < others.size())
            more_.assign(others.begin() + static_cast<long>(notified), others.end());
        if (has_waiters()) env().schedule(env().sim.now(), self, EventKind::urgent);
        throw;
    }
    if (!ok && !received && raises_when_unheard()) (void)result();
}

bool Event::tell(nb::handle self, nb::handle waiter) {
    const PyTypeObject* type = Py_TYPE(waiter.ptr());
    if (type == types.process) {
        part<Process>(waiter).resume(waiter, value, ok);
        return true;
    }
    if (type == types.condition) return part<Condition>(waiter).heard(waiter, *this);
    const nb::object result = nb::steal(PyObject_CallOneArg(waiter.ptr(), self.ptr()));
    if (!result.is_valid()) throw nb::python_error();
    return true;
}

nb::object Event::result() const {
    if (ok) return nb::borrow(value);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
    throw nb::python_error();
}

int Event::traverse(visitproc visit, void* arg) {
    Py_VISIT(env_);
    Py_VISIT(value);
    Py_VISIT(first_);
    for (PyObject* each : more_) Py_VISIT(each);
    return 0;
}

void Event::release() {
    Py_CLEAR(first_);
    for (PyObject* each : std::exchange(more_, {})) Py_DECREF(each);
    Py_CLEAR(value);
    Py_CLEAR(env_);
}

// ---- Process ------------------------------------------------------------------------------------

Process::Process(nb::handle env, nb::handle generator)
    : Event(env), generator(generator.inc_ref().ptr()) {}

void Process::resume(nb::handle self, nb::handle value, bool ok) {
    Py_CLEAR(target);
    nb::object sent = nb::borrow(value);
    for (;;) {
        PyObject* answer = nullptr;
        PySendResult result;
        env().active = self.ptr();
        if (ok) {
            result = PyIter_Send(generator, sent.ptr(), &answer);
        } else {
            static PyObject* const name = PyUnicode_InternFromString("throw");
            answer = PyObject_CallMethodObjArgs(generator, name, sent.ptr(), nullptr);
            result = answer ? PYGEN_NEXT : PYGEN_ERROR;
            if (!answer && PyErr_ExceptionMatches(PyExc_StopIteration)) {
                nb::python_error stop;
                answer = nb::object(stop.value().attr("value")).release().ptr();
                result = PYGEN_RETURN;
            }
        }
        env().active = nullptr;
        if (result == PYGEN_NEXT) {
            nb::object yielded = nb::steal(answer);
            Event* event = as_event(yielded);
            if (event && event->env_object().is(env_object())) {
                if (event->stage != Stage::processed) {
                    event->add_waiter(self);
                    target = yielded.release().ptr();
                    return;
                }
                sent = nb::borrow(event->value);
                ok = event->ok;
                continue;
            }
            const nb::str shown = nb::repr(yielded);
            const std::string message =
                event ? std::string("the process waits for an event of another environment: ") +
                            shown.c_str()
                      : std::string(
                            "a process must yield events such as env.timeout(3) or "
                            "host.execute(5), not ") +
                            shown.c_str();
            PyObject* type = event ? PyExc_ValueError : PyExc_TypeError;
            sent = nb::steal(PyObject_CallFunction(type, "s", message.c_str()));
            ok = false;
            continue;
        }
        --env().processes;
        Py_CLEAR(generator);
        // The end is an event also without waiters: a process may begin to wait for it before it
        // happens, and an error is raised only if none does. Without another reference none can.
        if (result != PYGEN_RETURN) {
            const nb::python_error error;
            trigger(self, nb::borrow(error.value()), false);
        } else if (has_waiters() || Py_REFCNT(self.ptr()) > 1) {
            trigger(self, nb::steal(answer), true);
        } else {
            settle(nb::steal(answer), true);
            stage = Stage::processed;
        }
        return;
    }
}

void Process::check_interruptible(nb::handle self) const {
    if (stage != Stage::pending) throw std::runtime_error("the process has ended already");
    if (env().active == self.ptr()) throw std::runtime_error("a process cannot interrupt itself");
}

void Process::interrupt(nb::handle self, nb::object cause) {
    check_interruptible(self);
    const nb::object interruption = make<Event>(types.event, env_object());
    Event& event = part<Event>(interruption);
    event.settle(nb::borrow(types.interrupt)(cause), false);
    event.interruption = true;
    event.add_waiter(self);
    env().schedule(env().sim.now(), interruption, EventKind::urgent);
}

void Process::deliver(Event& interruption) {
    const nb::object self = interruption.take_first();
    Process& process = part<Process>(self);
    if (process.stage != Stage::pending) return;  // it has ended in the meantime
    if (process.target) part<Event>(process.target).remove_waiter(self);
    process.resume(self, interruption.value, false);
}

int Process::traverse(visitproc visit, void* arg) {
    Py_VISIT(generator);
    Py_VISIT(target);
    return Event::traverse(visit, arg);
}

void Process::release() {
    Py_CLEAR(generator);
    Py_CLEAR(target);
    Event::release();
}

// ---- Condition ----------------------------------------------------------------------------------

void Condition::watch(nb::handle self) {
    for (PyObject* each : events_) {
        Event& event = part<Event>(each);
        if (event.stage == Stage::processed) {
            heard(self, event);
        } else {
            event.add_waiter(self);
        }
    }
    if (stage == Stage::pending && happened_ >= needed_) trigger(self, nb::none(), true);
}

bool Condition::heard(nb::handle self, Event& event) {
    if (stage != Stage::pending) return false;
    ++happened_;
    if (!event.ok) {
        trigger(self, nb::borrow(event.value), false);
    } else if (happened_ == needed_) {
        trigger(self, nb::none(), true);
    }
    return true;
}

// The value: the events that have happened, with their values, in the order of the arguments.
void Condition::prepare(nb::handle self) {
    for (PyObject* each : events_) {
        Event& event = part<Event>(each);
        if (event.stage != Stage::processed) event.remove_waiter(self);
    }
    if (!ok) return;
    nb::dict happened;
    collect(happened);
    PyObject* old = std::exchange(value, happened.release().ptr());
    Py_DECREF(old);
}

// A condition within a condition contributes its events.
void Condition::collect(nb::dict& happened) const {
    for (PyObject* each : events_) {
        const Event& event = part<Event>(each);
        if (Py_TYPE(each) == types.condition) {
            part<Condition>(each).collect(happened);
        } else if (event.stage == Stage::processed) {
            happened[nb::handle(each)] = nb::handle(event.value);
        }
    }
}

int Condition::traverse(visitproc visit, void* arg) {
    for (PyObject* each : events_) Py_VISIT(each);
    return Event::traverse(visit, arg);
}

void Condition::release() {
    for (PyObject* each : std::exchange(events_, {})) Py_DECREF(each);
    Event::release();
}

// ---- Activity -----------------------------------------------------------------------------------

int Activity::traverse(visitproc visit, void* arg) {
    Py_VISIT(on);
    return Event::traverse(visit, arg);
}

void Activity::release() {
    Py_CLEAR(on);
    Event::release();
}

// ---- Timer --------------------------------------------------------------------------------------

Environment& Timer::env() const { return part<Environment>(env_); }

void Timer::call() const {
    const nb::object result = nb::steal(args_ ? PyObject_Call(function_, args_, nullptr)
                                              : PyObject_CallNoArgs(function_));
    if (!result.is_valid()) throw nb::python_error();
}

int Timer::traverse(visitproc visit, void* arg) const {
    Py_VISIT(env_);
    Py_VISIT(function_);
    Py_VISIT(args_);
    return 0;
}

void Timer::release() {
    Py_CLEAR(function_);
    Py_CLEAR(args_);
    Py_CLEAR(env_);
}

}  // namespace twinloop::bind
