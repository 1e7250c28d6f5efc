// Observers of the Python interface: callbacks, and a native recorder.
#pragma once

#include "bind/event.hpp"
#include "kernel/recorder.hpp"

namespace twinloop::bind {

class Onlooker final : public Observer {
  public:
    Onlooker(nb::handle env, nb::handle started, nb::handle ended, nb::handle rate);
    Onlooker(const Onlooker&) = delete;
    Onlooker& operator=(const Onlooker&) = delete;
    Onlooker(Onlooker&&) = delete;
    Onlooker& operator=(Onlooker&&) = delete;
    ~Onlooker() override { release(); }

    void started(ActivityId id) override;
    void ended(std::uint64_t token, Ending how, const Final& figures) override;
    void rate_changed(ResourceId resource, double now, double rate) override;

    [[nodiscard]] nb::handle env() const { return env_; }
    int traverse(visitproc visit, void* arg) const;
    void release();

  private:
    static void call(PyObject* function, nb::handle argument);

    PyObject* started_;
    PyObject* ended_;
    PyObject* rate_;
    PyObject* env_;
};

class Recording {
  public:
    explicit Recording(nb::handle env) : env_(env.inc_ref().ptr()) {}
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    Recording(Recording&&) = delete;
    Recording& operator=(Recording&&) = delete;
    ~Recording() { release(); }

    [[nodiscard]] nb::handle env() const { return env_; }
    int traverse(visitproc visit, void* arg) const {
        Py_VISIT(env_);
        return 0;
    }
    void release() { Py_CLEAR(env_); }

    RateRecorder recorder;

  private:
    PyObject* env_;
};

// The environment holds a reference to an attached object.
void attach(nb::handle env, nb::handle object, Observer* observer);
void detach(nb::handle env, nb::handle object, Observer* observer);

[[nodiscard]] nb::dict rate_columns(const RateRecorder& recorder);

}  // namespace twinloop::bind
