#include "world/staging.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "world/clouds.hpp"

namespace twinloop {

Staging::Progress Staging::begin(std::uint32_t slot, Step step) {
    StagingState& state = world_.staging;
    if (state.cursors.size() <= slot) state.cursors.resize(slot + 1);
    StagingState::Cursor& cursor = state.cursors[slot];
    // What the read step has copied to the host is still there in the write step.
    const StoreId local = step == Step::write ? cursor.local : none;
    const double held = step == Step::write ? cursor.held : 0.0;
    cursor = {};
    cursor.local = local;
    cursor.held = held;
    if (handling().through_local && local == none) cursor.local = local_store(first_machine(slot));
    world_.executions[slot].step = step;
    return next(slot);
}

Staging::Progress Staging::next(std::uint32_t slot) {
    StagingState::Cursor& cursor = world_.staging.cursors[slot];
    if (cursor.next > 0 && cursor.leg + 1 < count_legs(slot)) {
        ++cursor.leg;
        return begin_transfer(slot);
    }
    do {
        if (cursor.next == count_movements(slot)) return Progress::over;
        ++cursor.next;
        cursor.leg = 0;
        cursor.machine = first_machine(slot);
        cursor.home = find_home(slot);
    } while (!is_needed(slot));
    cursor.begun = world_.now();
    return begin_transfer(slot);
}

const FileTable::Handling& Staging::handling() const { return world_.scenario->files->handling; }

// Files that pass through the store of the host move twice: all are copied to it before the first
// one is read there; all are written there before the first one is copied back.
std::size_t Staging::count_movements(std::uint32_t slot) const {
    return files(slot).size() * (handling().through_local ? 2 : 1);
}

Staging::Movement Staging::movement(std::uint32_t slot) const {
    const StagingState::Cursor& cursor = world_.staging.cursors[slot];
    const std::span<const FileId> all = files(slot);
    const std::size_t at = cursor.next - std::size_t{1};
    Movement found;
    found.file = all[at % all.size()];
    found.reads = world_.executions[slot].step == Step::read;
    found.store = cursor.home;
    if (!handling().through_local) return found;
    const bool is_second = at >= all.size();
    found.stages = is_second != found.reads;
    found.is_at_home = cursor.home == cursor.local;
    if (!found.stages) found.store = cursor.local;
    return found;
}

// The store from which the present file is read, and to which it is written; a file without one is
// in the store of the host that writes it.
StoreId Staging::find_home(std::uint32_t slot) const {
    const StagingState::Cursor& cursor = world_.staging.cursors[slot];
    const FileId file = movement(slot).file;
    if (const StoreId store = world_.scenario->files->files[file].store; store != none)
        return store;
    if (world_.executions[slot].step == Step::read)
        return world_.staging.transfers.files().first(file);
    return handling().through_local ? cursor.local : local_store(cursor.machine);
}

// A file that is in the store of the host already is not copied to it, nor back from it.
bool Staging::is_needed(std::uint32_t slot) {
    if (!handling().through_local) return true;
    StagingState& state = world_.staging;
    const Movement moved = movement(slot);
    if (!moved.stages) return true;
    if (moved.is_at_home) return moved.reads && moved.store == none;
    const StoreId local = state.cursors[slot].local;
    if (!moved.reads || !handling().keeps_copies || local == none) return true;
    const auto copy = state.copies.find({moved.file, local});
    const FilePlaces& files = state.transfers.files();
    if (copy == state.copies.end() || moved.store == none || !files.has(moved.file, moved.store) ||
        !files.has(moved.file, local))
        return true;
    copy->second = ++state.copy_uses;
    return false;
}

Staging::Progress Staging::begin_transfer(std::uint32_t slot) {
    StagingState& state = world_.staging;
    StagingState::Cursor& cursor = state.cursors[slot];
    const Movement moved = movement(slot);
    const bool is_local = handling().through_local && !moved.stages;
    cursor.refused = moved.store == none || (handling().through_local && cursor.local == none) ||
                     (moved.reads && !is_local && cursor.leg == 0 &&
                      !state.transfers.files().has(moved.file, moved.store));
    if (cursor.refused) return Progress::refused;
    const TransferSpec given = spec(slot);
    if (handling().keeps_copies && given.target != none) make_room(given.target, given.bytes);
    try {
        cursor.transfer = state.transfers.begin(world_.simulation, given);
    } catch (const std::invalid_argument&) {
        cursor.refused = true;
        return Progress::refused;
    }
    return Progress::begun;
}

std::span<const FileId> Staging::files(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    const FileTable& table = *world_.scenario->files;
    return execution.step == Step::read ? table.read_by(execution.task)
                                        : table.written_by(execution.task);
}

MachineId Staging::first_machine(std::uint32_t slot) const {
    const std::span<const Part> parts = world_.scheduler.parts(world_.executions[slot].task);
    return std::ranges::min(parts, {}, &Part::machine).machine;
}

// The whole movement: one flow from its source to its target.
TransferSpec Staging::whole_spec(std::uint32_t slot) const {
    const StagingState& state = world_.staging;
    const StagingState::Cursor& cursor = state.cursors[slot];
    const Movement moved = movement(slot);
    const auto at_store = [&](StoreId store) { return state.transfers.stores.at(store).spec.node; };
    TransferSpec spec;
    if (moved.stages) {
        spec.source = moved.reads ? moved.store : cursor.local;
        spec.target = moved.reads ? cursor.local : moved.store;
        spec.from = at_store(spec.source);
        spec.to = at_store(spec.target);
    } else {
        const NodeId here = node_of(cursor.machine);
        const NodeId there = at_store(moved.store);
        spec.from = moved.reads ? there : here;
        spec.to = moved.reads ? here : there;
        (moved.reads ? spec.source : spec.target) = moved.store;
    }
    // The copies of one execution have no name: no other one finds them.
    const bool is_own = handling().through_local && moved.stages == moved.reads &&
                        !moved.is_at_home && !handling().keeps_copies;
    spec.content = moved.file;
    spec.file = is_own ? none : moved.file;
    spec.bytes = world_.scenario->files->files[moved.file].bytes;
    spec.token = (static_cast<std::uint64_t>(slot) << 32 | member) + 1;
    return spec;
}

// A whole file is read from its store, then sent, then written.
std::uint32_t Staging::count_legs(std::uint32_t slot) const {
    if (!handling().whole_files) return 1;
    const TransferSpec spec = whole_spec(slot);
    const std::uint32_t legs = (spec.source != none ? 1U : 0U) + (spec.from != spec.to ? 1U : 0U) +
                               (spec.target != none ? 1U : 0U);
    return std::max(legs, 1U);
}

TransferSpec Staging::spec(std::uint32_t slot) const {
    TransferSpec spec = whole_spec(slot);
    if (!handling().whole_files) return spec;
    std::uint32_t leg = world_.staging.cursors[slot].leg;
    if (spec.source != none && leg-- == 0) {
        spec.to = spec.from;
        spec.target = none;
    } else if (spec.from != spec.to && leg-- == 0) {
        spec.source = spec.target = none;
    } else {
        spec.from = spec.to;
        spec.source = none;
    }
    return spec;
}

// Removes copies that no task is about to read, those that were used least recently first.
void Staging::make_room(StoreId store, double bytes) {
    StagingState& state = world_.staging;
    while (!state.transfers.stores[store].fits(bytes)) {
        auto oldest = state.copies.end();
        for (auto at = state.copies.begin(); at != state.copies.end(); ++at)
            if (at->first.store == store && !is_in_use(at->first) &&
                (oldest == state.copies.end() || at->second < oldest->second))
                oldest = at;
        if (oldest == state.copies.end()) return;
        state.transfers.remove_file(store, oldest->first.file);
        state.copies.erase(oldest);
    }
}

bool Staging::is_in_use(const StagingState::Copy& copy) const {
    const StagingState& state = world_.staging;
    for (std::uint32_t slot = 0; slot < state.cursors.size(); ++slot) {
        const StagingState::Cursor& cursor = state.cursors[slot];
        const Execution& execution = world_.executions[slot];
        if (cursor.local != copy.store || execution.task == no_task ||
            (execution.step != Step::read && execution.step != Step::write))
            continue;
        if (std::ranges::find(files(slot), copy.file) != files(slot).end()) return true;
    }
    return false;
}

void Staging::save(std::uint32_t slot, SavedExecution& saved) const {
    const StagingState& state = world_.staging;
    const StagingState::Cursor& cursor = state.cursors[slot];
    saved.files = cursor.next;
    saved.refused = cursor.refused;
    saved.transfers = is_active(slot);
    if (saved.transfers) saved.transfer = state.transfers.save(world_.simulation, cursor.transfer);
}

void Staging::restore(std::uint32_t slot, const SavedExecution& saved) {
    StagingState& state = world_.staging;
    if (!world_.has_files() || saved.files == 0 || saved.files > files(slot).size())
        throw std::invalid_argument("the task has no such file to transfer");
    if (state.cursors.size() <= slot) state.cursors.resize(slot + 1);
    state.cursors[slot] = {};
    state.cursors[slot].next = saved.files;
    state.cursors[slot].refused = saved.refused;
    state.cursors[slot].machine = first_machine(slot);
    state.cursors[slot].home = saved.transfers ? saved.transfer.store : find_home(slot);
    if (!saved.transfers) return;
    state.cursors[slot].transfer =
        state.transfers.restore(world_.simulation, spec(slot), saved.transfer);
}

std::pair<std::uint32_t, std::uint64_t> Staging::order(std::uint32_t slot) const {
    const StagingState& state = world_.staging;
    if (!is_active(slot)) return {};
    const TransferId transfer = state.cursors[slot].transfer;
    if (state.transfers[transfer].waits)
        return {state.transfers.save(world_.simulation, transfer).place + 2, 0};
    const Activity& moving = world_.simulation.activity(activity(slot));
    if (moving.state != State::waiting) return {0, moving.tag};
    return {1, world_.simulation.timer_rank(moving.where)};
}

bool Staging::is_refused(std::uint32_t slot) const { return world_.staging.cursors[slot].refused; }

void Staging::end(std::uint32_t slot, Ending how, const Final& figures) {
    StagingState& state = world_.staging;
    StagingState::Cursor& cursor = state.cursors[slot];
    const Movement movement = this->movement(slot);
    const bool is_last = cursor.leg + 1 == count_legs(slot);
    const TransferId id = std::exchange(cursor.transfer, none);
    const Transfers::Transfer transfer = state.transfers[id];
    const StoreId before = state.transfers.files().first(movement.file);
    state.transfers.end(world_.simulation, id, how, figures.done);
    if (transfer.spec.target != none && how == Ending::finished) {
        const StoreId target = transfer.spec.target;
        if (transfer.spec.file == none) {
            state.transfers.stores[target].promise(transfer.spec.bytes);
            cursor.held += transfer.spec.bytes;
        } else if (handling().through_local && target == cursor.local && !movement.is_at_home) {
            if (!movement.reads) drop_copies(movement.file, target);
            state.copies[{movement.file, target}] = ++state.copy_uses;
        } else {
            if (before != none && before != target &&
                !state.copies.contains({movement.file, before}))
                state.transfers.remove_file(before, movement.file);
            drop_copies(movement.file, cursor.local);
        }
    }
    const double moved = transfer.moved + figures.done;
    if (transfer.spec.from != transfer.spec.to || !handling().whole_files)
        Clouds(world_).charge_transfer(cursor.machine, movement.store, movement.reads, moved);
    if (!world_.records.recording.placements || (how == Ending::finished && !is_last)) return;
    world_.records.transfers.push_back(
        {world_.executions[slot].task, movement.file, movement.store, world_.label(cursor.machine),
         movement.reads, movement.stages, how == Ending::finished, is_last ? moved : 0.0,
         is_last && cursor.leg == 0 ? transfer.registered : cursor.begun, world_.now()});
}

// The copies of a file that a task has written again are of no use, but for its own.
void Staging::drop_copies(FileId file, StoreId kept) {
    StagingState& state = world_.staging;
    auto at = state.copies.lower_bound({file, 0});
    while (at != state.copies.end() && at->first.file == file) {
        if (at->first.store == kept) {
            ++at;
            continue;
        }
        state.transfers.remove_file(at->first.store, file);
        at = state.copies.erase(at);
    }
}

void Staging::release(std::uint32_t slot) {
    StagingState& state = world_.staging;
    if (slot >= state.cursors.size()) return;
    StagingState::Cursor& cursor = state.cursors[slot];
    if (cursor.held > 0) state.transfers.stores[cursor.local].withdraw_promise(cursor.held);
    cursor.held = 0.0;
    cursor.local = none;
}

void Staging::cancel(std::uint32_t slot) {
    // The client is notified and calls `end`.
    if (is_active(slot)) world_.simulation.cancel(activity(slot));
}

// A paused transfer keeps its streams.
void Staging::pause(std::uint32_t slot) {
    if (is_active(slot)) world_.simulation.suspend(activity(slot));
}

void Staging::resume(std::uint32_t slot) {
    if (is_active(slot)) world_.simulation.resume(activity(slot));
}

bool Staging::is_active(std::uint32_t slot) const {
    const StagingState& state = world_.staging;
    return slot < state.cursors.size() && state.cursors[slot].transfer != none;
}

ActivityId Staging::activity(std::uint32_t slot) const {
    const StagingState& state = world_.staging;
    return state.transfers[state.cursors[slot].transfer].activity;
}

MachineId Staging::host_of(MachineId machine) const {
    if (machine < world_.rented.size() && world_.rented[machine].host != no_machine)
        return world_.rented[machine].host;
    const MachineId host = world_.scheduler.host_of(machine);
    return host == no_machine ? machine : host;
}

const StagingState::AddedNode* Staging::find_added(MachineId host) const {
    const std::size_t known = world_.scenario->machines.size();
    return host < known ? nullptr : &world_.staging.added[host - known];
}

NodeId Staging::node_of(MachineId machine) const {
    const MachineId host = host_of(machine);
    const StagingState::AddedNode* const added = find_added(host);
    return added == nullptr ? NodeId{host} : added->node;
}

StoreId Staging::local_store(MachineId machine) const {
    const MachineId host = host_of(machine);
    const StagingState::AddedNode* const added = find_added(host);
    StoreId store = none;
    if (added != nullptr) store = added->store;
    else if (world_.scenario->network) store = world_.scenario->network->local_store(host);
    return store != none && world_.staging.transfers.stores[store].is_gone ? none : store;
}

void Staging::add_machine(MachineId machine, MachineId like) {
    StagingState& state = world_.staging;
    StagingState::AddedNode mine;
    if (like == no_machine) {
        mine.node = state.transfers.network.add_node(none, none);
    } else {
        mine.node = state.transfers.add_node_like(world_.simulation, node_of(like));
        if (const StoreId store = local_store(like); store != none)
            mine.store = state.transfers.add_store_like(world_.simulation, store, mine.node);
    }
    state.added.resize(machine + std::size_t{1} - world_.scenario->machines.size());
    state.added.back() = mine;
}

bool Staging::reroute(std::uint32_t slot) {
    if (!is_active(slot)) return true;
    StagingState& state = world_.staging;
    const TransferId id = state.cursors[slot].transfer;
    const TransferSpec& old = state.transfers[id].spec;
    const TransferSpec given = spec(slot);
    if (given.from == old.from && given.to == old.to) return true;
    return state.transfers.reroute(world_.simulation, id, given);
}

void Staging::refuse(std::uint32_t slot) {
    cancel(slot);
    world_.staging.cursors[slot].refused = true;
}

}  // namespace twinloop
