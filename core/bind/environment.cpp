#include "bind/environment.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bind/queueing.hpp"
#include "kernel/checks.hpp"

namespace twinloop::bind {
namespace {

// Entry of the queue: a counted pointer whose low bits hold the type of its object.
enum Token : std::uint64_t { event_token = 0, timer_token = 1, release_token = 2, token_mask = 3 };

std::uint64_t token(nb::handle object, Token sort) {
    return reinterpret_cast<std::uint64_t>(object.ptr()) | sort;
}

nb::object take(std::uint64_t token) {
    return nb::steal(reinterpret_cast<PyObject*>(token & ~std::uint64_t{token_mask}));
}

// The efficiency as a Python function of the counts by kind. The Resource object keeps the
// function alive, where the garbage collector can see it.
class EfficiencyFunction final : public Efficiency {
  public:
    explicit EfficiencyFunction(PyObject* function) : function_(function) {}

    void evaluate(const Presence&, std::span<KindPresence> present) const override {
        nb::dict counts;
        for (const KindPresence& each : present) counts[nb::int_(each.kind)] = each.running;
        const nb::object answer = nb::steal(PyObject_CallOneArg(function_, counts.ptr()));
        if (!answer.is_valid()) throw nb::python_error();
        if (!PyMapping_Check(answer.ptr()))
            throw nb::type_error(
                "an efficiency function must return a mapping of kind to efficiency");
        for (KindPresence& each : present) {
            const nb::object kind = nb::int_(each.kind);
            const nb::object found = nb::steal(PyObject_GetItem(answer.ptr(), kind.ptr()));
            if (!found.is_valid()) {
                PyErr_Clear();
                throw nb::value_error(("the efficiency function has no value for kind " +
                                       std::to_string(each.kind) + ", which is present")
                                          .c_str());
            }
            each.efficiency = PyFloat_AsDouble(found.ptr());
            if (each.efficiency == -1.0 && PyErr_Occurred()) throw nb::python_error();
        }
    }

