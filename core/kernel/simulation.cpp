#include "kernel/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernel/busy.hpp"
#include "kernel/checks.hpp"

namespace twinloop {
namespace {

constexpr std::uint64_t group_mark = std::uint64_t{1} << 32;

}  // namespace

Simulation::Simulation(double start, std::shared_ptr<const SharingRule> rule)
    : now_(start), rule_(std::move(rule)), levels_(rule_->levels_single_resources()) {
    if (!(std::isfinite(start) && std::abs(start) <= largest))
        refuse("start", "finite, at most 1e50", start);
}

Simulation::Simulation(const Simulation& other)
    : now_(other.now_), events_(other.events_), rule_(other.rule_), levels_(other.levels_),
      queue_(other.queue_), pool_(other.pool_), resources_(other.resources_),
      groups_(other.groups_), free_groups_(other.free_groups_), profiles_(other.profiles_),
      recurrences_(other.recurrences_), free_recurrences_(other.free_recurrences_),
      dirty_resources_(other.dirty_resources_), dirty_groups_(other.dirty_groups_),
      to_split_(other.to_split_) {
    other.check_open();
}

// ---- Checks -------------------------------------------------------------------------------------

const Resource& Simulation::at(ResourceId id) const {
    if (id >= resources_.size())
        throw std::invalid_argument("there is no resource " + std::to_string(id));
    return resources_[id];
}

Resource& Simulation::at(ResourceId id) {
    return const_cast<Resource&>(std::as_const(*this).at(id));
}

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
        (void)at(route[i]);
        if (std::ranges::find(route.first(i), route[i]) != route.begin() + static_cast<long>(i))
            throw std::invalid_argument("a resource is listed twice for one activity");
    }
}

