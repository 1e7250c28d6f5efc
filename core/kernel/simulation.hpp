// A simulation: clock, event queue, resources, and the activities that use them. It is a value: a
// copy continues from the same state and gives the same results.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/event_queue.hpp"
#include "kernel/shared_resources.hpp"
#include "kernel/sharing_rule.hpp"

namespace twinloop {

enum class Ending : std::uint8_t { finished, cancelled };

// Final values of an ended activity.
struct Final {
    double started;
    double remaining;
    double done;
    double consumed;
    double cost;
};

// Client of a simulation: receives the events that carry its tokens.
class Client {
  public:
    virtual ~Client() = default;
    // A timer, or another event that the client scheduled; `again`: it recurs or is kept.
    virtual void fired(std::uint64_t token, bool again) = 0;
    // A timer that was skipped and does not recur.
    virtual void dropped(std::uint64_t token) = 0;
    // The client starts due activities and returns the time of the next call.
    virtual double feed(std::uint64_t token) = 0;
    // An activity with a token; it no longer exists in the simulation.
    virtual void ended(std::uint64_t token, Ending how, const Final& figures) = 0;
};

// Observer of a simulation. The rate of an activity is min(limit, weight x level), so one
// notification per resource and change determines all rates there.
class Observer {
  public:
    virtual ~Observer() = default;
    virtual void started(ActivityId) {}
    // It no longer exists in the simulation.
    virtual void ended(std::uint64_t /*token*/, Ending, const Final&) {}
    virtual void rate_changed(ResourceId, double /*now*/, double /*rate*/) {}
};

struct ActivitySpec {
    double work = 0.0;
    double limit = never;
    double weight = 1.0;
    Kind kind = 0;
    std::int32_t priority = 0;
    double start = 0.0;  // start time; a time up to now means now; never: `start_at` sets it
    std::uint64_t token = 0;
};

// Reason why an activity cannot end.
enum class Stall : std::uint8_t {
    suspended,
    not_started,
    lease_suspended,
    no_capacity,
    no_limit,
    no_efficiency,
    outrun,
    too_long
};

struct Stalled {
    Slot slot;
    Stall why;
    ResourceId where;
};

class Simulation {
  public:
    explicit Simulation(double start = 0.0,
                        std::shared_ptr<const SharingRule> rule = std::make_shared<MaxMin>());
    // The copy has no client and no observers.
    Simulation(const Simulation& other);
    Simulation(Simulation&&) = delete;
    Simulation& operator=(const Simulation&) = delete;
    Simulation& operator=(Simulation&&) = delete;
    ~Simulation() = default;

    void set_client(Client* client) { client_ = client; }
    void add_observer(Observer* observer) {
        observers_.push_back(observer);
        resources_.set_observed(true);
    }
    void remove_observer(Observer* observer) {
        std::erase(observers_, observer);
        resources_.set_observed(!observers_.empty());
    }

    // Time
    [[nodiscard]] double now() const { return now_; }
    // Sets the clock of a simulation that has not begun.
    void set_start(double time);
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] double next_time() { return ready(); }
    // Processes the next event before that time; false if there is none. Without a time, steps of
    // repeating profiles count only if an activity waits for capacity.
    bool step(double before = never);
    // Processes the next event; `time` is the result of `next_time` since the last change.
    void process(double time) {
        now_ = time;
        fire();
    }
    // The number of pending events; simultaneous ends on a resource or in a group are one.
    [[nodiscard]] std::size_t pending() const { return queue_.size(); }
    void run_until(double time);    // events before `time`, then sets the clock
    void jump(double time);         // an earlier event is an error
    void wait(double time);         // sets the clock; earlier events then happen late
    std::size_t skip(double time);  // drops the timers before `time`; activities continue