  private:
    PyObject* function_;
};

void check_signals() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

PyObject* look(std::uint64_t token) {
    return reinterpret_cast<PyObject*>(token & ~std::uint64_t{token_mask});
}

std::shared_ptr<const Efficiency> efficiency_from(nb::handle given) {
    if (given.is_none()) return nullptr;
    if (PyCallable_Check(given.ptr())) return std::make_shared<EfficiencyFunction>(given.ptr());
    if (!PyMapping_Check(given.ptr()))
        throw nb::type_error("efficiency must be None, a mapping of kind to values, or a function");
    std::map<Kind, std::vector<double>> rows;
    for (const nb::handle item : nb::steal<nb::list>(PyMapping_Items(given.ptr()))) {
        const auto kind = nb::cast<std::int64_t>(item[0]);
        if (kind < 0 || kind > std::int64_t{largest_kind})
            throw nb::value_error("a kind must be between 0 and 65535");
        std::vector<double>& row = rows[static_cast<Kind>(kind)];
        for (const nb::handle value : nb::object(item[1])) row.push_back(nb::cast<double>(value));
    }
    return std::make_shared<EfficiencyTable>(std::move(rows));
}

Environment::Environment(double start, const std::string& sharing)
    : sim(start, sharing_rule(sharing)) {
    sim.set_client(this);
}

Environment::Environment(const Environment& other)
    : sim(other.sim),
      network(other.network ? std::make_unique<EnvironmentNetwork>(*other.network) : nullptr),
      activity_count(other.activity_count) {
    sim.set_client(this);
}

// ---- Client -------------------------------------------------------------------------------------

void Environment::fired(std::uint64_t token, bool again) {
    if (token & timer_token) {
        nb::object object = again ? nb::borrow(look(token)) : take(token);
        Timer& timer = part<Timer>(object);
        timer.call();
        if (!again) keep(std::move(object), timer, spare_timers_);
        return;
    }
    if (token & release_token) {
        const nb::object resource = take(token);
        part<BaseResource>(resource).serve_puts();
        return;
    }
    nb::object event = take(token);
    PyTypeObject* type = Py_TYPE(event.ptr());
    Event& what = part<Event>(event);
    if (type == types.process && what.stage == Stage::pending) {
        part<Process>(event).resume(event, nb::none(), true);
    } else if (what.interruption) {
        Process::deliver(what);
    } else {
        what.process(event);
        if (type == types.timeout) keep(std::move(event), what, spare_timeouts_);
    }
}

template <class Part>
void Environment::keep(nb::object object, Part& part, std::vector<PyObject*>& spare) {
    constexpr std::size_t enough = 64;
    if (Py_REFCNT(object.ptr()) != 1 || spare.size() >= enough) return;
    part.release();
    spare.push_back(object.release().ptr());
}

nb::object Environment::timeout(nb::handle self, double delay, nb::handle value) {
    check_not_negative("delay", delay);
    nb::object event;
    if (spare_timeouts_.empty()) {
        event = make<Timeout>(types.timeout, self, value);
    } else {
        event = nb::steal(spare_timeouts_.back());
        spare_timeouts_.pop_back();
        part<Timeout>(event).set(self, value);
    }
    schedule(sim.now() + delay, event);
    return event;
}

nb::object Environment::call_at(nb::handle self, double time, nb::handle function,
                                nb::handle args) {
    if (!PyCallable_Check(function.ptr())) throw nb::type_error("a timer needs a function to call");
    nb::object timer;
    if (spare_timers_.empty()) {
        timer = make<Timer>(types.timer, self, function, args);
    } else {
        timer = nb::steal(spare_timers_.back());
        spare_timers_.pop_back();
        part<Timer>(timer).set(self, function, args);
    }
    part<Timer>(timer).event = schedule_timer(time, timer);
    return timer;
}

void Environment::dropped(std::uint64_t token) { take(token); }

void Environment::ended(std::uint64_t token, Ending how, const Final& figures) {
    const nb::object object = take(token);
    Activity& activity = part<Activity>(object);
    activity.conclude(how, figures, sim.now());
    if (activity.transfer != none) network->transfers.end(sim, activity.transfer, how);
    if (how == Ending::finished) {
        activity.settle(nb::none(), true);
        activity.process(object);
    } else if (activity.has_waiters()) {
        const std::string message = "activity " + activity.name() + " was cancelled";
        activity.trigger(object, nb::borrow(types.cancelled)(message.c_str()), false);
    } else {
        activity.settle(nb::borrow(types.cancelled)(), false);
        activity.stage = Stage::processed;
    }
}

EventId Environment::schedule(double time, nb::handle event, EventKind kind) {
    const EventId id = sim.schedule(time, token(event, event_token), kind);
    event.inc_ref();
    return id;
}

EventId Environment::schedule_timer(double time, nb::handle timer) {
    const EventId id = sim.schedule(time, token(timer, timer_token));
    timer.inc_ref();
    return id;
}

void Environment::schedule_release(nb::handle resource) {
    sim.schedule(sim.now(), token(resource, release_token));
    resource.inc_ref();
}

EventId Environment::schedule_timer_every(double first, double period, std::uint64_t count,
                                          nb::handle timer) {
    const EventId id = sim.schedule_every(first, period, count, token(timer, timer_token));
    timer.inc_ref();
    return id;
}

bool Environment::cancel_timer(EventId event, nb::handle timer) {
    if (!timer_pending(event, timer)) return false;
    sim.cancel_timer(event);
    timer.dec_ref();
    return true;
}

bool Environment::timer_pending(EventId event, nb::handle timer) const {
    return sim.timer_pending(event, token(timer, timer_token));
}

// ---- Resources and activities -------------------------------------------------------------------

std::string Environment::name_of(ResourceId id) const { return part<Resource>(resources[id]).name; }

std::vector<ResourceId> Environment::route_of(nb::handle given) const {
    std::vector<ResourceId> route;
    const auto add = [&](nb::handle each) {
        if (Py_TYPE(each.ptr()) != types.resource)
            throw nb::type_error(
                (std::string("expected a Resource, got ") + nb::repr(each).c_str()).c_str());
        const Resource& resource = part<Resource>(each);
        if (&resource.env() != this)
            throw nb::value_error(
                ("resource " + resource.name + " belongs to another environment").c_str());
        resource.check_open();
        if (std::ranges::find(route, resource.id) != route.end())
            throw nb::value_error(
                ("resource " + resource.name + " is listed twice for one activity").c_str());
        route.push_back(resource.id);
    };
    if (Py_TYPE(given.ptr()) == types.resource) {
        add(given);
    } else {
        for (const nb::handle each : nb::object(nb::borrow(given))) add(each);
    }
    return route;
}

nb::object Environment::start(nb::handle self, double work, nb::handle on,
                              const ActivityOptions& options) {
    const std::vector<ResourceId> route = route_of(on);
    if (options.kind < 0 || options.kind > std::int64_t{largest_kind})
        throw nb::value_error("kind must be between 0 and 65535");
    if (std::abs(options.priority) > 1'000'000'000)
        throw nb::value_error("priority must be between -1e9 and 1e9");
    ActivitySpec spec;
    spec.work = work;
    spec.limit = options.limit.is_none() ? never : nb::cast<double>(options.limit);
    spec.weight = options.weight;
    spec.kind = static_cast<Kind>(options.kind);
    spec.priority = static_cast<std::int32_t>(options.priority);
    check_not_negative("latency", options.latency);
    spec.start = sim.now() + options.latency;
    if (!options.at.is_none()) {
        if (options.latency != 0.0)
            throw nb::value_error("give either `at` or `latency`, not both");
        spec.start = nb::cast<double>(options.at);
        if (spec.start < sim.now())
            throw nb::value_error(("at is in the past: it is " + text(sim.now()) +
                                   " already, got " + text(spec.start))
                                      .c_str());
    }
    std::string name = options.name.is_none() ? "" : nb::cast<std::string>(options.name);
    nb::object object = make<Activity>(types.activity, self, std::move(name), activity_count, on);
    Activity& activity = part<Activity>(object);
    activity.limit = spec.limit;
    activity.weight = spec.weight;
    activity.kind = spec.kind;
    activity.priority = spec.priority;
    spec.token = token(object, event_token);
    ++activity_count;
    nb::object held = object;  // by the simulation, if it takes it
    try {
        activity.id = sim.start(spec, route);
    } catch (...) {
        // An observer may raise an error after the activity has started.
        for (const ActivityId id : sim.activities()) {
            if (sim.token(id.slot) != spec.token) continue;
            activity.id = id;
            (void)held.release();
        }
        throw;
    }
    (void)held.release();
    return object;
}

nb::object Environment::add_resource(nb::handle self, double capacity, std::string name,
                                     nb::handle efficiency) {
    const ResourceId id = sim.add_resource(capacity, efficiency_from(efficiency));
    if (name.empty()) name = "resource " + std::to_string(id);
    nb::object resource = make<Resource>(types.resource, self, id, std::move(name), efficiency);
    resources.push_back(resource.inc_ref().ptr());
    return resource;
}

nb::object Environment::start_transfer(nb::handle self, TransferSpec spec, std::string name) {
    Transfers& transfers = network->transfers;
    nb::object object =
        make<Activity>(types.activity, self, std::move(name), activity_count, nb::tuple());
    Activity& activity = part<Activity>(object);
    activity.limit = spec.limit;
    activity.weight = spec.weight;
    activity.transfer = transfers.next_id();
    spec.token = token(object, event_token);
    nb::object held = object;  // by the simulation, if it takes it
    const auto attach = [&](ActivityId id) {
        activity.id = id;
        ++activity_count;
        nb::list route;
        for (const ResourceId resource : sim.activity(id).route.view())
            route.append(nb::handle(resources[resource]));
        Py_SETREF(activity.on, nb::tuple(route).release().ptr());
        (void)held.release();
    };
    try {
        attach(transfers[transfers.begin(sim, spec)].activity);
    } catch (...) {
        // An observer may raise an error after the transfer has started.
        if (!activity.id.generation && activity.id.slot == none)
            for (const ActivityId id : sim.activities())
                if (sim.token(id.slot) == spec.token) attach(id);
        if (activity.id.slot == none) activity.conclude(Ending::cancelled, {}, sim.now());
        throw;
    }
    return object;
}

// ---- Running ------------------------------------------------------------------------------------

void Environment::check_idle() const {
    if (!guard_->held()) return;
    guard_->check_thread();
    throw std::runtime_error(
        "the environment is running already: callbacks and processes "
        "cannot run it again");
}

nb::object Environment::run(nb::handle until) {
    check_idle();
    double before = never;
    nb::object awaited = nb::none();
    Event* goal = until.is_none() ? nullptr : as_event(until);
    if (goal) {
        awaited = nb::borrow(until);
        if (&goal->env() != this)
            throw nb::value_error("the event to wait for belongs to another environment");
    } else if (!until.is_none()) {
        before = nb::cast<double>(until);
        if (std::isnan(before) || before < sim.now() || before > largest)
            throw nb::value_error(("until must be a time from now (" + text(sim.now()) +
                                   ") on, at most 1e50, got " + text(before))
                                      .c_str());
    }
    const Held<Environment> running(*this, guard_);
    for (std::uint32_t count = 1; !goal || goal->stage != Stage::processed; ++count) {
        if (!sim.step(before)) break;
        if (count % 1024 == 0) check_signals();
    }
    if (before < never) {
        sim.run_until(before);
        return nb::none();
    }
    if (goal) {
        if (goal->stage == Stage::processed) return goal->result();
        if (sim.live() > 0) raise_stalled();
        throw std::runtime_error("no event is left, and the awaited event has not happened");
    }
    if (sim.live() > 0) raise_stalled();
    return nb::none();
}

bool Environment::step() {
    check_idle();
    const Held<Environment> running(*this, guard_);
    return sim.step();
}

std::size_t Environment::skip(double time) {
    check_idle();
    const Held<Environment> running(*this, guard_);
    return sim.skip(time);
}

void Environment::raise_stalled() {
    const std::vector<Stalled> stalled = sim.stalled();
    std::string message = std::to_string(stalled.size()) +
                          (stalled.size() == 1 ? " activity" : " activities") + " can never end:";
    constexpr std::size_t shown = 10;
    for (std::size_t i = 0; i < std::min(stalled.size(), shown); ++i) {
        const Activity& activity = part<Activity>(look(sim.token(stalled[i].slot)));
        message += "\n  " + activity.name() + ": " + why(stalled[i], name_of(stalled[i].where));
    }
    if (stalled.size() > shown)
        message += "\n  and " + std::to_string(stalled.size() - shown) + " more";
    PyErr_SetString(types.stalled, message.c_str());
    throw nb::python_error();
}

std::string why(const Stalled& stalled, const std::string& resource) {
    switch (stalled.why) {
        case Stall::suspended:
            return "it is suspended and nothing is left to resume it";
        case Stall::not_started:
            return "it waits for a stream of its store";
        case Stall::lease_suspended:
            return "its lease " + resource + " is suspended and nothing is left to resume it";
        case Stall::no_limit:
            return "its limit is 0";
        case Stall::no_capacity:
            return "the capacity of " + resource + " is 0 and nothing is left to change it";
        case Stall::no_efficiency:
            return "its efficiency on " + resource + " is 0";
        case Stall::outrun:
            return "others take all of " + resource;
        case Stall::too_long:
            break;
    }
    return "its end is beyond the largest representable time";
}

// ---- Copies -------------------------------------------------------------------------------------

nb::object Environment::copy() const {
    const std::size_t timers = sim.timer_tokens().size();
    std::size_t watched = 0;
    const auto live = sim.activities();
    for (const ActivityId id : live)
        watched += part<Activity>(look(sim.token(id.slot))).has_waiters();
    if (processes + timers + watched > 0)
        throw std::runtime_error("an environment that runs Python code cannot be copied: it has " +
                                 std::to_string(processes) + " processes, " +
                                 std::to_string(timers) + " timers or triggered events, and " +
                                 std::to_string(watched) + " activities that a process waits for");
    nb::object twin = make<Environment>(types.environment, *this);
    Environment& other = part<Environment>(twin);
    for (PyObject* each : resources) {
        const Resource& mine = part<Resource>(each);
        nb::object object =
            make<Resource>(types.resource, twin, mine.id, mine.name, nb::handle(mine.efficiency));
        part<Resource>(object).last = mine.last;
        other.resources.push_back(object.release().ptr());
    }
    for (const ActivityId id : live) {
        const Activity& mine = part<Activity>(look(sim.token(id.slot)));
        nb::object object = make<Activity>(types.activity, twin, mine.name(), mine.sequence,
                                           other.counterparts(mine.on));
        Activity& theirs = part<Activity>(object);
        theirs.id = id;
        theirs.limit = mine.limit;
        theirs.weight = mine.weight;
        theirs.kind = mine.kind;
        theirs.priority = mine.priority;
        theirs.transfer = mine.transfer;
        other.sim.set_token(id, token(object, event_token));
        (void)object.release();
    }
    return twin;
}

nb::object Environment::counterparts(nb::handle on) const {
    if (!PyTuple_Check(on.ptr())) return counterpart(on);
    nb::list found;
    for (const nb::handle each : nb::borrow<nb::tuple>(on)) found.append(counterpart(each));
    return nb::tuple(found);
}

nb::object Environment::counterpart(nb::handle given) const {
    if (Py_TYPE(given.ptr()) == types.resource) {
        const Resource& resource = part<Resource>(given);
        resource.check_open();
        if (resource.id < resources.size()) return nb::borrow(resources[resource.id]);
    } else if (Py_TYPE(given.ptr()) == types.activity) {
        const Activity& activity = part<Activity>(given);
        if (sim.alive(activity.id)) {
            PyObject* found = look(sim.token(activity.id.slot));
            if (part<Activity>(found).sequence == activity.sequence) return nb::borrow(found);
        }
        throw std::runtime_error("activity " + activity.name() + " is not in this copy");
    }
    throw nb::type_error("expected a Resource or an unfinished Activity of the copied environment");
}

nb::list Environment::activities() const {
    std::vector<PyObject*> found;
    for (const ActivityId id : sim.activities()) found.push_back(look(sim.token(id.slot)));
    std::ranges::sort(found, {}, [](PyObject* each) { return part<Activity>(each).sequence; });
    nb::list list;
    for (PyObject* each : found) list.append(nb::handle(each));
    return list;
}

// ---- Resource -----------------------------------------------------------------------------------

void Resource::check_open() const {
    if (last) throw nb::value_error(("lease " + name + " has been released").c_str());
}

int Resource::traverse(visitproc visit, void* arg) const {
    Py_VISIT(efficiency);
    Py_VISIT(env_);
    return 0;
}

void Resource::release() {
    Py_CLEAR(efficiency);
    Py_CLEAR(env_);
}

// ---- Garbage collection -------------------------------------------------------------------------

int Environment::traverse(visitproc visit, void* arg) const {
    for (PyObject* each : resources) Py_VISIT(each);
    for (PyObject* each : onlookers) Py_VISIT(each);
    for (PyObject* each : spare_timeouts_) Py_VISIT(each);
    for (PyObject* each : spare_timers_) Py_VISIT(each);
    for (const std::uint64_t each : sim.timer_tokens()) Py_VISIT(look(each));
    for (const ActivityId id : sim.activities()) Py_VISIT(look(sim.token(id.slot)));
    return 0;
}

void Environment::release() {
    if (released_) return;
    released_ = true;
    sim.set_client(nullptr);
    std::vector<PyObject*> held;
    for (const std::uint64_t each : sim.timer_tokens()) held.push_back(look(each));
    for (const ActivityId id : sim.activities()) held.push_back(look(sim.token(id.slot)));
    for (auto* list : {&resources, &onlookers, &spare_timeouts_, &spare_timers_}) {
        held.insert(held.end(), list->begin(), list->end());
        list->clear();
    }
    sim.forget_tokens();
    for (PyObject* each : held) Py_DECREF(each);
}

}  // namespace twinloop::bind
