// Read and write steps: the transfers of the files of a task between their stores and the first
// machine of the task, one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "world/state.hpp"

namespace twinloop {

class Staging {
  public:
    explicit Staging(WorldState& world) : world_(world) {}

    // The member of the token of a transfer, beside those of the activities on machines.
    static constexpr std::uint32_t member = 0xfffffffeU;

    enum class Progress : std::uint8_t { begun, over, refused };
    // Begins the transfer of the first file of a step, or of the next one.
    [[nodiscard]] Progress begin(std::uint32_t slot, Step step);
    [[nodiscard]] Progress next(std::uint32_t slot);
    // Whether the store of the present file had no space, there is no route to it, or there is no
    // such store: the machine has none, or the file has not been written.
    [[nodiscard]] bool is_refused(std::uint32_t slot) const;
    // The transfer of an execution has ended.
    void end(std::uint32_t slot, Ending how, const Final& figures);
    // The transfer of an execution, to go on in another run, and in that run.
    void save(std::uint32_t slot, SavedExecution& saved) const;
    void restore(std::uint32_t slot, const SavedExecution& saved);
    // The order in which transfers are to be restored: first flows, in the order of their starts;
    // then transfers in their latency, in the order of their starts if these are simultaneous; then
    // waiting transfers, in the order of the queue of their store.
    [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> order(std::uint32_t slot) const;
    // A machine that was added in the run: it has ports, links and a store of its own, equal to
    // those of `like`; no_machine: unlimited ports, no links and no store.
    void add_machine(MachineId machine, MachineId like);
    // The machine of the execution has moved to another host: what is left of the transfer in
    // progress takes the route to that host. False if there is none; `refuse` then follows.
    [[nodiscard]] bool reroute(std::uint32_t slot);
    void refuse(std::uint32_t slot);
    // The node and the local store (or none) of a machine, or of the host of an instance.
    [[nodiscard]] NodeId node_of(MachineId machine) const;
    [[nodiscard]] StoreId local_store(MachineId machine) const;
    // The execution has ended: the space that it holds in the store of its host is free again.
    void release(std::uint32_t slot);
    // Act on the transfer in progress, if there is one.
    void cancel(std::uint32_t slot);
    void pause(std::uint32_t slot);
    void resume(std::uint32_t slot);

  private:
    [[nodiscard]] bool is_active(std::uint32_t slot) const;
    [[nodiscard]] ActivityId activity(std::uint32_t slot) const;
    // The machine itself, or the host of an instance, whose ports and store it uses.
    [[nodiscard]] MachineId host_of(MachineId machine) const;
    [[nodiscard]] const StagingState::AddedNode* find_added(MachineId host) const;
    [[nodiscard]] const FileTable::Handling& handling() const;
    // The files of the present step.
    [[nodiscard]] std::span<const FileId> files(std::uint32_t slot) const;
    [[nodiscard]] MachineId first_machine(std::uint32_t slot) const;
    // A movement of a file in a step: between its store and the task, or, where files pass through
    // the store of the host, between that store and the task, or between both stores (`stages`).
    struct Movement {
        FileId file = none;
        StoreId store = none;  // of the file, if it is staged; otherwise the one that is used
        bool reads = false;    // towards the task
        bool stages = false;
        bool is_at_home = false;  // the store of the host is that of the file
    };
    [[nodiscard]] std::size_t count_movements(std::uint32_t slot) const;
    [[nodiscard]] Movement movement(std::uint32_t slot) const;
    [[nodiscard]] StoreId find_home(std::uint32_t slot) const;
    [[nodiscard]] bool is_needed(std::uint32_t slot);
    // A movement is one transfer, or several if whole files are read, sent and written: its legs.
    [[nodiscard]] std::uint32_t count_legs(std::uint32_t slot) const;
    [[nodiscard]] Progress begin_transfer(std::uint32_t slot);
    [[nodiscard]] TransferSpec whole_spec(std::uint32_t slot) const;
    // The transfer of the present leg.
    [[nodiscard]] TransferSpec spec(std::uint32_t slot) const;
    void make_room(StoreId store, double bytes);
    [[nodiscard]] bool is_in_use(const StagingState::Copy& copy) const;
    void drop_copies(FileId file, StoreId kept);

    WorldState& world_;
};

}  // namespace twinloop
