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
    state.cursors[slot] = {};
    world_.executions[slot].step = step;
    return next(slot);
}

Staging::Progress Staging::next(std::uint32_t slot) {
    StagingState& state = world_.staging;
    StagingState::Cursor& cursor = state.cursors[slot];
    if (cursor.next == files(slot).size()) return Progress::over;
    const FileId file = files(slot)[cursor.next++];
    cursor.machine = first_machine(slot);
    const bool reads = world_.executions[slot].step == Step::read;
    const StoreId store = find_store(file, reads, cursor.machine);
    if (store == none || (reads && !state.transfers.files().has(file, store))) {
        cursor.refused = true;
        return Progress::refused;
    }
    const TransferSpec given = spec(slot, store);
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

TransferSpec Staging::spec(std::uint32_t slot, StoreId store) const {
    const StagingState& state = world_.staging;
    const StagingState::Cursor& cursor = state.cursors[slot];
    const bool reads = world_.executions[slot].step == Step::read;
    const NodeId here = node_of(cursor.machine);
    const NodeId there = state.transfers.stores.at(store).spec.node;
    TransferSpec spec;
    spec.from = reads ? there : here;
    spec.to = reads ? here : there;
    (reads ? spec.source : spec.target) = store;
    spec.file = files(slot)[cursor.next - 1];
    spec.bytes = world_.scenario->files->files[spec.file].bytes;
    spec.token = (static_cast<std::uint64_t>(slot) << 32 | member) + 1;
    return spec;
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
    if (!saved.transfers) return;
    const TransferSpec given = spec(slot, saved.transfer.store);
    state.cursors[slot].transfer =
        state.transfers.restore(world_.simulation, given, saved.transfer);
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
    const TransferId id = std::exchange(state.cursors[slot].transfer, none);
    const Transfers::Transfer transfer = state.transfers[id];
    const StoreId before = state.transfers.files().first(transfer.spec.file);
    state.transfers.end(world_.simulation, id, how, figures.done);
    // A file is in one store: an older one elsewhere is replaced.
    if (transfer.spec.target != none && how == Ending::finished && before != none &&
        before != transfer.spec.target)
        state.transfers.remove_file(before, transfer.spec.file);
    const bool reads = transfer.spec.source != none;
    const StoreId store = reads ? transfer.spec.source : transfer.spec.target;
    const MachineId machine = state.cursors[slot].machine;
    const double moved = transfer.moved + figures.done;
    Clouds(world_).charge_transfer(machine, store, reads, moved);
    if (!world_.records.recording.placements) return;
    world_.records.transfers.push_back({world_.executions[slot].task, transfer.spec.file, store,
                                        world_.label(machine), reads, how == Ending::finished,
                                        moved, transfer.registered, world_.now()});
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

StoreId Staging::find_store(FileId file, bool reads, MachineId machine) const {
    if (const StoreId store = world_.scenario->files->files[file].store; store != none)
        return store;
    return reads ? world_.staging.transfers.files().first(file) : local_store(machine);
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
    const TransferSpec given = spec(slot, old.source != none ? old.source : old.target);
    if (given.from == old.from && given.to == old.to) return true;
    return state.transfers.reroute(world_.simulation, id, given);
}

void Staging::refuse(std::uint32_t slot) {
    cancel(slot);
    world_.staging.cursors[slot].refused = true;
}

}  // namespace twinloop