void Simulation::check_open() const {
    if (settling_)
        throw std::runtime_error("an efficiency function must not use its own simulation");
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
        if (!to_split_.empty()) split_groups();
        // All changes at one time are settled together, before time advances.
        const double next = queue_.next_time();
        if (next <= now_) return now_;
        if (!dirty_resources_.empty() || !dirty_groups_.empty()) {
            settle();
        } else if (!rate_notices_.empty()) {
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
    for (Resource& resource : resources_) resource.set_start(time);
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
    settle();
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

ResourceId Simulation::add_resource(double capacity, std::shared_ptr<const Efficiency> efficiency) {
    check_open();
    check_not_negative("capacity", capacity);
    const auto id = static_cast<ResourceId>(resources_.size());
    resources_.emplace_back(capacity, std::move(efficiency), queue_.create(EventKind::end, id),
                            now_);
    return id;
}

void Simulation::set_capacity(ResourceId id, double capacity) {
    check_open();
    check_not_negative("capacity", capacity);
    if (at(id).capacity == capacity) return;
    Resource& resource = resources_[id];
    resource.set_capacity(capacity);
    if (resource.group != none) groups_[resource.group].links()[resource.link].capacity = capacity;
    touch(id);
}

void Simulation::set_cost_model(ResourceId id, std::shared_ptr<const CostModel> model) {
    check_open();
    Resource& resource = at(id);
    if (model && !pool_.has_charges()) pool_.open_charges();
    if (resource.group != none) {
        groups_[resource.group].set_cost_model(resource, std::move(model), now_);
    } else {
        resource.set_cost_model(std::move(model), now_);
    }
    touch(id);
}

void Simulation::set_profile(ResourceId id, std::vector<double> times,
                             std::vector<double> capacities, double period) {
    check_open();
    Resource& resource = at(id);
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

const Link* Simulation::link_of(const Resource& resource) const {
    return resource.group == none ? nullptr : &groups_[resource.group].links()[resource.link];
}

double Simulation::rate(const Resource& resource) const {
    const Link* link = link_of(resource);
    return link ? link->used : resource.rate();
}

double Simulation::level(ResourceId id) {
    const Group* group = prospect(id);
    return group ? group->links()[at(id).link].level : at(id).prospect(pool_).level;
}

double Simulation::rate(ResourceId id) {
    const Group* group = prospect(id);
    return group ? group->links()[at(id).link].used : at(id).prospect(pool_).rate;
}

double Simulation::consumed(ResourceId id) const {
    const Resource& resource = at(id);
    const Link* link = link_of(resource);
    return resource.consumed(now_) + (link ? groups_[resource.group].consumed(*link, now_) : 0.0);
}

double Simulation::done(ResourceId id) const {
    const Resource& resource = at(id);
    const Link* link = link_of(resource);
    return resource.done(now_) + (link ? groups_[resource.group].done(*link, now_) : 0.0);
}

double Simulation::cost(ResourceId id) const {
    const Resource& resource = at(id);
    const Link* link = link_of(resource);
    return resource.cost(now_) + (link ? groups_[resource.group].cost(*link, now_) : 0.0);
}

std::vector<ResourceId> Simulation::influence_group(ResourceId id) const {
    if (at(id).group == none) return {id};
    // The group may not have been split yet.
    for (const auto& part : groups_[resources_[id].group].parts()) {
        std::set<ResourceId> members;
        for (const Slot slot : part)
            for (const ResourceId each : pool_[slot].route.view()) members.insert(each);
        if (members.contains(id)) return {members.begin(), members.end()};
    }
    return {id};
}

// ---- Activities ---------------------------------------------------------------------------------

ActivityId Simulation::start(const ActivitySpec& spec, std::span<const ResourceId> route) {
    check_open();
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
    const ActivityId id{slot, activity.generation};
    if (spec.start > now_) {
        activity.state = State::waiting;
        activity.where = queue_.create(EventKind::start, slot);
        queue_.schedule(activity.where, spec.start);
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
        draw(activity, slot);
    }
    const ActivityId id{slot, activity.generation};
    for (std::size_t i = 0; i < observers_.size(); ++i) observers_[i]->started(id);
}

void Simulation::suspend(ActivityId id) {
    check_open();
    Activity& activity = find(id);
    if (activity.state == State::waiting) activity.suspend_on_start = true;
    if (activity.state != State::running) return;
    withdraw(activity, id.slot);
    activity.state = State::suspended;
}

void Simulation::resume(ActivityId id) {
    check_open();
    Activity& activity = find(id);
    activity.suspend_on_start = false;
    if (activity.state != State::suspended) return;
    activity.state = State::running;
    draw(activity, id.slot);
}

void Simulation::cancel(ActivityId id) {
    check_open();
    (void)find(id);
    end(id.slot, Ending::cancelled);
}

template <class Change>
void Simulation::change(ActivityId id, Change&& apply) {
    check_open();
    Activity& activity = find(id);
    const bool running = activity.state == State::running;
    if (running) withdraw(activity, id.slot);
    apply(activity);
    if (running) draw(activity, id.slot);
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
    change(id, [&copy](Activity& activity) { activity.route = std::move(copy); });
}

const Group& Simulation::group_of(const Activity& activity) const {
    return groups_[resources_[activity.route.front()].group];
}

double Simulation::remaining(const Activity& activity) const {
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            return resources_[activity.route.front()].remaining(activity, now_);
        case Hold::group:
            return group_of(activity).remaining(activity.where, now_);
        default:
            return activity.left;
    }
}

double Simulation::consumed(const Activity& activity) const {
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            return resources_[activity.route.front()].consumed_by(activity, now_);
        case Hold::group:
            return group_of(activity).consumed(activity, now_);
        default:
            return activity.consumed;
    }
}

double Simulation::remaining(ActivityId id) const { return remaining(find(id)); }
double Simulation::consumed(ActivityId id) const { return consumed(find(id)); }
double Simulation::cost(ActivityId id) const {
    const Activity& activity = find(id);
    if (!pool_.has_charges()) return 0.0;
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            return resources_[activity.route.front()].charged_to(pool_, activity, now_);
        case Hold::group:
            return pool_.charge(id.slot).total + group_of(activity).charge(activity.where, now_);
        default:
            return pool_.charge(id.slot).total;
    }
}
double Simulation::work_done(ActivityId id) const {
    return std::max(find(id).work - remaining(id), 0.0);
}

double Simulation::rate(ActivityId id) {
    const Activity& activity = find(id);
    switch (activity.hold) {
        case Hold::limit:
        case Hold::level:
            return std::min(activity.limit, activity.weight * level(activity.route.front()));
        case Hold::group:
            return prospect(activity.route.front())->flows()[activity.where].rate;
        default:
            return 0.0;
    }
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
    touch(id);
    // A callback may couple the resource to others; its group then processes the rest.
    while (resources_[id].group == none) {
        const Slot slot = resources_[id].due(pool_, now_);
        if (slot == none) break;
        end(slot, Ending::finished);
    }
}

void Simulation::end_due_in(std::uint32_t group) {
    touch_group(group);
    std::vector<Slot> due;
    groups_[group].due(pool_, now_, due);
    std::vector<std::uint64_t> tags;
    tags.reserve(due.size());
    for (const Slot slot : due) tags.push_back(pool_[slot].tag);
    // A callback may end, change or move any of the others.
    for (std::size_t i = 0; i < due.size(); ++i)
        if (pool_[due[i]].tag == tags[i]) end(due[i], Ending::finished);
}

