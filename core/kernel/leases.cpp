#include "kernel/leases.hpp"

#include <algorithm>
#include <limits>

namespace twinloop {
// ---- Leases -------------------------------------------------------------------------------------

std::vector<ResourceId> Leases::on(ResourceId host) const {
    std::vector<ResourceId> found;
    if (resources_[host].leases == none) return found;
    for (const std::uint32_t index : hosts_[resources_[host].leases].members)
        found.push_back(leases_[index].id);
    return found;
}

void Leases::open(ResourceId id, ResourceId host, double size, double weight, double now) {
    if (!has(id)) {
        indices_.resize(std::max(indices_.size(), id + std::size_t{1}), none);
        indices_[id] = static_cast<std::uint32_t>(leases_.size());
        leases_.emplace_back();
    } else {
        of(id) = {};
    }
    Lease& lease = of(id);
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
    const auto last = static_cast<std::uint32_t>(here.members.size() - 1);
    if (lease.member != last) rename(here, last, lease.member);
    here.members.pop_back();
    if (lease.unsettled) std::erase(here.unsettled, index_of(lease));
    lease.unsettled = false;
    lease.host = none;
}

void Leases::rename(Host& here, std::uint32_t from, std::uint32_t to) {
    here.members[to] = here.members[from];
    leases_[here.members[to]].member = to;
    here.above.rename(from, to);
    here.below.rename(from, to);
    for (KindEnds& each : here.kinds) {
        each.own.rename(from, to);
        each.shared.rename(from, to);
        if (from < each.ends.size()) each.set(to, each.ends[from]);
    }
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

ResourceId Leases::join(ResourceId id, Activity& activity, Slot slot, double now) {
    Lease& lease = of(id);
    if (!lease.is_active()) {
        lease.parked.push_back(slot);
        return lease.host;
    }
    if (lease.running() == 0 && lease.single == none) {
        join_single(lease, activity, slot, now);
        return lease.host;
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
    return lease.host;
}

ResourceId Leases::leave(ResourceId id, Activity& activity, Slot slot, double now) {
    Lease& lease = of(id);
    if (activity.hold == Hold::nothing) {
        std::erase(lease.parked, slot);
    } else if (lease.single == slot) {
        leave_single(lease, now);
    } else {
        leave_inner(lease, activity, now);
    }
    return lease.host;
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
    if (lease.running() == 1) close_share(here, lease, now);
    lease.leave(pool_, resources_[lease.host], activity, now);
    unsettle(lease);
}

void Leases::unsettle(Lease& lease) {
    if (lease.unsettled) return;
    lease.unsettled = true;
    host_of(lease).unsettled.push_back(index_of(lease));
}

// ---- The leases as consumers of their host ------------------------------------------------------

// As a consumer, a lease can use what its activities can.
void Leases::update_share(Host& here, Lease& lease, double now) {
    if (lease.running() == 0) return;
    Resource& on = resources_[lease.host];
    const Consumer consumer{lease.usable(), lease.weight};
    HostShare& share = lease.share;
    if (share.hold != Hold::nothing) {
        if (share.consumer.limit == consumer.limit && share.consumer.weight == consumer.weight)
            return;
        on.subtract_lease_demand(share.consumer.limit);
        release(here, on, lease, now);
    }
    on.add_lease_demand(consumer.limit);
    share.consumer = consumer;
    // The listed levels are cautious until the lease is solved.
    const double threshold = consumer.threshold();
    const std::uint32_t member = lease.member;
    if (threshold <= on.level) {
        hold(here, on, lease, Hold::limit, now);
        here.above.remove(member);
        if (!here.below.contains(member) || here.below.key_of(member) > -threshold)
            here.below.put(member, -threshold);
    } else {
        hold(here, on, lease, Hold::level, now);
        if (!here.above.contains(member) || here.above.key_of(member) > threshold)
            here.above.put(member, threshold);
    }
}

void Leases::close_share(Host& here, Lease& lease, double now) {
    if (lease.share.hold == Hold::nothing) return;
    Resource& on = resources_[lease.host];
    on.subtract_lease_demand(lease.share.consumer.limit);
    release(here, on, lease, now);
    list_switches(here, lease, never, -1.0);
}

void Leases::hold(Host& here, const Resource& on, Lease& lease, Hold hold, double now) {
    HostShare& share = lease.share;
    share.hold = hold;
    if (hold == Hold::limit) {
        here.limits.add(share.consumer.limit);
        ++here.by_limit;
        share.joined = now;
        if (on.is_priced()) share.price_mark = on.prices(now);
    } else {
        here.weights.add(share.consumer.weight);
        ++here.by_level;
        share.joined = on.levels(now);
        if (on.is_priced()) share.price_mark = on.level_prices(now);
    }
}

void Leases::release(Host& here, const Resource& on, Lease& lease, double now) {
    HostShare& share = lease.share;
    lease.consumed += share_consumed(on, lease, now);
    lease.cost += share_charged(on, lease, now);
    if (share.hold == Hold::limit) {
        here.limits.subtract(share.consumer.limit);
        if (--here.by_limit == 0) here.limits.clear();
    } else {
        here.weights.subtract(share.consumer.weight);
        if (--here.by_level == 0) here.weights.clear();
    }
    share.hold = Hold::nothing;
    share.price_mark.clear();
}

double Leases::share_consumed(const Resource& on, const Lease& lease, double now) {
    const HostShare& share = lease.share;
    return share.hold == Hold::nothing ? 0.0
           : share.hold == Hold::limit ? (now - share.joined) * share.consumer.limit
                                       : (on.levels(now) - share.joined) * share.consumer.weight;
}

double Leases::share_charged(const Resource& on, const Lease& lease, double now) {
    const HostShare& share = lease.share;
    if (share.hold == Hold::nothing || !on.is_priced()) return 0.0;
    return share.hold == Hold::limit
               ? on.prices(now).since(share.price_mark) * share.consumer.limit
               : on.level_prices(now).since(share.price_mark) * share.consumer.weight;
}

// Beside the activities of the host, see NoOthers. A lease at the level of the host crosses when
// its own threshold is passed, and is solved when an activity in it crosses.
class Leases::Consumers {
  public:
    Consumers(Leases& leases, Host& here, Resource& on, double now)
        : leases_(leases), here_(here), on_(on), now_(now) {}

    [[nodiscard]] Consumer sums() const { return {here_.limits.value(), here_.weights.value()}; }
    [[nodiscard]] bool empty() const { return here_.by_limit + here_.by_level == 0; }

    [[nodiscard]] bool lower(double level, double highest) {
        Lease* lease = highest_limited(std::max(level, highest));
        if (lease) cross(*lease, Hold::level);
        return lease != nullptr;
    }
    [[nodiscard]] bool raise(double level, double lowest) {
        while (!here_.above.empty() && here_.above.front().key() <= std::min(level, lowest)) {
            Lease& lease = front_of(here_.above);
            const double threshold = lease.share.consumer.threshold();
            if (threshold <= here_.above.front().key()) {
                cross(lease, Hold::limit);
                return true;
            }
            here_.above.put(lease.member, threshold);
            leases_.unsettle(lease);
        }
        return false;
    }
    [[nodiscard]] double at_least_limited(double level) {
        const Lease* lease = highest_limited(level);
        return lease ? lease->share.consumer.threshold() : level;
    }
    [[nodiscard]] NoOthers::Rates settle() {
        for (const std::uint32_t index : here_.unsettled) {
            Lease& lease = leases_.leases_[index];
            lease.unsettled = false;
            if (lease.share.hold != Hold::nothing) leases_.solve(here_, lease, now_);
        }
        here_.unsettled.clear();
        const Consumer sum = sums();
        const double drawn = sum.limit + (on_.level < never ? on_.level * sum.weight : 0.0);
        return {drawn, on_.efficiency ? progress_rate(here_, on_) : drawn};
    }

  private:
    [[nodiscard]] Lease& front_of(const IndexedHeap& heap) {
        return leases_.leases_[here_.members[heap.front().member]];
    }
    // The limited lease with the highest threshold, if that is above the level.
    [[nodiscard]] Lease* highest_limited(double level) {
        while (!here_.below.empty() && -here_.below.front().key() > level) {
            Lease& lease = front_of(here_.below);
            if (lease.share.hold != Hold::limit) {
                here_.below.remove(lease.member);
                leases_.unsettle(lease);
                continue;
            }
            const double threshold = lease.share.consumer.threshold();
            if (threshold >= -here_.below.front().key()) return &lease;
            here_.below.put(lease.member, -threshold);
        }
        return nullptr;
    }
    void cross(Lease& lease, Hold to) {
        release(here_, on_, lease, now_);
        hold(here_, on_, lease, to, now_);
        const double threshold = lease.share.consumer.threshold();
        list_switches(here_, lease, to == Hold::level ? threshold : never,
                      to == Hold::level ? -1.0 : threshold);
        leases_.unsettle(lease);
    }

    Leases& leases_;
    Host& here_;
    Resource& on_;
    double now_;
};

// ---- Settling -----------------------------------------------------------------------------------

double Leases::settle(ResourceId id, double now) {
    Resource& on = resources_[id];
    Host& here = hosts_[on.leases];
    on.advance_to(now);
    for (const std::uint32_t index : here.unsettled) update_share(here, leases_[index], now);
    const double next = on.settle(pool_, now, Consumers{*this, here, on, now});
    return next_end(here, on, next, now);
}

void Leases::solve(Host& here, Lease& lease, double now) {
    Resource& on = resources_[lease.host];
    const bool limited = lease.share.hold == Hold::limit;
    lease.solve(pool_, on,
                !limited       ? Lease::Bound::level
                : lease.fits() ? Lease::Bound::activities
                               : Lease::Bound::size,
                now);
    // Without limits inside, the levels that were listed with the share remain.
    if (lease.can_switch()) {
        const double threshold = lease.share.consumer.threshold();
        if (limited) {
            list_switches(here, lease, never, threshold);
        } else {
            // Not on the wrong side of the level by a rounding error, or it would be solved again.
            const auto [above, below] = lease.switches(pool_);
            const double highest = above > on.level ? above : next_larger(on.level);
            list_switches(here, lease, std::min(highest, threshold), std::min(below, on.level));
        }
    }
    for (LeaseKind& mine : lease.kinds()) {
        list_end(here, lease, mine);
        if (on.efficiency) list_part(here, lease, mine);
    }
}

void Leases::list_switches(Host& here, const Lease& lease, double above, double below) {
    if (above < never) {
        here.above.put(lease.member, above);
    } else {
        here.above.remove(lease.member);
    }
    if (below >= 0.0) {
        here.below.put(lease.member, -below);
    } else {
        here.below.remove(lease.member);
    }
}

Leases::KindEnds& Leases::ends_of(Host& host, Kind kind) {
    for (KindEnds& each : host.kinds)
        if (each.kind == kind) return each;
    host.kinds.emplace_back().kind = kind;
    return host.kinds.back();
}

// Lists the next end of the lease at its inner level in the clock of the host that gives it.
void Leases::list_end(Host& here, const Lease& lease, LeaseKind& mine) {
    const EndClock clock = mine.by_level == 0     ? EndClock::nothing
                           : lease.slope() == 0.0 ? EndClock::own
                                                  : EndClock::shared;
    if (mine.clock != clock) unlist_end(here, lease, mine);
    if (clock == EndClock::nothing) return;
    mine.clock = clock;
    KindEnds& ends = ends_of(here, mine.kind);
    const auto* top = mine.ends.top(CurrentEnd{pool_, Hold::level});
    const double left = std::max(top->key() - mine.progress, 0.0);
    if (clock == EndClock::own) {
        const double key = mine.own_mark + (left > 0.0 ? left / lease.constant() : 0.0);
        ends.own.put(lease.member, key);
        ends.set(lease.member, {top->tag, key, 0.0, mine.own_mark});
    } else {
        const double key = mine.shared_mark + left / lease.slope();
        const double increase =
            left > 0.0 && lease.constant() != 0.0 ? -lease.constant() / lease.slope() : 0.0;
        ends.shared.put(lease.member, key);
        ends.set(lease.member, {top->tag, key, increase, mine.own_mark});
    }
}

void Leases::unlist_end(Host& here, const Lease& lease, LeaseKind& mine) {
    const EndClock clock = std::exchange(mine.clock, EndClock::nothing);
    if (clock == EndClock::nothing) return;
    KindEnds& ends = ends_of(here, mine.kind);
    (clock == EndClock::own ? ends.own : ends.shared).remove(lease.member);
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

double Leases::progress_rate(const Host& here, const Resource& on) {
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
    here.collected = false;
    for (KindEnds& each : here.kinds) {
        if (each.own.empty() && each.shared.empty()) continue;
        const KindShare& clocks = on.clocks(each.kind);
        End first{next, none};
        if (!each.own.empty()) {
            const IndexedHeap::Entry& own = each.own.front();
            const double end = Resource::own_end(clocks, own.key(), now);
            if (end < next) first = {end, own.member};
        }
        if (!each.shared.empty())
            first = next_shared_end(each, clocks, on.own_clock(clocks, now), now, first);
        if (first.member == none) continue;
        next = first.time;
        here.next_lease = here.members[first.member];
        here.next_kind = each.kind;
        if (pool_.is_large()) {
            pool_.expect(ActivityPool::slot_of(each.ends[first.member].tag));
            expect(here.next_lease);
        }
    }
    if (here.next_lease != none) {
        on.forget_next_end();
    } else if (next < never && pool_.is_large()) {
        const ResourceId used = pool_[on.next_end()].route.front();
        if (has(used)) expect(indices_[used]);
    }
    return next;
}

// The next end at the level of the host, if it is before `next`. Visits only the leases that could
// be the first to end by their listed readings of the shared clock.
Leases::End Leases::next_shared_end(KindEnds& ends, const KindShare& clocks, double own, double now,
                                    End next) {
    IndexedHeap::Entry front = ends.shared.front();
    if (ends.ends[front.member].increase == 0.0) {
        const double time = Resource::shared_end(clocks, front.key(), now);
        return time < next.time ? End{time, front.member} : next;
    }
    const double total = clocks.shared.total;
    const double rate = clocks.shared.rate;
    // The reading of the shared clock at the next end; without a rate, of ends that are due.
    const double due = next_larger(total);
    double limit = std::max(due, total + (next.time - now) * rate);
    // The first reading becomes the exact one, so that too low ones do not accumulate.
    while (front.key() < limit) {
        const double key = ends.ends[front.member].at(own);
        if (!(key > front.key())) break;
        ends.shared.put(front.member, key);
        front = ends.shared.front();
    }
    double least = next.time - now;  // time until the end, as left / speed
    double its_speed = 1.0;
    ends.shared.visit_below(limit, [&](const IndexedHeap::Entry& entry) {
        const InnerEnd& end = ends.ends[entry.member];
        const double left = std::max(end.at(own) - total, 0.0);
        const double speed = left > 0.0 ? rate - end.increase * clocks.efficiency : 1.0;
        if (!(left * its_speed < least * speed)) return;
        least = left;
        its_speed = speed;
        next = {now + left / speed, entry.member};
        limit = std::max(due, total + left / speed * rate);
    });
    return next;
}

Slot Leases::due(ResourceId id, double now) {
    Resource& on = resources_[id];
    Host& here = hosts_[on.leases];
    on.advance_to(now);
    if (!std::exchange(here.collected, true)) collect_due(here, id, now);
    while (!here.due_now.empty()) {
        Lease& lease = leases_[here.due_now.back().first];
        LeaseKind* mine = lease.host == id ? lease.find(here.due_now.back().second) : nullptr;
        if (mine && mine->by_level > 0 && lease.updated_at(now)) {
            const auto* top = mine->ends.top(CurrentEnd{pool_, Hold::level});
            if (top->key() <= mine->progress) return ActivityPool::slot_of(top->tag);
        }
        here.due_now.pop_back();
    }
    return none;
}

// Finds the leases with ends that are due now, once after the host was settled.
void Leases::collect_due(Host& here, ResourceId id, double now) {
    const Resource& on = resources_[id];
    here.due_now.clear();
    // Rounding may leave a clock slightly below the reading that is due.
    const std::uint32_t next = std::exchange(here.next_lease, none);
    if (next != none && leases_[next].host == id)
        take_due(here, ends_of(here, here.next_kind), leases_[next], now);
    for (KindEnds& each : here.kinds) {
        if (each.own.empty() && each.shared.empty()) continue;
        const KindShare& clocks = on.clocks(each.kind);
        const double own = on.own_clock(clocks, now);
        const double shared = on.shared_clock(clocks, now);
        const auto take = [&](const IndexedHeap::Entry& entry) {
            const std::uint32_t index = here.members[entry.member];
            if (index != next || each.kind != here.next_kind)
                take_due(here, each, leases_[index], now);
        };
        each.own.visit_below(next_larger(own), take);
        each.shared.visit_below(next_larger(shared), [&](const IndexedHeap::Entry& entry) {
            if (each.ends[entry.member].at(own) <= shared) take(entry);
        });
    }
}

// The activity that is listed as the next to end does so, even if rounding left something of it.
void Leases::take_due(Host& here, const KindEnds& ends, Lease& lease, double now) {
    LeaseKind* mine = lease.find(ends.kind);
    if (!mine || mine->by_level == 0) return;
    lease.advance(resources_[lease.host], now);
    const auto* top = mine->ends.top(CurrentEnd{pool_, Hold::level});
    if (top->tag == ends.ends[lease.member].tag)
        mine->progress = std::max(mine->progress, top->key());
    here.due_now.emplace_back(index_of(lease), ends.kind);
}

// ---- Values -------------------------------------------------------------------------------------

Shares Leases::preview_host(ResourceId id) const {
    const Resource& on = resources_[id];
    if (!on.dirty) return {on.level, on.rate()};
    std::vector<Consumer> consumers;
    for (const Slot slot : on.joined(pool_)) {
        const Activity& activity = pool_[slot];
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

double Leases::settled_rate(ResourceId id) const {
    const Lease& lease = of(id);
    const bool alone = lease.single != none;
    const Hold hold = alone ? pool_[lease.single].hold : lease.share.hold;
    if (hold == Hold::nothing) return 0.0;
    const Consumer consumer = alone
                                  ? Consumer{pool_[lease.single].limit, pool_[lease.single].weight}
                                  : lease.share.consumer;
    return hold == Hold::limit ? consumer.limit : consumer.weight * resources_[lease.host].level;
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
    return lease.consumed + share_consumed(on, lease, now);
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
    return lease.cost + share_charged(on, lease, now);
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