    // Timers of the client
    EventId schedule(double time, std::uint64_t token, EventKind kind = EventKind::timer);
    // `rank`: among simultaneous events of the kind.
    EventId schedule(double time, std::uint64_t token, EventKind kind, std::uint64_t rank);
    EventId schedule_every(double first, double period, std::uint64_t count, std::uint64_t token);
    void cancel_timer(EventId event);
    // Kept timers: their owner sets them again, and they remain when they fire. Timers of one kind
    // that fire at the same time do so in the order of their ranks; by default that of the calls.
    [[nodiscard]] EventId add_timer(EventKind kind, std::uint64_t token);
    void set_timer(EventId event, double time) { queue_.schedule(event, time); }
    void set_timer(EventId event, double time, std::uint64_t rank) {
        queue_.schedule(event, time, rank);
    }
    [[nodiscard]] std::uint64_t next_rank() { return queue_.next_rank(); }
    // A rank of an earlier simulation: those given from now on are higher.
    void use_rank(std::uint64_t rank) { queue_.use_rank(rank); }
    void stop_timer(EventId event) { queue_.cancel(event); }
    [[nodiscard]] bool timer_set(EventId event) const { return queue_.queued(event); }
    void set_kind_order(const std::array<std::uint8_t, event_kinds>& ranks) {
        queue_.set_kind_order(ranks);
    }
    [[nodiscard]] bool timer_pending(EventId event, std::uint64_t token) const;
    [[nodiscard]] double timer_time(EventId event) const { return queue_.time_of(event); }
    [[nodiscard]] std::uint64_t timer_rank(EventId event) const { return queue_.rank_of(event); }
    [[nodiscard]] std::vector<std::uint64_t> timer_tokens() const;

    // Resources
    ResourceId add_resource(double capacity, std::shared_ptr<const Efficiency> efficiency = {}) {
        return resources_.add(capacity, std::move(efficiency), now_);
    }
    void set_capacity(ResourceId id, double capacity) {
        resources_.set_capacity(id, capacity, now_);
    }
    // The cost of the resource from now on; nullptr: none. The kernel charges it to the activities
    // that draw on the resource, see cost.hpp.
    void set_cost_model(ResourceId id, std::shared_ptr<const CostModel> model) {
        resources_.set_cost_model(id, std::move(model), now_);
    }
    // Capacity over time; with a period the steps repeat, counted from the first.
    void set_profile(ResourceId id, std::vector<double> times, std::vector<double> capacities,
                     double period = never);
    [[nodiscard]] std::size_t resource_count() const { return resources_.size(); }
    [[nodiscard]] double capacity(ResourceId id) const { return resources_.at(id).capacity; }
    [[nodiscard]] double level(ResourceId id) { return resources_.level(id, now_); }
    [[nodiscard]] double rate(ResourceId id) { return resources_.rate(id, now_); }
    // Reports the rate to the observers when all changes at this time are settled, also if it is
    // the same as before them.
    void report_rate(ResourceId id) { resources_.request_notice(id); }
    [[nodiscard]] double consumed(ResourceId id) const { return resources_.consumed(id, now_); }
    [[nodiscard]] double done(ResourceId id) const { return resources_.done(id, now_); }
    [[nodiscard]] double cost(ResourceId id) const { return resources_.cost(id, now_); }
    [[nodiscard]] std::uint32_t running(ResourceId id) const { return resources_.running(id); }
    [[nodiscard]] std::vector<ResourceId> influence_group(ResourceId id) const {
        return resources_.influence_group(id);
    }
    // Whether the resource is solved with a group; otherwise it is shared by virtual time.
    [[nodiscard]] bool has_group(ResourceId id) const { return resources_.at(id).group != none; }

    // Leases, see lease.hpp: resources of their own, whose capacity is their size. Weight 0: always
    // the size.
    ResourceId add_lease(ResourceId host, double size, double weight) {
        return resources_.add_lease(host, size, weight, now_);
    }
    // Cancels the activities on the lease; its id may be used again by a later lease.
    void release_lease(ResourceId id);
    void set_lease_weight(ResourceId id, double weight) {
        resources_.set_lease_weight(id, weight, now_);
    }
    void suspend_lease(ResourceId id) { resources_.suspend_lease(id, now_); }
    void resume_lease(ResourceId id) { resources_.resume_lease(id, now_); }
    void move_lease(ResourceId id, ResourceId host) { resources_.move_lease(id, host, now_); }
    [[nodiscard]] bool is_lease(ResourceId id) const { return resources_.is_lease(id); }
    [[nodiscard]] const Lease& lease(ResourceId id) const { return resources_.lease(id); }
    [[nodiscard]] std::vector<ResourceId> leases_on(ResourceId host) const {
        return resources_.leases_on(host);
    }

