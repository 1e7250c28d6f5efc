#include "kernel/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernel/checks.hpp"

namespace twinloop {

Simulation::Simulation(double start, std::shared_ptr<const SharingRule> rule)
    : now_(start), resources_(std::move(rule), queue_, pool_) {
    if (!(std::isfinite(start) && std::abs(start) <= largest))
        refuse("start", "finite, at most 1e50", start);
}

Simulation::Simulation(const Simulation& other)
    : now_(other.now_), events_(other.events_), queue_(other.queue_), pool_(other.pool_),
      resources_(other.resources_, queue_, pool_), profiles_(other.profiles_),
      recurrences_(other.recurrences_), free_recurrences_(other.free_recurrences_) {}

// ---- Checks -------------------------------------------------------------------------------------

bool Simulation::alive(ActivityId id) const {
    return id.slot < pool_.slots() && pool_[id.slot].generation == id.generation &&
           pool_[id.slot].state != State::free;
}

const Activity& Simulation::find(ActivityId id) const {
    if (!alive(id)) throw std::runtime_error("the activity has ended");
    return pool_[id.slot];
}

Activity& Simulation::find(ActivityId id) {
    return const_cast<Activity&>(std::as_const(*this).find(id));
}

const Activity& Simulation::activity(ActivityId id) const { return find(id); }

void Simulation::check_route(std::span<const ResourceId> route) const {
    if (route.empty()) throw std::invalid_argument("an activity needs at least one resource");
    for (std::size_t i = 0; i < route.size(); ++i) {
        (void)resources_.at(route[i]);
        if (std::ranges::find(route.first(i), route[i]) != route.begin() + static_cast<long>(i))
            throw std::invalid_argument("a resource is listed twice for one activity");
    }
    if (resources_.has_leases()) resources_.check_route(route);
}

void Simulation::check_future(const char* what, double time) const {
    if (std::isnan(time)) refuse(what, "a number", time);
    if (time < now_)
        throw std::invalid_argument(std::string(what) + " is in the past: it is " + text(now_) +
                                    " already, got " + text(time));
    if (time > largest) refuse(what, "at most 1e50", time);
}

// ---- The main loop ------------------------------------------------------------------------------

double Simulation::settle_changes() {
    for (;;) {
        resources_.split_groups(now_);
        // All changes at one time are settled together, before time advances.
        const double next = queue_.next_time();
        if (next <= now_) return now_;
        if (resources_.is_dirty()) {
            resources_.settle(now_);
        } else if (resources_.has_notices()) {
            notice_rates();
        } else {
            return next;
        }
    }
}

bool Simulation::step(double before) {
    const double next = ready();
    if (!(next < before)) return false;  // also where `before` is not a number
    if (before == never && !profiles_.empty() && only_repetition_left()) return false;
    now_ = next;
    fire();
    return true;
}

void Simulation::set_start(double time) {
    if (events_ > 0 || pool_.live() > 0)
        throw std::runtime_error("the simulation has begun already");
    now_ = time;
    resources_.set_start(time);
}

// A repeating profile continues only while it can enable an activity.
bool Simulation::only_repetition_left() {
    if (queue_[queue_.next()].kind != EventKind::capacity) return false;
    std::size_t steps = 0;
    for (const Profile& profile : profiles_)
        if (profile.period < never) steps += queue_.queued(profile.event);
    if (steps < queue_.size()) {
        fruitless_steps_ = 0;
        return false;
    }
    // Active activities have rate 0 here, otherwise their ends would be in the queue.
    for (Slot slot = 0; slot < pool_.slots(); ++slot)
        if (pool_[slot].hold != Hold::nothing) return ++fruitless_steps_ > 100'000;
    return true;
}

void Simulation::run_until(double time) {
    check_future("until", time);
    while (step(time)) {
    }
    now_ = time;
}

void Simulation::jump(double time) {
    check_future("the time to jump to", time);
    if (next_time() < time)
        throw std::invalid_argument("cannot jump to " + text(time) + ": there is an event at " +
                                    text(next_time()));
    now_ = time;
}

void Simulation::wait(double time) {
    check_future("the time to wait for", time);
    resources_.settle(now_);
    notice_rates();  // with the time of the change
    now_ = time;
}

std::size_t Simulation::skip(double time) {
    check_future("the time to skip to", time);
    std::size_t dropped = 0;
    for (;;) {
        const double next = ready();
        if (next >= time) break;
        const EventId event = queue_.next();
        const EventQueue::Slot slot = queue_[event];
        if (slot.kind != EventKind::timer) {
            now_ = next;
            fire();
            continue;
        }
        if (slot.recurrence != none) {
            Recurrence& recurrence = recurrences_[slot.recurrence];
            // The first tick at or after `time`, computed directly.
            const double ticks = std::ceil((time - recurrence.origin) / recurrence.period);
            const double missed = ticks - static_cast<double>(recurrence.ticks);
            const std::uint64_t passed =
                missed < 1e18 ? std::clamp(static_cast<std::uint64_t>(std::max(missed, 1.0)),
                                           std::uint64_t{1}, recurrence.left)
                              : recurrence.left;
            recurrence.ticks += passed;
            recurrence.left -= passed;
            dropped += passed;
            if (recurrence.left > 0) {
                queue_.schedule(event, recurrence.time());
                continue;
            }
        } else {
            ++dropped;
        }
        cancel_timer(event);
        if (client_) client_->dropped(slot.subject);
    }
    now_ = time;
    return dropped;
}

void Simulation::fire() {
    const EventId event = queue_.take();
    const EventQueue::Slot slot = queue_[event];
    if (slot.kept) {
        client_->fired(slot.subject, true);
        return;
    }
    switch (slot.kind) {
        case EventKind::end:
            if (slot.subject & group_mark) {
                end_due_in(static_cast<std::uint32_t>(slot.subject));
            } else {
                end_due(static_cast<ResourceId>(slot.subject));
            }
            break;
        case EventKind::capacity:
            step_profile(static_cast<std::uint32_t>(slot.subject));
            break;
        case EventKind::start:
            queue_.destroy(event);
            begin(pool_[static_cast<Slot>(slot.subject)], static_cast<Slot>(slot.subject));
            break;
        case EventKind::timer:
            ++events_;
            if (slot.recurrence != none) {
                tick(slot.recurrence);
                break;
            }
            [[fallthrough]];
        case EventKind::step:
        case EventKind::machine:
        case EventKind::urgent:
            queue_.destroy(event);
            if (client_) client_->fired(slot.subject, false);
            break;
        case EventKind::feed:
            feed(event, slot.subject);
            break;
    }
}

// The client returns the time of its next call.
void Simulation::feed(EventId event, std::uint64_t token) {
    const double next = client_ ? client_->feed(token) : never;
    if (next < never) {
        queue_.schedule(event, std::max(next, now_));
    } else {
        queue_.destroy(event);
    }
}

// ---- Timers -------------------------------------------------------------------------------------

EventId Simulation::schedule(double time, std::uint64_t token, EventKind kind) {
    return schedule(time, token, kind, queue_.next_rank());
}

EventId Simulation::schedule(double time, std::uint64_t token, EventKind kind, std::uint64_t rank) {
    check_future("the time of an event", time);
    const EventId event = queue_.create(kind, token);
    queue_.schedule(event, time, rank);
    return event;
}

EventId Simulation::add_timer(EventKind kind, std::uint64_t token) {
    const EventId event = queue_.create(kind, token);
    queue_.keep(event);
    return event;
}

EventId Simulation::schedule_every(double first, double period, std::uint64_t count,
                                   std::uint64_t token) {
    check_future("the first time", first);
    check_positive("period", period);
    if (count == 0) throw std::invalid_argument("count must be at least 1");
    const EventId event = queue_.create(EventKind::timer, token);
    std::uint32_t index;
    if (free_recurrences_.empty()) {
        index = static_cast<std::uint32_t>(recurrences_.size());
        recurrences_.emplace_back();
    } else {
        index = free_recurrences_.back();
        free_recurrences_.pop_back();
    }
    recurrences_[index] = {period, first, 0, count, token, event};
    queue_.set_recurrence(event, index);
    queue_.schedule(event, first);
    return event;
}

void Simulation::tick(std::uint32_t index) {
    Recurrence& recurrence = recurrences_[index];
    const std::uint64_t token = recurrence.token;
    const bool again = --recurrence.left > 0;
    if (again) {
        ++recurrence.ticks;
        // From the origin, so that a million periods add no rounding error.
        const double next = recurrence.time();
        if (next <= now_)
            throw std::runtime_error("a period of " + text(recurrence.period) +
                                     " is lost in rounding at time " + text(now_));
        queue_.schedule(recurrence.event, next);
    } else {
        cancel_timer(recurrence.event);
    }
    if (client_) client_->fired(token, again);
}

void Simulation::cancel_timer(EventId event) {
    const std::uint32_t recurrence = queue_[event].recurrence;
    if (recurrence != none) free_recurrences_.push_back(recurrence);
    queue_.destroy(event);
}

bool Simulation::timer_pending(EventId event, std::uint64_t token) const {
    return queue_.used(event) && queue_[event].subject == token && queue_.queued(event) &&
           queue_[event].kind >= EventKind::feed;
}

std::vector<std::uint64_t> Simulation::timer_tokens() const {
    std::vector<std::uint64_t> tokens;
    for (EventId event = 0; event < queue_.slot_count(); ++event)
        if (queue_.used(event) && queue_[event].kind >= EventKind::feed)
            tokens.push_back(queue_[event].subject);
    return tokens;
}

// ---- Resources ----------------------------------------------------------------------------------

void Simulation::set_profile(ResourceId id, std::vector<double> times,
                             std::vector<double> capacities, double period) {
    resources_.check_open();
    Resource& resource = resources_.at(id);
    if (is_lease(id)) (void)lease(id);
    if (times.empty() || times.size() != capacities.size())
        throw std::invalid_argument("a profile needs as many times as capacities, at least one");
    check_future("the first time of a profile", times.front());
    for (std::size_t i = 0; i < times.size(); ++i) {
        check_not_negative("capacity", capacities[i]);
        check_future("a time of a profile", times[i]);
        if (i > 0 && times[i] <= times[i - 1])
            throw std::invalid_argument("the times of a profile must increase: " +
                                        text(times[i - 1]) + " is followed by " + text(times[i]));
    }
    if (period != never) {
        check_positive("period", period);
        if (period <= times.back() - times.front())
            throw std::invalid_argument("the period of a profile must exceed its length");
    }
    if (resource.profile == none) {
        resource.profile = static_cast<std::uint32_t>(profiles_.size());
        profiles_.emplace_back();
        profiles_.back().event = queue_.create(EventKind::capacity, resource.profile);
    }
    Profile& profile = profiles_[resource.profile];
    profile = {id, std::move(times), std::move(capacities), period, 0, 0.0, profile.event};
    queue_.schedule(profile.event, profile.times.front());
}

void Simulation::release_lease(ResourceId id) {
    resources_.check_open();
    // A callback may start others.
    while (resources_.lease(id).users > 0)
        for (const ActivityId each : activities())
            if (alive(each) && pool_[each.slot].route.front() == id) cancel(each);
    resources_.release_lease(id);
    const std::uint32_t profile = resources_.at(id).profile;
    if (profile != none) queue_.cancel(profiles_[profile].event);
}

void Simulation::step_profile(std::uint32_t index) {
    Profile& profile = profiles_[index];
    ++events_;
    const double capacity = profile.capacities[profile.next];
    if (++profile.next == profile.times.size() && profile.period < never) {
        profile.next = 0;
        profile.shift += profile.period;
    }
    if (profile.next < profile.times.size()) {
        const double next = profile.times[profile.next] + profile.shift;
        if (next <= now_)
            throw std::runtime_error("the period of a profile is lost in rounding at time " +
                                     text(now_));
        queue_.schedule(profile.event, next);
    } else {
        queue_.cancel(profile.event);
    }
    set_capacity(profile.resource, capacity);
}

// ---- Activities ---------------------------------------------------------------------------------

ActivityId Simulation::start(const ActivitySpec& spec, std::span<const ResourceId> route) {
    resources_.check_open();
    check_not_negative("work", spec.work);
    check_limit(spec.limit);
    check_positive("weight", spec.weight);
    if (std::isnan(spec.start) || spec.start > largest)
        refuse("the start of an activity", "at most 1e50", spec.start);
    check_route(route);
    return launch(spec, route);
}

ActivityId Simulation::launch(const ActivitySpec& spec, std::span<const ResourceId> route) {
    const Slot slot = pool_.take();
    Activity& activity = pool_[slot];
    activity.work = activity.left = spec.work;
    activity.consumed = 0.0;
    activity.started = std::numeric_limits<double>::quiet_NaN();
    activity.suspend_on_start = false;
    activity.limit = spec.limit;
    activity.weight = spec.weight;
    activity.kind = spec.kind;
    activity.priority = spec.priority;
    activity.token = spec.token;
    activity.route.assign(route);
    if (resources_.has_leases()) resources_.book(route);
    const ActivityId id{slot, activity.generation};
    if (spec.start > now_) {
        activity.state = State::waiting;
        activity.where = queue_.create(EventKind::start, slot);
        if (spec.start < never) queue_.schedule(activity.where, spec.start);
    } else {
        begin(activity, slot);
    }
    return id;
}

void Simulation::begin(Activity& activity, Slot slot) {
    ++events_;
    activity.where = none;
    activity.started = now_;
    if (activity.suspend_on_start) {
        activity.suspend_on_start = false;
        activity.state = State::suspended;
    } else {
        activity.state = State::running;
        resources_.draw(activity, slot, now_);
    }
    const ActivityId id{slot, activity.generation};
    for (std::size_t i = 0; i < observers_.size(); ++i) observers_[i]->started(id);
}

void Simulation::start_at(ActivityId id, double time) {
    Activity& activity = find(id);
    if (activity.state != State::waiting) return;
    if (time > now_) {
        queue_.schedule(activity.where, time);
    } else {
        queue_.destroy(activity.where);
        begin(activity, id.slot);
    }
}

void Simulation::suspend(ActivityId id) {
    resources_.check_open();
    Activity& activity = find(id);
    if (activity.state == State::waiting) activity.suspend_on_start = true;
    if (activity.state != State::running) return;
    resources_.withdraw(activity, id.slot, now_);
    activity.state = State::suspended;
}

void Simulation::resume(ActivityId id) {
    resources_.check_open();
    Activity& activity = find(id);
    activity.suspend_on_start = false;
    if (activity.state != State::suspended) return;
    activity.state = State::running;
    resources_.draw(activity, id.slot, now_);
}

void Simulation::cancel(ActivityId id) {
    resources_.check_open();
    (void)find(id);
    end(id.slot, Ending::cancelled);
}

template <class Change>
void Simulation::change(ActivityId id, Change&& apply) {
    resources_.check_open();
    Activity& activity = find(id);
    const bool running = activity.state == State::running;
    if (running) resources_.withdraw(activity, id.slot, now_);
    apply(activity);
    if (running) resources_.draw(activity, id.slot, now_);
}

void Simulation::set_limit(ActivityId id, double limit) {
    check_limit(limit);
    change(id, [limit](Activity& activity) { activity.limit = limit; });
}

void Simulation::set_weight(ActivityId id, double weight) {
    check_positive("weight", weight);
    change(id, [weight](Activity& activity) { activity.weight = weight; });
}

void Simulation::set_remaining(ActivityId id, double work) {
    check_not_negative("remaining work", work);
    change(id, [work](Activity& activity) {
        activity.work += work - activity.left;
        activity.left = work;
    });
}

void Simulation::move(ActivityId id, std::span<const ResourceId> route) {
    check_route(route);
    Route copy;
    copy.assign(route);
    change(id, [&](Activity& activity) {
        if (resources_.has_leases()) {
            resources_.unbook(activity.route.view());
            resources_.book(route);
        }
        activity.route = std::move(copy);
    });
}

double Simulation::work_done(ActivityId id) const {
    return std::max(find(id).work - remaining(id), 0.0);
}

std::vector<ActivityId> Simulation::activities() const {
    std::vector<ActivityId> found;
    for (Slot slot = 0; slot < pool_.slots(); ++slot)
        if (pool_[slot].state != State::free) found.push_back({slot, pool_[slot].generation});
    return found;
}

void Simulation::forget_tokens() {
    for (EventId event = 0; event < queue_.slot_count(); ++event)
        if (queue_.used(event) && queue_[event].kind >= EventKind::feed) cancel_timer(event);
    for (Slot slot = 0; slot < pool_.slots(); ++slot) pool_[slot].token = 0;
}

// ---- Ends ---------------------------------------------------------------------------------------

void Simulation::end_due(ResourceId id) {
    resources_.touch(id);
    // A callback may couple the resource to others; its group then processes the rest.
    for (;;) {
        const Slot slot = resources_.next_due(id, now_);
        if (slot == none) break;
        end(slot, Ending::finished);
    }
}

void Simulation::end_due_in(std::uint32_t group) {
    const std::vector<Slot> due = resources_.list_due(group, now_);
    std::vector<std::uint64_t> tags;
    tags.reserve(due.size());
    for (const Slot slot : due) tags.push_back(pool_[slot].tag);
    // A callback may end, change or move any of the others.
    for (std::size_t i = 0; i < due.size(); ++i)
        if (pool_[due[i]].tag == tags[i]) end(due[i], Ending::finished);
}

void Simulation::end(Slot slot, Ending how) {
    Activity& activity = pool_[slot];
    if (activity.state == State::running) resources_.withdraw(activity, slot, now_);
    if (activity.state == State::waiting) queue_.destroy(activity.where);
    if (how == Ending::finished) {
        ++events_;
        activity.left = 0.0;
    }
    const Final figures{activity.started, activity.left, activity.work - activity.left,
                        activity.consumed, pool_.has_charges() ? pool_.charge(slot).total : 0.0};
    const std::uint64_t token = activity.token;
    if (resources_.has_leases()) resources_.unbook(activity.route.view());
    pool_.give_back(slot);
    // An exception of an observer must not prevent the notification of the client.
    std::exception_ptr failure;
    for (std::size_t i = 0; i < observers_.size(); ++i) {
        try {
            observers_[i]->ended(token, how, figures);
        } catch (...) {
            if (!failure) failure = std::current_exception();
        }
    }
    if (client_ && token != 0) client_->ended(token, how, figures);
    if (failure) std::rethrow_exception(failure);
}

// ---- Settling -----------------------------------------------------------------------------------

void Simulation::notice_rates() {
    // One at a time: after an exception of an observer, the rest is reported when the run
    // continues.
    while (resources_.has_notices()) {
        const ResourceId id = resources_.take_notice();
        for (std::size_t i = 0; i < observers_.size(); ++i)
            observers_[i]->rate_changed(id, now_, resources_.settled_rate(id));
    }
}

std::vector<Stalled> Simulation::stalled() {
    resources_.settle(now_);
    std::vector<Stalled> found;
    for (Slot slot = 0; slot < pool_.slots(); ++slot) {
        const Activity& activity = pool_[slot];
        if (activity.state == State::free) continue;
        Stalled each{slot, Stall::too_long, activity.route.front()};
        if (activity.state == State::suspended) {
            each.why = Stall::suspended;
        } else if (activity.state == State::waiting) {
            each.why = Stall::not_started;
        } else if (activity.limit == 0.0) {
            each.why = Stall::no_limit;
        } else if (resources_.is_lease(each.where) && resources_.lease(each.where).suspended) {
            each.why = Stall::lease_suspended;
        } else {
            if (rate(ActivityId{slot, activity.generation}) == 0.0) each.why = Stall::outrun;
            std::vector<ResourceId> used(activity.route.view().begin(),
                                         activity.route.view().end());
            if (resources_.is_lease(each.where)) used.push_back(resources_.lease(each.where).host);
            for (const ResourceId id : used) {
                if (resources_.at(id).capacity == 0.0) {
                    each.why = Stall::no_capacity;
                    each.where = id;
                } else if (resources_.at(id).efficiency_of(activity.kind) == 0.0) {
                    each.why = Stall::no_efficiency;
                    each.where = id;
                }
            }
        }
        found.push_back(each);
    }
    return found;
}

}  // namespace twinloop
