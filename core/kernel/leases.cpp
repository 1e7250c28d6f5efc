#include "kernel/leases.hpp"

#include <algorithm>
#include <limits>

namespace twinloop {
namespace {

// Whether the entry of a heap of a host is the present one of its lease.
template <class Key>
auto current(const std::vector<Lease>& leases, Key&& key) {
    return [&leases, key](const KeyHeap::Entry& entry) {
        return key(leases[static_cast<std::size_t>(entry.tag)]) == entry.key();
    };
}

auto current_above(const std::vector<Lease>& leases) {
    return current(leases, [](const Lease& lease) { return lease.switch_above; });
}

auto current_below(const std::vector<Lease>& leases) {
    return current(leases, [](const Lease& lease) { return -lease.switch_below; });
}

std::uint32_t index_in(const KeyHeap::Entry& entry) {
    return static_cast<std::uint32_t>(entry.tag);
}

auto current_end(std::vector<Lease>& leases, Kind kind, EndClock clock) {
    return [&leases, kind, clock](const KeyHeap::Entry& entry) {
        const LeaseKind* mine = leases[static_cast<std::size_t>(entry.tag)].find(kind);
        return mine && mine->clock == clock && mine->next_end == entry.key();
    };
}

}  // namespace

// ---- Leases -------------------------------------------------------------------------------------

std::vector<ResourceId> Leases::on(ResourceId host) const {
    std::vector<ResourceId> found;
    if (resources_[host].leases == none) return found;
    for (const std::uint32_t index : hosts_[resources_[host].leases].members)
        found.push_back(leases_[index].id);
    return found;
}

void Leases::open(ResourceId id, ResourceId host, double size, double weight, double now) {
    if (resources_[id].lease == none) {
        resources_[id].lease = static_cast<std::uint32_t>(leases_.size());
        leases_.emplace_back();
    }
    Lease& lease = of(id);
    lease = {};
    lease.id = id;
    lease.size = size;
    lease.weight = weight > 0.0 ? weight : size > 0.0 ? size : 1.0;
    lease.weight_is_size = weight == 0.0;
    enter_host(lease, host, now);
}

void Leases::enter_host(Lease& lease, ResourceId host, double now) {
    lease.host = host;
    if (resources_[host].leases == none) {
        resources_[host].leases = static_cast<std::uint32_t>(hosts_.size());
        hosts_.emplace_back();
    }
    Host& here = host_of(lease);
    lease.member = static_cast<std::uint32_t>(here.members.size());
    here.members.push_back(index_of(lease));
    unpark(lease, now);
}

// A lease without activities.
void Leases::close(ResourceId id) {
    Lease& lease = of(id);
    Host& here = host_of(lease);
    const std::uint32_t last = here.members.back();
    here.members[lease.member] = last;
    leases_[last].member = lease.member;
    here.members.pop_back();
    if (lease.unsettled) std::erase(here.unsettled, index_of(lease));
    lease.unsettled = false;
    lease.host = none;
}

void Leases::resize(ResourceId id, double size, double now) {
    Lease& lease = of(id);
    resources_[id].capacity = size;
    change(lease, size, lease.weight_is_size && size > 0.0 ? size : lease.weight, now);
}

void Leases::set_weight(ResourceId id, double weight, double now) {
    of(id).weight_is_size = false;
    change(of(id), of(id).size, weight, now);
}

void Leases::change(Lease& lease, double size, double weight, double now) {
    const bool inner = lease.running() > 0 && size > 0.0;
    if (!inner) park(lease, now);
    lease.size = size;
    lease.weight = weight;
    if (inner) {
        unsettle(lease);
    } else {
        unpark(lease, now);
    }
}

void Leases::suspend(ResourceId id, double now) {
    park(of(id), now);
    of(id).suspended = true;
}

void Leases::resume(ResourceId id, double now) {
    of(id).suspended = false;
    unpark(of(id), now);
}

void Leases::move(ResourceId id, ResourceId host, double now) {
    Lease& lease = of(id);
    park(lease, now);
    close(id);
    enter_host(lease, host, now);
}

// Takes all activities from the host, and back: they keep their work.
void Leases::park(Lease& lease, double now) {
    std::vector<Slot> running = lease.joined(pool_);
    if (lease.single != none) running.push_back(lease.single);
    for (const Slot slot : running) leave(lease.id, pool_[slot], slot, now);
    lease.parked.insert(lease.parked.end(), running.begin(), running.end());
}

void Leases::unpark(Lease& lease, double now) {
    if (!lease.is_active()) return;
    const std::vector<Slot> waiting = std::move(lease.parked);
    lease.parked.clear();
    for (const Slot slot : waiting) {
        pool_.retag(pool_[slot], slot);
        join(lease.id, pool_[slot], slot, now);
    }
}

// ---- Activities ---------------------------------------------------------------------------------

void Leases::join(ResourceId id, Activity& activity, Slot slot, double now) {
    Lease& lease = of(id);
    if (!lease.is_active()) {
        lease.parked.push_back(slot);
        return;
    }
    if (lease.running() == 0 && lease.single == none) {
        join_single(lease, activity, slot, now);
        return;
    }
    if (lease.single != none) {
        // The entry of its threshold on the host must become invalid.
        const Slot first = lease.single;
        leave_single(lease, now);
        pool_.retag(pool_[first], first);
        join_inner(lease, pool_[first], now);
        pool_.retag(activity, slot);
    }
    join_inner(lease, activity, now);
}

void Leases::leave(ResourceId id, Activity& activity, Slot slot, double now) {
    Lease& lease = of(id);
    if (activity.hold == Hold::nothing) {
        std::erase(lease.parked, slot);
    } else if (lease.single == slot) {
        leave_single(lease, now);
    } else {
        leave_inner(lease, activity, now);
    }
}

void Leases::join_single(Lease& lease, Activity& activity, Slot slot, double now) {
    lease.single = slot;
    lease.single_own = {activity.limit, activity.weight};
    lease.single_consumed = activity.consumed;
    lease.single_left = activity.left;
    lease.single_cost = pool_.has_charges() ? pool_.charge(slot).total : 0.0;
    activity.limit = std::min(activity.limit, lease.size);
    activity.weight = lease.weight;
    resources_[lease.host].join(pool_, activity, now);
}

void Leases::leave_single(Lease& lease, double now) {
    Activity& activity = pool_[lease.single];
    resources_[lease.host].leave(pool_, activity, now);
    activity.limit = lease.single_own.limit;
    activity.weight = lease.single_own.weight;
    lease.consumed += activity.consumed - lease.single_consumed;
    lease.done_alone += lease.single_left - activity.left;
    if (pool_.has_charges()) lease.cost += pool_.charge(lease.single).total - lease.single_cost;
    lease.single = none;
}

void Leases::join_inner(Lease& lease, Activity& activity, double now) {
    lease.join(pool_, resources_[lease.host], activity, now);
    unsettle(lease);
}

void Leases::leave_inner(Lease& lease, Activity& activity, double now) {
    Host& here = host_of(lease);
    LeaseKind& mine = *lease.find(activity.kind);
    if (mine.running == 1) {
        unlist_end(here, lease, mine);
        unlist_part(here, mine);
    }
    if (lease.running() == 1) {
        list_switches(here, lease, never, -1.0);
        close_representative(lease, now);
    }
    lease.leave(pool_, resources_[lease.host], activity, now);
    unsettle(lease);
}

void Leases::close_representative(Lease& lease, double now) {
    if (lease.representative == none) return;
    Activity& activity = pool_[lease.representative];
    resources_[lease.host].leave_lease(pool_, activity, now);
    lease.consumed += activity.consumed;
    if (pool_.has_charges()) lease.cost += pool_.charge(lease.representative).total;
    activity.hold = Hold::nothing;
    pool_.give_back(lease.representative);
    lease.representative = none;
}

void Leases::unsettle(Lease& lease) {
    if (lease.unsettled) return;
    lease.unsettled = true;
    host_of(lease).unsettled.push_back(index_of(lease));
}

// ---- Settling -----------------------------------------------------------------------------------

double Leases::settle(ResourceId id, double now) {
    Resource& on = resources_[id];
    Host& here = hosts_[on.leases];
    on.advance_to(now);
    for (const std::uint32_t index : here.unsettled) update_representative(leases_[index], now);
    const double next = on.settle(pool_, now, [&] {
        for (const Slot slot : on.switched_leases()) unsettle(leases_[pool_[slot].where]);
        on.switched_leases().clear();
        collect_switches(here, on.level);
        for (const std::uint32_t index : here.unsettled) {
            leases_[index].unsettled = false;
            if (leases_[index].representative != none) solve(here, leases_[index], now);
        }
        here.unsettled.clear();
    });
    on.add_progress(progress_rate(here, on));
    return next_end(here, on, next, now);
}

// The lease as one consumer of its host, with what its activities can use as limit. Each change
// gets a new tag, since the entry of an earlier threshold must become invalid.
void Leases::update_representative(Lease& lease, double now) {
    if (lease.running() == 0) return;
    Resource& on = resources_[lease.host];
    const double usable = lease.usable();
    if (lease.representative != none) {
        const Activity& present = pool_[lease.representative];
        if (present.limit == usable && present.weight == lease.weight) return;
        on.leave_lease(pool_, pool_[lease.representative], now);
    } else {
        const Slot slot = lease.representative = pool_.take();
        Activity& activity = pool_[slot];
        activity.state = State::lease;
        activity.kind = lease_kind;
        activity.work = activity.left = never;
        activity.consumed = 0.0;
        activity.where = index_of(lease);
    }
    Activity& activity = pool_[lease.representative];
    activity.limit = usable;
    activity.weight = lease.weight;
    pool_.retag(activity, lease.representative);
    on.join_lease(pool_, activity, now);
}

void Leases::collect_switches(Host& here, double level) {
    while (const auto* top = here.above.top(current_above(leases_))) {
        if (top->key() >= level) break;
        Lease& lease = leases_[static_cast<std::size_t>(top->tag)];
        here.above.pop();
        lease.switch_above = never;
        unsettle(lease);
    }
    while (const auto* top = here.below.top(current_below(leases_))) {
        if (-top->key() <= level) break;
        Lease& lease = leases_[static_cast<std::size_t>(top->tag)];
        here.below.pop();
        lease.switch_below = -1.0;
        unsettle(lease);
    }
}

void Leases::solve(Host& here, Lease& lease, double now) {
    Resource& on = resources_[lease.host];
    const bool limited = pool_[lease.representative].hold == Hold::limit;
    lease.solve(pool_, on,
                !limited       ? Lease::Bound::level
                : lease.fits() ? Lease::Bound::activities
                               : Lease::Bound::size,
                now);
    if (limited) {
        list_switches(here, lease, never, -1.0);
    } else {
        // Not on the wrong side of the level by a rounding error, or it would switch for ever.
        const auto [above, below] = lease.switches(pool_);
        list_switches(here, lease, std::max(above, on.level), std::min(below, on.level));
    }
    for (LeaseKind& mine : lease.kinds()) {
        list_end(here, lease, mine);
        if (on.efficiency) list_part(here, lease, mine);
    }
}

void Leases::list_switches(Host& here, Lease& lease, double above, double below) {
    const std::uint32_t index = index_of(lease);
    if (above != lease.switch_above) {
        const double old = std::exchange(lease.switch_above, above);
        if (old < never) here.above.forget({old, index}, current_above(leases_));
        if (above < never) here.above.push(above, index);
    }
    if (below != lease.switch_below) {
        const double old = std::exchange(lease.switch_below, below);
        if (old >= 0.0) here.below.forget({-old, index}, current_below(leases_));
        if (below >= 0.0) here.below.push(-below, index);
    }
}

Leases::KindEnds& Leases::ends_of(Host& host, Kind kind) {
    for (KindEnds& each : host.kinds)
        if (each.kind == kind) return each;
    host.kinds.emplace_back().kind = kind;
    return host.kinds.back();
}

// Lists the next end of the lease at its inner level in the clock of the host that gives it.
void Leases::list_end(Host& here, Lease& lease, LeaseKind& mine) {
    unlist_end(here, lease, mine);
    if (mine.by_level == 0) return;
    KindEnds& ends = ends_of(here, mine.kind);
    const std::uint32_t index = index_of(lease);
    const double left = mine.ends.top(CurrentEnd{pool_, Hold::level})->key() - mine.progress;
    if (lease.slope() == 0.0) {
        mine.clock = EndClock::own;
        mine.next_end = mine.own_mark + (left <= 0.0 ? 0.0 : left / lease.constant());
        ends.own.push(mine.next_end, index);
        return;
    }
    mine.next_end = mine.shared_mark + (left <= 0.0 ? 0.0 : left / lease.slope());
    if (lease.constant() == 0.0 || left <= 0.0) {
        mine.clock = EndClock::shared;
        ends.shared.push(mine.next_end, index);
    } else {
        mine.clock = EndClock::mixed;
        mine.place = static_cast<std::uint32_t>(ends.mixed.size());
        ends.mixed.push_back(
            {mine.next_end, -lease.constant() / lease.slope(), mine.own_mark, index});
    }
}

void Leases::unlist_end(Host& here, Lease& lease, LeaseKind& mine) {
    const EndClock clock = std::exchange(mine.clock, EndClock::nothing);
    if (clock == EndClock::nothing) return;
    KindEnds& ends = ends_of(here, mine.kind);
    if (clock == EndClock::mixed) {
        const MixedEnd last = ends.mixed.back();
        ends.mixed[mine.place] = last;
        leases_[last.lease].find(mine.kind)->place = mine.place;
        ends.mixed.pop_back();
    } else {
        KeyHeap& heap = clock == EndClock::own ? ends.own : ends.shared;
        heap.forget({mine.next_end, index_of(lease)}, current_end(leases_, mine.kind, clock));
    }
}

// The rate of the kind in this lease: constant + slope x level of the host.
void Leases::list_part(Host& here, const Lease& lease, LeaseKind& mine) {
    unlist_part(here, mine);
    KindEnds& ends = ends_of(here, mine.kind);
    mine.part = {mine.limits.value() + mine.weights.value() * lease.constant(),
                 mine.weights.value() * lease.slope()};
    mine.has_part = true;
    ends.constant.add(mine.part.limit);
    ends.slope.add(mine.part.weight);
    ++ends.parts;
}

void Leases::unlist_part(Host& here, LeaseKind& mine) {
    if (!std::exchange(mine.has_part, false)) return;
    KindEnds& ends = ends_of(here, mine.kind);
    ends.constant.subtract(mine.part.limit);
    ends.slope.subtract(mine.part.weight);
    if (--ends.parts > 0) return;
    ends.constant.clear();
    ends.slope.clear();
}

double Leases::progress_rate(const Host& here, const Resource& on) const {
    if (!on.efficiency) return on.lease_rate();
    double sum = 0.0;
    for (const KindEnds& each : here.kinds) {
        if (each.parts == 0) continue;
        const double shared = on.level < never ? on.level * each.slope.value() : 0.0;
        sum += (each.constant.value() + shared) * on.efficiency_of(each.kind);
    }
    return sum;
}

// ---- Ends ---------------------------------------------------------------------------------------

// The time of the next end, `next` or one at the inner level of a lease.
double Leases::next_end(Host& here, Resource& on, double next, double now) {
    here.next_lease = none;
    here.next_mixed = never;
    const auto consider = [&](double end, std::uint32_t lease, Kind kind) {
        if (!(end < next)) return;
        next = end;
        here.next_lease = lease;
        here.next_kind = kind;
    };
    for (KindEnds& each : here.kinds) {
        const auto* own = each.own.top(current_end(leases_, each.kind, EndClock::own));
        const auto* shared = each.shared.top(current_end(leases_, each.kind, EndClock::shared));
        if (!own && !shared && each.mixed.empty()) continue;
        const KindShare& clocks = on.clocks(each.kind);
        if (own) consider(Resource::own_end(clocks, own->key(), now), index_in(*own), each.kind);
        if (shared)
            consider(Resource::shared_end(clocks, shared->key(), now), index_in(*shared),
                     each.kind);
        if (each.mixed.empty()) continue;
        const auto [end, lease] = next_mixed_end(each, clocks, on.own_clock(clocks, now), now);
        here.next_mixed = std::min(here.next_mixed, end);
        consider(end, lease, each.kind);
    }
    if (here.next_lease != none) on.forget_next_end();
    return next;
}

// One pass, without divisions: it is linear in the mixed leases of the host.
std::pair<double, std::uint32_t> Leases::next_mixed_end(const KindEnds& ends,
                                                        const KindShare& clocks, double own,
                                                        double now) {
    double least = never;  // of left / speed
    double its_speed = 1.0;
    std::uint32_t lease = none;
    for (const MixedEnd& end : ends.mixed) {
        const double left = end.key + end.slope * (own - end.own_mark) - clocks.shared.total;
        const double speed = clocks.shared.rate - end.slope * clocks.efficiency;
        if (left <= 0.0) return {now, end.lease};
        if (!(left * its_speed < least * speed)) continue;
        least = left;
        its_speed = speed;
        lease = end.lease;
    }
    return {now + least / its_speed, lease};
}

Slot Leases::due(ResourceId id, double now) {
    Resource& on = resources_[id];
    Host& here = hosts_[on.leases];
    on.advance_to(now);
    do {
        while (!here.due_now.empty()) {
            Lease& lease = leases_[here.due_now.back().first];
            LeaseKind* mine = lease.host == id ? lease.find(here.due_now.back().second) : nullptr;
            if (mine && mine->by_level > 0 && lease.updated_at(now)) {
                const auto* top = mine->ends.top(CurrentEnd{pool_, Hold::level});
                if (top->key() <= mine->progress) return ActivityPool::slot_of(top->tag);
            }
            here.due_now.pop_back();
        }
    } while (collect_due(here, on, now));
    return none;
}

// Lists leases with ends that are due now; false if there are none.
bool Leases::collect_due(Host& here, Resource& on, double now) {
    // Rounding may leave a clock slightly below the reading that is due.
    if (here.next_lease != none) {
        const std::uint32_t next = std::exchange(here.next_lease, none);
        const LeaseKind* mine = leases_[next].find(here.next_kind);
        if (mine && mine->clock != EndClock::nothing) take_due(here, on, next, here.next_kind, now);
    }
    for (KindEnds& each : here.kinds) {
        while (const auto* top = each.own.top(current_end(leases_, each.kind, EndClock::own))) {
            if (top->key() > on.own_clock(on.clocks(each.kind), now)) break;
            take_due(here, on, index_in(*top), each.kind, now);
        }
        while (const auto* top =
                   each.shared.top(current_end(leases_, each.kind, EndClock::shared))) {
            if (top->key() > on.shared_clock(on.clocks(each.kind), now)) break;
            take_due(here, on, index_in(*top), each.kind, now);
        }
        if (here.next_mixed > now) continue;
        for (std::size_t i = each.mixed.size(); i-- > 0;) {
            const MixedEnd& end = each.mixed[i];
            const KindShare& clocks = on.clocks(each.kind);
            if (end.key + end.slope * (on.own_clock(clocks, now) - end.own_mark) <=
                on.shared_clock(clocks, now))
                take_due(here, on, end.lease, each.kind, now);
        }
    }
    here.next_mixed = never;
    return !here.due_now.empty();
}

void Leases::take_due(Host& here, Resource& on, std::uint32_t index, Kind kind, double now) {
    Lease& lease = leases_[index];
    LeaseKind& mine = *lease.find(kind);
    lease.advance(on, now);
    const auto* top = mine.ends.top(CurrentEnd{pool_, Hold::level});
    mine.progress = std::max(mine.progress, top->key());
    unlist_end(here, lease, mine);
    unsettle(lease);
    here.due_now.emplace_back(index, kind);
}

// ---- Values -------------------------------------------------------------------------------------

Shares Leases::preview_host(ResourceId id) const {
    const Resource& on = resources_[id];
    if (!on.dirty) return {on.level, on.rate()};
    std::vector<Consumer> consumers;
    for (const Slot slot : on.joined(pool_)) {
        const Activity& activity = pool_[slot];
        if (activity.state == State::lease) continue;
        const ResourceId where = activity.route.front();
        if (where != id && of(where).single != slot) continue;
        consumers.push_back({activity.limit, activity.weight});
    }
    for (const std::uint32_t index : hosts_[on.leases].members) {
        const Lease& lease = leases_[index];
        if (lease.running() > 0) consumers.push_back({lease.usable(), lease.weight});
    }
    return fill(std::move(consumers), on.capacity);
}

Shares Leases::preview(ResourceId id) const {
    const Lease& lease = of(id);
    if (lease.running() == 0 && lease.single == none) return {never, 0.0};
    const Resource& on = resources_[lease.host];
    const double host_level = preview_host(lease.host).level;
    if (lease.single != none) {
        const Activity& activity = pool_[lease.single];
        const double rate = std::min(activity.limit, activity.weight * host_level);
        return {rate < lease.single_own.limit ? rate / lease.single_own.weight : never, rate};
    }
    const double rate = std::min(lease.usable(), lease.weight * host_level);
    if (!on.dirty) return {lease.level(host_level), rate};
    if (lease.fits() && rate >= lease.usable()) return {never, rate};
    std::vector<Consumer> consumers;
    for (const Slot slot : lease.joined(pool_))
        consumers.push_back({pool_[slot].limit, pool_[slot].weight});
    return {fill(std::move(consumers), rate).level, rate};
}

double Leases::settled_rate(std::uint32_t index) const {
    const Lease& lease = leases_[index];
    const Slot slot = lease.single != none ? lease.single : lease.representative;
    if (slot == none) return 0.0;
    const Activity& activity = pool_[slot];
    return activity.hold == Hold::limit ? activity.limit
                                        : activity.weight * resources_[lease.host].level;
}

double Leases::rate(const Activity& activity) const {
    const Lease& lease = of(activity.route.front());
    const Shares shares = preview(lease.id);
    if (lease.single != none) return shares.rate;
    if (activity.hold == Hold::limit && !resources_[lease.host].dirty) return activity.limit;
    return std::min(activity.limit, activity.weight * shares.level);
}

double Leases::consumed(ResourceId id, double now) const {
    const Lease& lease = of(id);
    if (lease.host == none) return lease.consumed;
    const Resource& on = resources_[lease.host];
    if (lease.single != none)
        return lease.consumed + on.consumed_by(pool_[lease.single], now) - lease.single_consumed;
    if (lease.representative == none) return lease.consumed;
    return lease.consumed + on.consumed_by(pool_[lease.representative], now);
}

double Leases::done(ResourceId id, double now) const {
    const Lease& lease = of(id);
    if (lease.host == none) return lease.done_alone + lease.done();
    const Resource& on = resources_[lease.host];
    const double inner = lease.done_alone + lease.done(on, now);
    return lease.single == none
               ? inner
               : inner + lease.single_left - on.remaining(pool_[lease.single], now);
}

double Leases::cost(ResourceId id, double now) const {
    const Lease& lease = of(id);
    if (!pool_.has_charges() || lease.host == none) return lease.cost;
    const Resource& on = resources_[lease.host];
    if (lease.single != none)
        return lease.cost + on.charged_to(pool_, pool_[lease.single], now) - lease.single_cost;
    if (lease.representative == none) return lease.cost;
    return lease.cost + on.charged_to(pool_, pool_[lease.representative], now);
}

// An activity at its limit, or the single one of its lease, is held by the host itself.
double Leases::remaining(const Activity& activity, double now) const {
    const Lease& lease = of(activity.route.front());
    const Resource& on = resources_[lease.host];
    return lease.single != none || activity.hold == Hold::limit
               ? on.remaining(activity, now)
               : lease.remaining(on, activity, now);
}

double Leases::consumed_by(const Activity& activity, double now) const {
    const Lease& lease = of(activity.route.front());
    const Resource& on = resources_[lease.host];
    return lease.single != none || activity.hold == Hold::limit
               ? on.consumed_by(activity, now)
               : lease.consumed_by(on, activity, now);
}

double Leases::charged_to(const Activity& activity, double now) const {
    const Lease& lease = of(activity.route.front());
    const Resource& on = resources_[lease.host];
    return lease.single != none || activity.hold == Hold::limit
               ? on.charged_to(pool_, activity, now)
               : lease.charged_to(pool_, on, activity, now);
}

}  // namespace twinloop
