#include "world/staging.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

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
    if (store == none) {
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

TransferSpec Staging::spec(std::uint32_t slot, StoreId store) {
    StagingState& state = world_.staging;
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
        return {state.transfers.save(world_.simulation, transfer).place + 1, 0};
    const Activity& moving = world_.simulation.activity(activity(slot));
    return {0, moving.state == State::waiting ? ~std::uint64_t{0} : moving.tag};
}

bool Staging::is_refused(std::uint32_t slot) const { return world_.staging.cursors[slot].refused; }

void Staging::end(std::uint32_t slot, Ending how, const Final& figures) {
    StagingState& state = world_.staging;
    const TransferId id = std::exchange(state.cursors[slot].transfer, none);
    const Transfers::Transfer transfer = state.transfers[id];
    state.transfers.end(world_.simulation, id, how);
    const bool is_local = world_.scenario->files->files[transfer.spec.file].store == none;
    if (is_local && transfer.spec.target != none && how == Ending::finished)
        set_place(transfer.spec.file, transfer.spec.target);
    if (!world_.records.recording.placements) return;
    const bool reads = transfer.spec.source != none;
    world_.records.transfers.push_back({world_.executions[slot].task, transfer.spec.file,
                                        reads ? transfer.spec.source : transfer.spec.target,
                                        state.cursors[slot].machine, reads, how == Ending::finished,
                                        transfer.moved + figures.done, transfer.registered,
                                        world_.now()});
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
    if (!reads) return world_.scenario->network->local_store(host_of(machine));
    const auto found = world_.staging.places.find(file);
    return found == world_.staging.places.end() ? none : found->second;
}

void Staging::set_place(FileId file, StoreId store) {
    StagingState& state = world_.staging;
    const auto [place, is_new] = state.places.try_emplace(file, store);
    if (is_new || place->second == store) return;
    state.transfers.stores[place->second].remove(file);
    place->second = store;
}

MachineId Staging::host_of(MachineId machine) const {
    const MachineId host = world_.scheduler.host_of(machine);
    return host == no_machine ? machine : host;
}

// Machines that were added in the run have unlimited ports and no store.
NodeId Staging::node_of(MachineId machine) {
    machine = host_of(machine);
    StagingState& state = world_.staging;
    while (state.nodes.size() <= machine)
        state.nodes.push_back(state.transfers.network.add_node(none, none));
    return state.nodes[machine];
}

}  // namespace twinloop
