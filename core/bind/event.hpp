// Events that a process can wait for. All are Python objects that contain their C++ part;
// references between them are raw and counted explicitly, so that the garbage collector can
// traverse and clear them.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "kernel/simulation.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

class Environment;

enum class Stage : std::uint8_t {
    pending,    // may or may not happen
    triggered,  // will happen at the present time
    processed,  // has happened, waiters have been notified
};

class Event {
  public:
    explicit Event(nb::handle env) : env_(env.inc_ref().ptr()) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    Event(Event&&) = delete;
    Event& operator=(Event&&) = delete;
    virtual ~Event() { Event::release(); }

    [[nodiscard]] Environment& env() const;
    [[nodiscard]] nb::handle env_object() const { return env_; }

    // A process, a condition, or a callable that takes the event.
    void add_waiter(nb::handle waiter);
    void remove_waiter(nb::handle waiter);
    [[nodiscard]] bool has_waiters() const { return first_ || !more_.empty(); }

    // Sets the outcome; waiters are notified through the queue.
    void trigger(nb::handle self, nb::object value, bool ok);
    // Sets the outcome without notifying the waiters.
    void settle(nb::object value, bool ok);
    // Notifies the waiters now.
    void process(nb::handle self);
    // Returns the value, or raises the exception.
    [[nodiscard]] nb::object result() const;
    [[nodiscard]] virtual bool raises_when_unheard() const { return true; }
    // Called before the waiters are notified.
    virtual void prepare(nb::handle /*self*/) {}

    virtual int traverse(visitproc visit, void* arg);
    virtual void release();

    PyObject* value = nullptr;
    Stage stage = Stage::pending;
    bool ok = true;
    bool interruption = false;  // its one waiter is the process to interrupt

    [[nodiscard]] nb::object take_first() { return nb::steal(std::exchange(first_, nullptr)); }

  protected:
    PyObject* env_;

  private:
    // Notifies a waiter; returns whether it has received the failure of a failed event.
    bool tell(nb::handle self, nb::handle waiter);

    PyObject* first_ = nullptr;  // most events have one waiter
    std::vector<PyObject*> more_;
};

class Timeout final : public Event {
  public:
    Timeout(nb::handle env, nb::handle outcome) : Event({}) { set(env, outcome); }
    // The outcome is known from the start.
    void set(nb::handle env, nb::handle outcome) {
        env_ = env.inc_ref().ptr();
        value = outcome.inc_ref().ptr();
        stage = Stage::triggered;
    }
};

class Process final : public Event {
  public:
    Process(nb::handle env, nb::handle generator);
    ~Process() override { Process::release(); }
    void resume(nb::handle self, nb::handle value, bool ok);
    void interrupt(nb::handle self, nb::object cause);
    void check_interruptible(nb::handle self) const;
    static void deliver(Event& interruption);
    int traverse(visitproc visit, void* arg) override;
    void release() override;

    PyObject* generator;
    PyObject* target = nullptr;  // the awaited event
};

class Condition final : public Event {
  public:
    Condition(nb::handle env, std::vector<PyObject*> events, std::size_t needed)
        : Event(env), events_(std::move(events)), needed_(needed) {
        for (PyObject* each : events_) Py_INCREF(each);
    }
    ~Condition() override { Condition::release(); }
    void watch(nb::handle self);
    // Returns whether the event counts for the condition.
    bool heard(nb::handle self, Event& event);
    void prepare(nb::handle self) override;
    int traverse(visitproc visit, void* arg) override;
    void release() override;

  private:
    void collect(nb::dict& happened) const;

    std::vector<PyObject*> events_;
    std::size_t needed_;
    std::size_t happened_ = 0;
};

class Activity final : public Event {
  public:
    Activity(nb::handle env, std::string name, std::uint64_t sequence, nb::handle on)
        : Event(env), sequence(sequence), on(on.inc_ref().ptr()), given_name_(std::move(name)) {}
    ~Activity() override { Activity::release(); }
    [[nodiscard]] bool raises_when_unheard() const override { return false; }
    [[nodiscard]] std::string name() const {
        return given_name_.empty() ? "#" + std::to_string(sequence) : given_name_;
    }
    void conclude(Ending ending, const Final& last, double now) {
        ended = true;
        how = ending;
        figures = last;
        finished = now;
    }
    int traverse(visitproc visit, void* arg) override;
    void release() override;

