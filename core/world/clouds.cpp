#include "world/clouds.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "kernel/draw.hpp"
#include "world/executor.hpp"
#include "world/machine_changes.hpp"
#include "world/staging.hpp"

namespace twinloop {
namespace {

std::uint64_t make_activity_token(MachineId instance, std::uint32_t member) {
    return (static_cast<std::uint64_t>(instance) << 32 | member) + 1;
}

}  // namespace

const CloudPlan& Clouds::plan(MachineId instance) const {
    return (*world_.scenario->clouds)[world_.rented[instance].rental.cloud];
}

const ImagePlan& Clouds::image(MachineId instance) const {
    return plan(instance).images[world_.rented[instance].rental.image];
}

void Clouds::enter(MachineId instance, InstanceState state) {
    RentedInstance& mine = world_.rented[instance];
    if (world_.records.recording.placements && world_.now() > mine.since)
        world_.records.instance_states.push_back(
            {mine.serial, mine.state, mine.since, world_.now()});
    if (mine.from_outside) {
        world_.passing_instances -= is_passing(mine.state) ? 1U : 0U;
        world_.passing_instances += is_passing(state) ? 1U : 0U;
    }
    std::uint32_t& booting = world_.clouds[mine.rental.cloud].booting;
    booting -= mine.state == InstanceState::startup ? 1U : 0U;
    booting += state == InstanceState::startup ? 1U : 0U;
    mine.state = state;
    mine.since = world_.now();
    if (world_.watched)
        world_.notices.push_back(
            {Notice::Kind::instance, mine.serial, world_.now(), static_cast<double>(state)});
}

void Clouds::set_timer(MachineId instance, double time) {
    RentedInstance& mine = world_.rented[instance];
    if (mine.timer == none)
        mine.timer =
            world_.simulation.add_timer(EventKind::step, make_token(Subject::instance, instance));
    world_.simulation.set_timer(mine.timer, time);
}

void Clouds::stop_timer(MachineId instance) {
    const EventId timer = world_.rented[instance].timer;
    if (timer != none && world_.simulation.timer_set(timer)) world_.simulation.stop_timer(timer);
}

// --- requests -----------------------------------------------------------------------------------

void Clouds::rent(MachineId instance, const Rental& rental, bool from_outside, double validity) {
    open(instance, rental, from_outside, validity);
    send(instance, InstanceRequest::run);
}

void Clouds::open(MachineId instance, const Rental& rental, bool from_outside, double validity) {
    world_.first_rented = std::min(world_.first_rented, instance);
    world_.fleet.open_rented(instance);
    if (instance >= world_.rented.size()) world_.rented.resize(instance + std::size_t{1});
    RentedInstance& mine = world_.rented[instance];
    const EventId timer = mine.timer;
    mine = {};
    mine.timer = timer;
    mine.serial = world_.scheduler.rental_number(instance);
    mine.rental = rental;
    mine.requested = mine.since = world_.now();
    mine.state = InstanceState::requested;
    mine.from_outside = from_outside;
    if (from_outside) ++world_.passing_instances;
    mine.is_held = !std::isnan(validity);
    mine.validity = validity;
    choose_tariff(instance);
}

// A random number from 0 to 1, the same for the same cloud, seed and order of draws.
double Clouds::draw(std::size_t cloud) {
    Draw random((*world_.scenario->clouds)[cloud].seed ^ Draw(++world_.clouds[cloud].draws).next());
    return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

double Clouds::draw_from(std::size_t cloud, const std::vector<double>& values) {
    return values[static_cast<std::size_t>(draw(cloud) * static_cast<double>(values.size()))];
}

void Clouds::accept(MachineId instance) {
    const double refused = image(instance).refused_share;
    if (refused > 0 && draw(world_.rented[instance].rental.cloud) < refused) {
        finish(instance, RentalEnd::refused);
        return;
    }
    const double delay = plan(instance).decision_delay;
    if (delay > 0) set_timer(instance, world_.now() + delay);
    else if (!enqueue(instance)) finish(instance, RentalEnd::refused);
}

// False if no host can have it, or if the spot price is above its bid.
bool Clouds::enqueue(MachineId instance) {
    enter(instance, InstanceState::queued);
    const Rental& rental = world_.rented[instance].rental;
    CloudState& cloud = world_.clouds[rental.cloud];
    Task row;
    row.request.cores = rental.cores;
    row.request.memory = rental.memory;
    row.request.time = rental.seconds;
    row.request.submit = world_.now();
    row.request.nodes = 1;
    row.request.user = rental.user;
    const TaskId number = cloud.scheduler.put_task(row);
    cloud.scheduler.set_starting(number, true);
    cloud.scheduler.set_rental(number, world_.rented[instance].serial);
    if (number >= cloud.machines.size()) cloud.machines.resize(number + std::size_t{1});
    cloud.machines[number] = instance;
    world_.fleet[instance].cloud = rental.cloud;
    world_.fleet[instance].number = number;
    cloud.scheduler.set_now(world_.now());
    cloud.scheduler.set_together(number, {});
    if (is_outbid(instance) || !cloud.scheduler.is_possible(number)) return false;
    if (const std::uint32_t group = world_.rented[instance].group; group != none) {
        const std::vector<MachineId>& members = world_.groups[group].members;
        if (instance == members.front() && !cloud.scheduler.can_hold(number, members.size()))
            return false;
        tell_group(group);
    }
    cloud.scheduler.submit(number, rental.seconds);
    cloud.call = true;
    return true;
}

// An order before it in the same decision may have ended the instance with its group.
bool Clouds::is_served(MachineId instance, TaskId number) const {
    return world_.rented[instance].serial != none && world_.fleet[instance].number == number;
}

void Clouds::release(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    if (mine.serial == none) return;  // it has ended, and the client will be informed
    mine.view = ClientView::given_back;
    send(instance, InstanceRequest::terminate);
}

void Clouds::refuse(std::size_t cloud, TaskId number) {
    const MachineId instance = world_.clouds[cloud].machines[number];
    const RentedInstance& mine = world_.rented[instance];
    if (!is_served(instance, number)) return;
    if (mine.has_memory || mine.has_disk) rest(instance);
    else finish(instance, RentalEnd::refused);
}

void Clouds::refuse_transfer(MachineId instance) {
    if (world_.rented[instance].state == InstanceState::suspend_transfer)
        abandon_suspension(instance);
    else finish(instance, RentalEnd::refused);
}

void Clouds::lose_instances(MachineId host) {
    const Machine& machine = world_.fleet[host];
    CloudState& cloud = world_.clouds[machine.cloud];
    for (const TaskId number : cloud.scheduler.tasks_on(machine.number)) {
        const MachineId instance = cloud.machines[number];
        // It was on the way to this host.
        if (world_.fleet[instance].number != number) {
            abandon_migration(instance);
            continue;
        }
        MachineChanges(world_).interrupt_tasks(instance);
        finish(instance, RentalEnd::lost);
    }
    if (!(*world_.scenario->clouds)[machine.cloud].suspends_locally) return;
    const StoreId store = Staging(world_).local_store(host);
    lose_memory(store);
}

// --- start --------------------------------------------------------------------------------------

void Clouds::allocate(std::size_t at, TaskId number) {
    CloudState& cloud = world_.clouds[at];
    const MachineId instance = cloud.machines[number];
    if (!is_served(instance, number)) return;
    RentedInstance& mine = world_.rented[instance];
    enter(instance, InstanceState::allocated);
    if (std::isnan(mine.placed)) {
        mine.placed = world_.now();
        world_.scheduler.set_hosted_since(instance, mine.placed);
    }
    occupy(instance, cloud.hosts[cloud.scheduler.parts(number).front().machine]);
    if (mine.is_held) {
        set_timer(instance, world_.now() + mine.validity);
    } else if (mine.has_memory) {
        begin_resumption(instance);
    } else if (mine.group != none) {
        if (--world_.groups[mine.group].waiting == 0) start_group(mine.group);
    } else {
        start(instance);
    }
}

// Takes its place on a host; tasks that it has go on there when they continue.
void Clouds::occupy(MachineId instance, MachineId host) {
    RentedInstance& mine = world_.rented[instance];
    const double before = world_.fleet[instance].speed;
    mine.host = host;
    mine.period = world_.now();
    world_.fleet.set_host(instance, host, mine.rental.cores);
    if (world_.is_shared()) {
        Machine& machine = world_.fleet[instance];
        if (machine.resource == none) {
            machine.resource = world_.simulation.add_lease(
                world_.resource_of(host), machine.capacity,
                world_.sharing == SharingMode::delay ? mine.rental.cores : 1.0);
        } else {
            world_.simulation.move_lease(machine.resource, world_.resource_of(host));
            world_.simulation.set_capacity(machine.resource, machine.capacity);
        }
    }
    if (world_.scheduler.space().occupants(instance) == 0) return;
    Executor executor(world_);
    for (const TaskId task : world_.scheduler.tasks_on(instance)) {
        if (world_.fleet[instance].speed != before) executor.change_speed(world_.tasks[task].slot);
        executor.reroute(world_.tasks[task].slot);
    }
}

void Clouds::start(MachineId instance) {
    CloudState& cloud = world_.clouds[world_.rented[instance].rental.cloud];
    const double time = std::max(world_.now(), cloud.next_start);
    cloud.next_start = time + plan(instance).inter_boot_delay;
    if (time > world_.now()) set_timer(instance, time);
    else begin_start(instance);
}

void Clouds::begin_start(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    const ImagePlan& image = this->image(instance);
    const Staging staging(world_);
    Transfers& transfers = world_.staging.transfers;
    StoreId local = image.caching == Caching::none ? StoreId{none} : staging.local_store(mine.host);
    const bool has_disk = std::exchange(mine.has_disk, false) && mine.last_host == mine.host;
    if (has_disk || image.file == none ||
        (local != none && transfers.files().has(image.file, local))) {
        begin_boot(instance);
        return;
    }
    if (!transfers.files().has(image.file, image.store)) {
        finish(instance, RentalEnd::refused);  // the image was deleted in the run
        return;
    }
    // Without space for another copy, the instance gets one of its own, which the store of the host
    // does not keep.
    if (local != none && !transfers.stores[local].fits(image.bytes)) local = none;
    TransferSpec spec;
    spec.from = transfers.stores[image.store].spec.node;
    spec.to = staging.node_of(mine.host);
    spec.source = image.store;
    spec.target = local;
    spec.file = image.file;
    spec.bytes = image.bytes;
    enter(instance, InstanceState::initial_transfer);
    try {
        begin_transfer(instance, spec);
    } catch (const std::invalid_argument&) {
        // There is no route.
        finish(instance, RentalEnd::refused);
    }
}

void Clouds::begin_transfer(MachineId instance, TransferSpec spec) {
    spec.token = make_activity_token(instance, transfer_member);
    world_.rented[instance].transfer = world_.staging.transfers.begin(world_.simulation, spec);
}

void Clouds::end_transfer(MachineId instance, Ending how, const Final& figures) {
    RentedInstance& mine = world_.rented[instance];
    const TransferId id = std::exchange(mine.transfer, none);
    Transfers& transfers = world_.staging.transfers;
    const Transfers::Transfer transfer = transfers[id];
    const bool is_write = mine.state == InstanceState::suspend_transfer;
    transfers.end(world_.simulation, id, how, figures.done);
    if (world_.records.recording.placements)
        world_.records.transfers.push_back(
            {no_task, transfer.spec.file, is_write ? transfer.spec.target : transfer.spec.source,
             RentedInstance::label_bit | mine.serial, !is_write, false, how == Ending::finished,
             transfer.moved + figures.done, transfer.registered, world_.now()});
    if (how != Ending::finished) return;
    if (mine.state == InstanceState::suspend_transfer) complete_suspension(instance);
    else if (mine.state == InstanceState::resume_transfer) complete_resumption(instance);
    else begin_boot(instance);
}

void Clouds::begin_boot(MachineId instance) {
    enter(instance, InstanceState::startup);
    if (const double time = known_boot(instance); !std::isnan(time)) {
        boot_for(instance, time);
        return;
    }
    if (const double delay = boot_delay(instance); delay > 0)
        set_timer(instance, world_.now() + delay);
    else end_boot_delay(instance);
}

double Clouds::boot_delay(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    const std::size_t cloud = mine.rental.cloud;
    const ImagePlan& image = this->image(instance);
    double delay = image.delay + image.per_booting * world_.clouds[cloud].booting;
    if (!image.is_random()) return delay;
    if (!image.factors.empty()) delay *= draw_from(cloud, image.factors);
    if (image.slow_share > 0 && draw(cloud) < image.slow_share)
        delay += draw_from(cloud, image.slow_times);
    mine.fails = image.failed_share > 0 && draw(cloud) < image.failed_share;
    return delay;
}

void Clouds::end_boot_delay(MachineId instance) {
    if (world_.rented[instance].fails) finish(instance, RentalEnd::lost);
    else begin_boot_work(instance);
}

// The recorded boot of the instance, or that which its client expects; NaN: neither.
double Clouds::known_boot(MachineId instance) const {
    const std::vector<double>& recorded = plan(instance).boot_times;
    const Rental& rental = world_.rented[instance].rental;
    double time = plan(instance).typical_boot;
    if (rental.boot_record < recorded.size()) time = recorded[rental.boot_record];
    return std::isnan(time) ? rental.boot_time : time;
}

// A boot of a given time, without work on the cores of the host.
void Clouds::boot_for(MachineId instance, double time) {
    world_.rented[instance].boots = true;
    if (time > 0) set_timer(instance, world_.now() + time);
    else become_ready(instance);
}

void Clouds::begin_boot_work(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    const ImagePlan& image = this->image(instance);
    const double rate = std::min(image.limit, mine.rental.cores) * world_.fleet[instance].speed;
    mine.boots = true;
    if (!(image.work > 0)) {
        become_ready(instance);
    } else if (world_.is_shared()) {
        launch_boot(instance, image.work, rate);
    } else {
        set_boot_rate(instance, rate);
        set_timer(instance, world_.now() + image.work / rate);
    }
}

void Clouds::launch_boot(MachineId instance, double work, double rate) {
    RentedInstance& mine = world_.rented[instance];
    ActivitySpec spec;
    spec.work = work;
    spec.limit = rate;
    spec.weight = world_.sharing == SharingMode::delay ? mine.rental.cores : 1.0;
    spec.start = world_.now();
    spec.token = make_activity_token(instance, boot_member);
    const ResourceId route[] = {world_.resource_of(instance)};
    mine.boot = world_.simulation.launch(spec, route);
}

void Clouds::set_boot_rate(MachineId instance, double rate) {
    RentedInstance& mine = world_.rented[instance];
    Meter& meter = world_.fleet.meter(mine.host);
    meter.advance(world_.now());
    meter.change(mine.rate, rate);
    mine.rate = rate;
    world_.record_use(mine.host);
}

void Clouds::stop_boot(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    if (mine.rate > 0) set_boot_rate(instance, 0.0);
}

void Clouds::end_delay(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    switch (mine.state) {
        case InstanceState::requested:
            if (!enqueue(instance)) finish(instance, RentalEnd::refused);
            break;
        case InstanceState::allocated:
            if (mine.is_held) finish(instance, RentalEnd::expired);
            else begin_start(instance);
            break;
        case InstanceState::startup:
            if (mine.boots) end_boot(instance);
            else end_boot_delay(instance);
            break;
        default:
            break;
    }
}

void Clouds::end_boot(MachineId instance) {
    stop_boot(instance);
    become_ready(instance);
}

void Clouds::become_ready(MachineId instance) {
    enter(instance, InstanceState::running);
    RentedInstance& mine = world_.rented[instance];
    if (std::isnan(mine.wait)) {
        mine.ready = world_.now();
        mine.wait = mine.ready - mine.requested;
    }
    mine.boots = false;
    world_.clouds[world_.rented[instance].rental.cloud].scheduler.set_starting(
        world_.fleet[instance].number, false);
    answer(instance, world_.rented[instance].serial, RentalEvent::ready);
}

// --- end ----------------------------------------------------------------------------------------

// What the instance holds comes back in every state: timers, transfers, activities, its lease, and
// its place on the host or in the queue.
void Clouds::finish(MachineId instance, RentalEnd reason) {
    RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    stop_timer(instance);
    leave_group(instance, reason);
    if (mine.state == InstanceState::migrating || mine.state == InstanceState::stopped)
        abandon_migration(instance);
    // The client of the simulation is notified and calls `end_transfer`.
    if (mine.transfer != none)
        world_.simulation.cancel(world_.staging.transfers[mine.transfer].activity);
    stop_boot(instance);
    // Cancels the activity of a boot.
    if (const ResourceId lease = std::exchange(world_.fleet[instance].resource, none);
        lease != none)
        world_.simulation.release_lease(lease);
    forget_memory(instance);
    if (mine.state != InstanceState::requested && mine.state != InstanceState::suspended &&
        mine.state != InstanceState::shutdown) {
        const TaskId number = world_.fleet[instance].number;
        cloud.scheduler.set_now(world_.now());
        if (cloud.scheduler.phase(number) == Phase::waiting) cloud.scheduler.withdraw(number);
        else if (cloud.scheduler.phase(number) == Phase::running) cloud.scheduler.end(number);
        cloud.scheduler.recycle(number);
        cloud.call = true;
    }
    enter(instance, InstanceState::destroyed);
    RentalTotals& totals = world_.rental_totals;
    totals.add(plan(instance), mine, world_.now(), reason);
    if (reason == RentalEnd::refused) ++totals.refused;
    if (reason == RentalEnd::lost) ++totals.lost;
    if (reason == RentalEnd::interrupted) ++totals.interrupted;
    record_period(instance, reason);
    leave_tariff(instance);
    RentalEvent event = RentalEvent::ended;
    if (reason == RentalEnd::refused)
        event = is_outbid(instance) ? RentalEvent::outbid : RentalEvent::refused;
    else if (reason == RentalEnd::lost) event = RentalEvent::lost;
    else if (reason == RentalEnd::interrupted) event = RentalEvent::interrupted;
    answer(instance, std::exchange(mine.serial, none), event);
}

// The first period of an instance has the times of its request and of its boot, the last one its
// price.
void Clouds::record_period(MachineId instance, RentalEnd reason) {
    RentedInstance& mine = world_.rented[instance];
    if (!world_.records.recording.placements) return;
    const bool ends = reason <= RentalEnd::interrupted || reason == RentalEnd::left;
    const double price =
        ends ? RentalTotals::price(plan(instance), mine, world_.now(), reason) : unknown;
    const double requested = mine.is_later ? unknown : mine.requested;
    const double ready = mine.is_later ? unknown : mine.ready;
    world_.records.rentals.push_back({mine.serial, mine.rental, mine.is_reserved, mine.host,
                                      requested, mine.period, ready, world_.now(), reason, price});
    mine.is_later = true;
}

// The instance gives its place back, and is on no host.
void Clouds::leave_host(MachineId instance, RentalEnd reason) {
    RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    record_period(instance, reason);
    world_.rental_totals.add_period(mine, world_.now());
    const TaskId number = world_.fleet[instance].number;
    cloud.scheduler.set_now(world_.now());
    cloud.scheduler.end(number);
    cloud.scheduler.recycle(number);
    cloud.call = true;
    mine.last_host = std::exchange(mine.host, no_machine);
    mine.period = unknown;
}

// --- prices -------------------------------------------------------------------------------------

bool Clouds::is_outbid(MachineId instance) const {
    const Rental& rental = world_.rented[instance].rental;
    return rental.is_spot() && rental.bid < plan(instance).billing.spot.at(world_.now());
}

// Reserved instances are those that are requested first.
void Clouds::choose_tariff(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    if (mine.rental.is_spot()) {
        cloud.least_bid = std::min(cloud.least_bid, mine.rental.bid);
        if (cloud.bidding++ == 0) world_.set_price_timer(mine.rental.cloud);
        return;
    }
    mine.is_reserved = cloud.reserved < plan(instance).billing.reserved;
    if (mine.is_reserved) ++cloud.reserved;
}

void Clouds::leave_tariff(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    if (mine.rental.is_spot() && --cloud.bidding == 0) world_.set_price_timer(mine.rental.cloud);
    if (std::exchange(mine.is_reserved, false)) --cloud.reserved;
}

void Clouds::change_price(std::size_t at) {
    const double price = (*world_.scenario->clouds)[at].billing.spot.at(world_.now());
    CloudState& cloud = world_.clouds[at];
    if (cloud.least_bid < price) {
        cloud.least_bid = never;
        for (MachineId instance = 0; instance < world_.rented.size(); ++instance) {
            const RentedInstance& mine = world_.rented[instance];
            if (mine.serial == none || mine.rental.cloud != at || !mine.rental.is_spot()) continue;
            // A request that has not been accepted is refused then.
            if (mine.rental.bid >= price || mine.state == InstanceState::requested) {
                cloud.least_bid = std::min(cloud.least_bid, mine.rental.bid);
                continue;
            }
            MachineChanges(world_).interrupt_tasks(instance);
            finish(instance, std::isnan(mine.placed) ? RentalEnd::refused : RentalEnd::interrupted);
        }
    }
    world_.set_price_timer(at);
    // A client may wait for a lower price.
    if (world_.bids) world_.call = true;
}

void Clouds::charge_transfer(MachineId machine, StoreId store, bool reads, double bytes) {
    if (machine >= world_.rented.size() || world_.rented[machine].serial == none) return;
    const BillingPlan& billing = plan(machine).billing;
    const double price = reads ? billing.transfer_out : billing.transfer_in;
    // The stores of hosts are at their nodes.
    if (price == 0.0 ||
        world_.staging.transfers.stores[store].spec.node < world_.scenario->machines.size())
        return;
    world_.rental_totals.transfers.add(price * bytes);
}

// --- migration ----------------------------------------------------------------------------------

// Pre-copy: the memory is copied while the instance runs, then what it has changed meanwhile, and
// so on, until little is left or there were enough rounds; then the instance is stopped and the
// rest is copied.
void Clouds::migrate(std::size_t at, TaskId number, MachineId target) {
    CloudState& cloud = world_.clouds[at];
    const MachineId instance = cloud.machines[number];
    const TaskId there = cloud.scheduler.other_end(number);
    if (there >= cloud.machines.size()) cloud.machines.resize(there + std::size_t{1});
    cloud.machines[there] = instance;
    RentedInstance& mine = world_.rented[instance];
    enter(instance, InstanceState::migrating);
    mine.target = cloud.hosts[target];
    mine.round = 0;
    mine.migration_begun = world_.now();
    mine.moved_bytes = 0.0;
    mine.stopped = false;
    if (!plan(instance).migration.live) stop_tasks(instance, InstanceState::stopped);
    begin_round(instance, mine.rental.memory);
}

void Clouds::begin_round(MachineId instance, double bytes) {
    RentedInstance& mine = world_.rented[instance];
    const Staging staging(world_);
    ++mine.round;
    mine.round_begun = world_.now();
    TransferSpec spec;
    spec.from = staging.node_of(mine.host);
    spec.to = staging.node_of(mine.target);
    spec.bytes = bytes;
    spec.limit = plan(instance).migration.bandwidth;
    spec.token = make_activity_token(instance, migration_member);
    try {
        mine.transfer = world_.staging.transfers.begin(world_.simulation, spec);
    } catch (const std::invalid_argument&) {
        abandon_migration(instance);  // there is no route
    }
}

void Clouds::end_round(MachineId instance, Ending how, const Final& figures) {
    RentedInstance& mine = world_.rented[instance];
    const TransferId id = std::exchange(mine.transfer, none);
    world_.staging.transfers.end(world_.simulation, id, how, figures.done);
    mine.moved_bytes += figures.done;
    if (how == Ending::cancelled) return;
    if (mine.stopped) {
        arrive(instance);
        return;
    }
    const MigrationPlan& plan = this->plan(instance).migration;
    const double rest =
        std::min(mine.rental.memory, plan.dirty_rate * (world_.now() - mine.round_begun));
    if (rest <= plan.threshold || mine.round >= plan.rounds)
        stop_tasks(instance, InstanceState::stopped);
    begin_round(instance, rest);
}

void Clouds::stop_tasks(MachineId instance, InstanceState state) {
    RentedInstance& mine = world_.rented[instance];
    enter(instance, state);
    mine.stopped = true;
    mine.stopped_at = world_.now();
    world_.scheduler.set_present(instance, false);
    MachineChanges(world_).pause_tasks(instance);
}

void Clouds::continue_tasks(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    mine.stopped = false;
    MachineChanges(world_).resume_tasks(instance);
    if (mine.view == ClientView::open) world_.scheduler.set_present(instance, true);
    else if (mine.view == ClientView::informed) open_to_client(instance);
    world_.call = true;
}

void Clouds::arrive(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    record_migration(instance, true);
    const TaskId left = world_.fleet[instance].number;
    world_.fleet[instance].number = cloud.scheduler.other_end(left);
    cloud.scheduler.set_starting(world_.fleet[instance].number, false);
    cloud.scheduler.set_now(world_.now());
    cloud.scheduler.end_migration(left);
    cloud.call = true;
    record_period(instance, RentalEnd::moved);
    world_.rental_totals.add_period(mine, world_.now());
    occupy(instance, mine.target);
    enter(instance, InstanceState::running);
    continue_tasks(instance);
}

void Clouds::abandon_migration(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    if (mine.transfer != none)
        world_.simulation.cancel(world_.staging.transfers[mine.transfer].activity);
    record_migration(instance, false);
    cloud.scheduler.set_now(world_.now());
    cloud.scheduler.end_migration(cloud.scheduler.other_end(world_.fleet[instance].number));
    cloud.call = true;
    enter(instance, InstanceState::running);
    if (mine.stopped) continue_tasks(instance);
}

void Clouds::record_migration(MachineId instance, bool completed) {
    const RentedInstance& mine = world_.rented[instance];
    const double downtime = mine.stopped ? world_.now() - mine.stopped_at : 0.0;
    world_.rental_totals.downtime.add(downtime);
    if (completed) ++world_.rental_totals.migrations;
    if (world_.records.recording.placements)
        world_.records.migrations.push_back({mine.serial, mine.host, mine.target,
                                             mine.migration_begun, world_.now(), mine.moved_bytes,
                                             downtime, mine.round, completed});
}

void Clouds::begin_sharing() {
    for (MachineId instance = 0; instance < world_.rented.size(); ++instance) {
        const RentedInstance& mine = world_.rented[instance];
        if (mine.serial == none || std::isnan(mine.placed)) continue;
        Machine& machine = world_.fleet[instance];
        const MachineId host = mine.host == no_machine ? mine.last_host : mine.host;
        machine.resource = world_.simulation.add_lease(
            world_.resource_of(host), machine.capacity,
            world_.sharing == SharingMode::delay ? mine.rental.cores : 1.0);
        if (mine.rate > 0) {
            const double rest = world_.simulation.timer_time(mine.timer) - world_.now();
            const double rate = std::exchange(world_.rented[instance].rate, 0.0);
            world_.simulation.stop_timer(mine.timer);
            launch_boot(instance, rest * rate, rate);
        }
    }
}

}  // namespace twinloop