    // Activities
    ActivityId start(const ActivitySpec& spec, std::span<const ResourceId> route);
    // Without validation, for a client that has validated all activities in advance.
    ActivityId launch(const ActivitySpec& spec, std::span<const ResourceId> route);
    // Sets the start of an activity that waits for it.
    void start_at(ActivityId id, double time);
    void suspend(ActivityId id);
    void resume(ActivityId id);
    void cancel(ActivityId id);
    void set_limit(ActivityId id, double limit);
    void set_weight(ActivityId id, double weight);
    void set_remaining(ActivityId id, double work);
    void move(ActivityId id, std::span<const ResourceId> route);

    [[nodiscard]] bool alive(ActivityId id) const;
    [[nodiscard]] const Activity& activity(ActivityId id) const;
    [[nodiscard]] double remaining(ActivityId id) const {
        return resources_.remaining(find(id), now_);
    }
    [[nodiscard]] double consumed(ActivityId id) const {
        return resources_.consumed(find(id), now_);
    }
    [[nodiscard]] double cost(ActivityId id) const {
        return resources_.cost(find(id), id.slot, now_);
    }
    [[nodiscard]] double work_done(ActivityId id) const;
    [[nodiscard]] double rate(ActivityId id) { return resources_.rate(find(id), now_); }
    [[nodiscard]] std::size_t live() const { return pool_.live(); }
    [[nodiscard]] std::vector<ActivityId> activities() const;
    void set_token(ActivityId id, std::uint64_t token) { find(id).token = token; }
    [[nodiscard]] std::uint64_t token(Slot slot) const { return pool_[slot].token; }

    // Removes the timers and tokens of the client.
    void forget_tokens();

    // The activities that no pending event will end. Valid when no event is left.
    [[nodiscard]] std::vector<Stalled> stalled();

  private:
    struct Profile {
        ResourceId resource;
        std::vector<double> times;
        std::vector<double> capacities;
        double period;
        std::size_t next;
        double shift;
        EventId event;
    };
    struct Recurrence {
        double period;
        double origin;
        std::uint64_t ticks;
        std::uint64_t left;
        std::uint64_t token;
        EventId event;
        [[nodiscard]] double time() const { return origin + static_cast<double>(ticks) * period; }
    };

    [[nodiscard]] Activity& find(ActivityId id);
    [[nodiscard]] const Activity& find(ActivityId id) const;
    void check_route(std::span<const ResourceId> route) const;
    void check_future(const char* what, double time) const;

    // The time of the next event, after settling all changes.
    [[nodiscard]] double ready() {
        if (!resources_.is_settled() || resources_.has_notices()) return settle_changes();
        const double next = queue_.next_time();
        return next <= now_ ? now_ : next;
    }
    [[nodiscard]] double settle_changes();
    void notice_rates();
    [[nodiscard]] bool only_repetition_left();
    void fire();
    void feed(EventId event, std::uint64_t token);
    void end_due(ResourceId id);
    void end_due_in(std::uint32_t group);
    void end(Slot slot, Ending how);
    void step_profile(std::uint32_t index);
    void tick(std::uint32_t index);
    void begin(Activity& activity, Slot slot);
    template <class Change>
    void change(ActivityId id, Change&& apply);

    double now_;
    std::uint64_t events_ = 0;
    EventQueue queue_;
    ActivityPool pool_;
    SharedResources resources_;
    std::vector<Profile> profiles_;
    std::vector<Recurrence> recurrences_;
    std::vector<std::uint32_t> free_recurrences_;
    std::uint32_t fruitless_steps_ = 0;
    Client* client_ = nullptr;
    std::vector<Observer*> observers_;
};

}  // namespace twinloop
