// A simulation as seen from Python: owns the simulation of the kernel and is its client.
#pragma once

#include "bind/event.hpp"
#include "bind/in_use.hpp"

namespace twinloop::bind {

struct ActivityOptions {
    nb::handle limit;
    double weight;
    std::int64_t kind;
    std::int64_t priority;
    double latency;
    nb::handle at;
    nb::handle name;
};

class Environment final : public Client {
  public:
    Environment(double start, const std::string& sharing);
    explicit Environment(const Environment& other);
    Environment& operator=(const Environment&) = delete;
    Environment(Environment&&) = delete;
    Environment& operator=(Environment&&) = delete;
    ~Environment() override { release(); }

    void fired(std::uint64_t token, bool again) override;
    double feed(std::uint64_t) override { return never; }
    void dropped(std::uint64_t token) override;
    void ended(std::uint64_t token, Ending how, const Final& figures) override;

    // Pools of the most frequent queue entries: objects are reused once unreferenced, which saves
    // one allocation per event.
    [[nodiscard]] nb::object timeout(nb::handle self, double delay, nb::handle value);
    [[nodiscard]] nb::object call_at(nb::handle self, double time, nb::handle function,
                                     nb::handle args);

    // The queue holds a reference to `event` until it happens.
    EventId schedule(double time, nb::handle event, EventKind kind = EventKind::timer);
    EventId schedule_timer(double time, nb::handle timer);
    EventId schedule_timer_every(double first, double period, std::uint64_t count,
                                 nb::handle timer);
    [[nodiscard]] bool timer_pending(EventId event, nb::handle timer) const;
    bool cancel_timer(EventId event, nb::handle timer);

    // `on`: a Resource or an iterable of them.
    nb::object start(nb::handle self, double work, nb::handle on, const ActivityOptions& options);
    [[nodiscard]] std::vector<ResourceId> route_of(nb::handle on) const;
    [[nodiscard]] std::string name_of(ResourceId id) const;
    [[nodiscard]] nb::list activities() const;

    nb::object run(nb::handle until);
    bool step();
    std::size_t skip(double time);
    void check_idle() const;

    [[nodiscard]] nb::object copy() const;
    // The resource or activity that corresponds to the one of the original environment.
    [[nodiscard]] nb::object counterpart(nb::handle given) const;

    int traverse(visitproc visit, void* arg) const;
    void release();

    Simulation sim;
    std::vector<PyObject*> resources;  // Resource objects by id
    std::vector<PyObject*> onlookers;  // attached Observer and Recording objects
    std::uint64_t activity_count = 0;
    std::size_t processes = 0;  // alive

  private:
    template <class Part>
    void keep(nb::object object, Part& part, std::vector<PyObject*>& spare);
    [[nodiscard]] nb::object counterparts(nb::handle on) const;
    [[noreturn]] void raise_stalled();

    std::vector<PyObject*> spare_timeouts_;
    std::vector<PyObject*> spare_timers_;
    std::shared_ptr<InUse> guard_ = std::make_shared<InUse>("an environment");  // while it runs
    bool released_ = false;
};

class Resource {
  public:
    Resource(nb::handle env, ResourceId id, std::string name, nb::handle efficiency)
        : id(id), name(std::move(name)), efficiency(efficiency.inc_ref().ptr()),
          env_(env.inc_ref().ptr()) {}
    Resource(const Resource&) = delete;
    Resource& operator=(const Resource&) = delete;
    Resource(Resource&&) = delete;
    Resource& operator=(Resource&&) = delete;
    ~Resource() { release(); }

    [[nodiscard]] Environment& env() const { return part<Environment>(env_); }
    [[nodiscard]] Simulation& sim() const { return env().sim; }
    [[nodiscard]] nb::handle env_object() const { return env_; }
    int traverse(visitproc visit, void* arg) const;
    void release();

    ResourceId id;
    std::string name;
    PyObject* efficiency;  // as it was given

  private:
    PyObject* env_;
};

// None: identity; a mapping: a table; a callable: called on every change.
[[nodiscard]] std::shared_ptr<const Efficiency> efficiency_from(nb::handle given);

[[nodiscard]] std::string why(const Stalled& stalled, const std::string& resource);

// The object behind a token of the simulation.
[[nodiscard]] PyObject* look(std::uint64_t token);

}  // namespace twinloop::bind
