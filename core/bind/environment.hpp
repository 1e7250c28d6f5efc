// A simulation as seen from Python: owns the simulation of the kernel and is its client.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bind/event.hpp"
#include "bind/in_use.hpp"
#include "platform/transfers.hpp"

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

// Names of things that are numbered from 0.
class NameTable {
  public:
    [[nodiscard]] std::uint32_t find(const std::string& name) const {
        const auto found = numbers_.find(name);
        return found == numbers_.end() ? none : found->second;
    }
    // The number of the name, which is added if it is new.
    std::uint32_t intern(const std::string& name) {
        const auto [place, added] =
            numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
        if (added) names_.push_back(name);
        return place->second;
    }
    [[nodiscard]] const std::string& operator[](std::uint32_t number) const {
        return names_[number];
    }
    [[nodiscard]] std::size_t size() const { return names_.size(); }
    [[nodiscard]] const std::vector<std::string>& list() const { return names_; }

  private:
    std::vector<std::string> names_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The network of an environment: a value that copies of the environment copy.
struct EnvironmentNetwork {
    Transfers transfers;
    NameTable nodes;
    NameTable links;
    NameTable stores;
    NameTable files;
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
    // The end of a release, whose event no program can refer to: the resource serves its queue.
    void schedule_release(nb::handle resource);
    [[nodiscard]] bool timer_pending(EventId event, nb::handle timer) const;
    bool cancel_timer(EventId event, nb::handle timer);

    // `on`: a Resource or an iterable of them.
    nb::object start(nb::handle self, double work, nb::handle on, const ActivityOptions& options);
    // A resource with its Python object.
    nb::object add_resource(nb::handle self, double capacity, std::string name,
                            nb::handle efficiency = nb::none());
    // Starts a transfer over the network of the environment.
    nb::object start_transfer(nb::handle self, TransferSpec spec, std::string name);
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
    std::vector<PyObject*> resources;             // Resource objects by id
    std::vector<PyObject*> onlookers;             // attached Observer and Recording objects
    std::unique_ptr<EnvironmentNetwork> network;  // nullptr: none
    std::uint64_t activity_count = 0;
    std::size_t processes = 0;   // alive
    PyObject* active = nullptr;  // the process that runs now, borrowed

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

    // Values of a lease when it was released.
    struct Last {
        double consumed;
        double done;
        double cost;
    };
    // Throws if it is a lease that was released.
    void check_open() const;
    [[nodiscard]] ResourceId open_id() const {
        check_open();
        return id;
    }

    ResourceId id;
    std::string name;
    PyObject* efficiency;  // as it was given
    std::optional<Last> last;

  private:
    PyObject* env_;
};

// The Network of an environment, or None.
[[nodiscard]] nb::object network_of(nb::handle env);

// None: identity; a mapping: a table; a callable: called on every change.
[[nodiscard]] std::shared_ptr<const Efficiency> efficiency_from(nb::handle given);

// The functions of resources that are leases, or have some.
void bind_leases(nb::class_<Resource>& resource);

[[nodiscard]] std::string why(const Stalled& stalled, const std::string& resource);

// The object behind a token of the simulation.
[[nodiscard]] PyObject* look(std::uint64_t token);

}  // namespace twinloop::bind