void Simulation::end(Slot slot, Ending how) {
    Activity& activity = pool_[slot];
    if (activity.state == State::running) withdraw(activity, slot);
    if (activity.state == State::waiting) queue_.destroy(activity.where);
    if (how == Ending::finished) {
        ++events_;
        activity.left = 0.0;
    }
    const Final figures{activity.started, activity.left, activity.work - activity.left,
                        activity.consumed, pool_.has_charges() ? pool_.charge(slot).total : 0.0};
    const std::uint64_t token = activity.token;
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

// ---- Use of resources ---------------------------------------------------------------------------

void Simulation::draw(Activity& activity, Slot slot) {
    if (activity.limit == 0.0) return;
    pool_.retag(activity, slot);
    attach(activity, slot);
}

void Simulation::attach(Activity& activity, Slot slot) {
    const ResourceId first = activity.route.front();
    if (activity.route.size() == 1 && resources_[first].group == none && levels_) {
        resources_[first].join(pool_, activity, now_);
        touch(first);
        return;
    }
    const auto route = activity.route.view();
    const std::uint32_t group = join_groups(route);
    for (const ResourceId id : route) resources_[id].enter(activity);
    groups_[group].add_flow(pool_, slot, resources_);
    touch_group(group);
}

void Simulation::withdraw(Activity& activity, Slot slot) {
    if (activity.hold == Hold::nothing) return;
    const auto route = activity.route.view();
    if (activity.hold == Hold::group) {
        const std::uint32_t group = resources_[route.front()].group;
        groups_[group].remove_flow(pool_, slot, resources_, now_);
        for (const ResourceId id : route) resources_[id].quit(activity);
        release_if_empty(group);
        if (groups_[group].in_use) touch_group(group);
        split_if_worth(group);
    } else {
        resources_[route.front()].leave(pool_, activity, now_);
    }
    for (const ResourceId id : route) touch(id);
}

// One group with all of `route`: the largest of their groups, merged with the others.
std::uint32_t Simulation::join_groups(std::span<const ResourceId> route) {
    std::uint32_t group = none;
    for (const ResourceId id : route) {
        const std::uint32_t other = resources_[id].group;
        if (other == none || other == group) continue;
        if (group == none) {
            group = other;
            continue;
        }
        std::uint32_t from = other;
        if (groups_[other].flows().size() > groups_[group].flows().size()) std::swap(group, from);
        groups_[group].absorb(groups_[from], pool_, resources_, group, now_);
        release_if_empty(from);
    }
    if (group == none) group = new_group();
    for (const ResourceId id : route) {
        Resource& resource = resources_[id];
        if (resource.group != none) continue;
        const std::vector<Slot> alone = resource.joined(pool_);
        for (const Slot slot : alone) resource.leave(pool_, pool_[slot], now_);
        (void)resource.settle(pool_, now_);  // it has no activities of its own
        queue_.cancel(resource.end_event);
        groups_[group].add_resource(id, resource, group);
        for (const Slot slot : alone) {
            resource.enter(pool_[slot]);
            groups_[group].add_flow(pool_, slot, resources_);
        }
    }
    return group;
}

std::uint32_t Simulation::new_group() {
    std::uint32_t index;
    if (free_groups_.empty()) {
        index = static_cast<std::uint32_t>(groups_.size());
        groups_.emplace_back().end_event = queue_.create(EventKind::end, group_mark | index);
    } else {
        index = free_groups_.back();
        free_groups_.pop_back();
    }
    groups_[index].begin(now_);
    return index;
}

void Simulation::release_if_empty(std::uint32_t index) {
    Group& group = groups_[index];
    if (!group.links().empty()) return;
    group.forget_departures();
    group.in_use = false;
    queue_.cancel(group.end_event);
    free_groups_.push_back(index);
}

// Releases disconnected parts and single resources from the group.
void Simulation::split(std::uint32_t index) {
    Group& group = groups_[index];
    auto parts = group.parts();
    const auto largest_part = std::ranges::max_element(parts, {}, &std::vector<Slot>::size);
    std::vector<Slot> leaving;
    for (auto part = parts.begin(); part != parts.end(); ++part) {
        const bool single = levels_ && std::ranges::all_of(*part, [this](Slot slot) {
                                return pool_[slot].route.size() == 1;
                            });
        if (part != largest_part || single)
            leaving.insert(leaving.end(), part->begin(), part->end());
    }
    std::ranges::sort(leaving, {}, [this](Slot slot) { return pool_[slot].tag; });
    for (const Slot slot : leaving) withdraw(pool_[slot], slot);
    group.forget_departures();
    for (const Slot slot : leaving) attach(pool_[slot], slot);
}

// The split is left to the next event: changes at one time are made together.
void Simulation::split_if_worth(std::uint32_t index) {
    Group& group = groups_[index];
    if (group.to_split || !group.worth_splitting()) return;
    group.to_split = true;
    to_split_.push_back(index);
}

void Simulation::split_groups() {
    const std::vector<std::uint32_t> due = std::move(to_split_);
    to_split_.clear();
    for (const std::uint32_t group : due) {
        groups_[group].to_split = false;
        if (groups_[group].worth_splitting()) split(group);
    }
}

// ---- Settling -----------------------------------------------------------------------------------

void Simulation::touch(ResourceId id) {
    Resource& resource = resources_[id];
    if (resource.group != none) {
        touch_group(resource.group);
    } else if (!resource.dirty) {
        resource.dirty = true;
        dirty_resources_.push_back(id);
    }
}

void Simulation::touch_group(std::uint32_t group) {
    if (!foreseen_.empty()) foreseen_.erase(group);
    if (groups_[group].dirty) return;
    groups_[group].dirty = true;
    dirty_groups_.push_back(group);
}

void Simulation::settle() {
    check_open();
    const Busy guard(settling_);
    // After an exception, those that are still marked stay unsettled.
    for (const std::uint32_t index : dirty_groups_)
        if (groups_[index].dirty) settle_group(index);
    for (const ResourceId id : dirty_resources_)
        if (resources_[id].dirty) settle_resource(id);
    dirty_groups_.clear();
    dirty_resources_.clear();
}

// A preview solves a copy. In the group itself, a flow whose end is due now would get a new end,
// and with a rounding error it could then wait for capacity that never comes.
const Group* Simulation::prospect(ResourceId id) {
    check_open();
    const std::uint32_t index = at(id).group;
    if (index == none) return nullptr;
    if (!groups_[index].dirty) return &groups_[index];
    if (const auto found = foreseen_.find(index); found != foreseen_.end()) return &found->second;
    Group copy = groups_[index];
    const Busy guard(settling_);
    (void)copy.settle(*rule_, pool_, resources_, now_);
    return &foreseen_.emplace(index, std::move(copy)).first->second;
}

void Simulation::settle_resource(ResourceId id) {
    Resource& resource = resources_[id];
    if (resource.group == none) {
        const double end = resource.settle(pool_, now_);
        if (end < never) {
            queue_.schedule(resource.end_event, end, id);
        } else {
            queue_.cancel(resource.end_event);
        }
        if (!observers_.empty()) notice(id);
    }
    resource.dirty = false;
}

void Simulation::settle_group(std::uint32_t index) {
    Group& group = groups_[index];
    if (group.in_use) {
        const double end = group.settle(*rule_, pool_, resources_, now_);
        if (end < never) {
            queue_.schedule(group.end_event, end, group_mark | index);
        } else {
            queue_.cancel(group.end_event);
        }
        if (!observers_.empty())
            for (const Link& link : group.links()) notice(link.resource);
        split_if_worth(index);
    }
    group.dirty = false;
    if (!foreseen_.empty()) foreseen_.erase(index);
}

void Simulation::notice(ResourceId id) {
    Resource& resource = resources_[id];
    const double shown = std::exchange(resource.shown_rate, rate(resource));
    if (resource.shown_rate != shown) rate_notices_.push_back(id);
}

void Simulation::report_rate(ResourceId id) {
    at(id).shown_rate = std::numeric_limits<double>::quiet_NaN();  // differs from every rate
    touch(id);
}

void Simulation::notice_rates() {
    // One at a time: after an exception of an observer, the rest is reported when the run
    // continues.
    while (!rate_notices_.empty()) {
        const ResourceId id = rate_notices_.front();
        rate_notices_.pop_front();
        for (std::size_t i = 0; i < observers_.size(); ++i)
            observers_[i]->rate_changed(id, now_, rate(resources_[id]));
    }
}

std::vector<Stalled> Simulation::stalled() {
    settle();
    std::vector<Stalled> found;
    for (Slot slot = 0; slot < pool_.slots(); ++slot) {
        const Activity& activity = pool_[slot];
        if (activity.state == State::free) continue;
        Stalled each{slot, Stall::too_long, activity.route.front()};
        if (activity.state == State::suspended) {
            each.why = Stall::suspended;
        } else if (activity.limit == 0.0) {
            each.why = Stall::no_limit;
        } else {
            if (rate(ActivityId{slot, activity.generation}) == 0.0) each.why = Stall::outrun;
            for (const ResourceId id : activity.route.view()) {
                if (resources_[id].capacity == 0.0) {
                    each.why = Stall::no_capacity;
                    each.where = id;
                } else if (resources_[id].efficiency_of(activity.kind) == 0.0) {
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