    ActivityId id;
    std::uint64_t sequence;
    PyObject* on;  // its Resource, or a tuple of them
    double limit = never;
    double weight = 1.0;
    std::int32_t priority = 0;
    Kind kind = 0;
    std::uint32_t transfer = none;  // its number, if it is one
    // Once it has ended:
    Final figures{};
    double finished = 0.0;
    Ending how = Ending::finished;
    bool ended = false;

  private:
    std::string given_name_;
};

// A call at a time; not an event, so that it costs no more than the call.
class Timer {
  public:
    // `args`: a tuple, or nothing.
    Timer(nb::handle env, nb::handle function, nb::handle args) { set(env, function, args); }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    Timer(Timer&&) = delete;
    Timer& operator=(Timer&&) = delete;
    ~Timer() { release(); }

    void set(nb::handle env, nb::handle function, nb::handle args) {
        env_ = env.inc_ref().ptr();
        function_ = function.inc_ref().ptr();
        args_ = args.inc_ref().ptr();
    }
    [[nodiscard]] Environment& env() const;
    void call() const;
    int traverse(visitproc visit, void* arg) const;
    void release();

    EventId event = none;

  private:
    PyObject* env_ = nullptr;
    PyObject* function_ = nullptr;
    PyObject* args_ = nullptr;
};

struct Types {
    PyTypeObject* environment = nullptr;
    PyTypeObject* resource = nullptr;
    PyTypeObject* event = nullptr;
    PyTypeObject* timeout = nullptr;
    PyTypeObject* process = nullptr;
    PyTypeObject* condition = nullptr;
    PyTypeObject* activity = nullptr;
    PyTypeObject* timer = nullptr;
    PyTypeObject* onlooker = nullptr;
    PyTypeObject* recording = nullptr;
    PyTypeObject* network = nullptr;
    PyTypeObject* data_store = nullptr;
    PyTypeObject* request = nullptr;
    PyTypeObject* priority_request = nullptr;
    PyTypeObject* release = nullptr;
    PyTypeObject* store_put = nullptr;
    PyTypeObject* store_get = nullptr;
    PyTypeObject* filter_store_get = nullptr;
    PyTypeObject* container_put = nullptr;
    PyTypeObject* container_get = nullptr;
    PyTypeObject* queueing_resource = nullptr;
    PyTypeObject* priority_resource = nullptr;
    PyTypeObject* preemptive_resource = nullptr;
    PyTypeObject* preempted = nullptr;
    PyTypeObject* sequence_view = nullptr;
    PyObject* interrupt = nullptr;
    PyObject* cancelled = nullptr;
    PyObject* stalled = nullptr;
};
extern Types types;

// The C++ part of a Python object known to be of type T.
template <class T>
[[nodiscard]] T& part(nb::handle object) {
    return *nb::inst_ptr<T>(object);
}

// The event in `object`, or nullptr. Every event type starts with its Event.
[[nodiscard]] Event* as_event(nb::handle object);

// A new Python object of `type` with its C++ part made from `args`.
template <class T, class... Args>
[[nodiscard]] nb::object make(PyTypeObject* type, Args&&... args) {
    nb::object object = nb::inst_alloc(reinterpret_cast<PyObject*>(type));
    new (nb::inst_ptr<T>(object)) T(std::forward<Args>(args)...);
    nb::inst_mark_ready(object);
    return object;
}

// Slots for the garbage collector, for any part with traverse() and release().
template <class T>
inline PyType_Slot collected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(+[](PyObject* self, visitproc visit, void* arg) {
         Py_VISIT(Py_TYPE(self));
         return nb::inst_ready(self) ? part<T>(self).traverse(visit, arg) : 0;
     })},
    {Py_tp_clear, reinterpret_cast<void*>(+[](PyObject* self) {
         if (nb::inst_ready(self)) part<T>(self).release();
         return 0;
     })},
    {0, nullptr},
};

void bind_events(nb::module_& module);
void bind_environment(nb::module_& module);
void bind_network(nb::module_& module);
void bind_resources(nb::module_& module);
void bind_observers(nb::module_& module);
void bind_queueing(nb::module_& module);
void bind_columns(nb::module_& module);
void bind_io(nb::module_& module);
void bind_policies(nb::module_& module);
void bind_many(nb::module_& module);
void bind_scenario(nb::module_& module);
void bind_world(nb::module_& module);
void bind_dispatching(nb::module_& module);
void bind_sources(nb::module_& module);
void bind_host(nb::module_& module);

}  // namespace twinloop::bind
