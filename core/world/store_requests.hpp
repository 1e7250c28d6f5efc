// Requests from outside for the data stores of a run: registration of files and stores, which takes
// no time, and transfers that belong to no task or instance but share the network with theirs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "world/state.hpp"

namespace twinloop {

// A data store that is registered in the run.
struct NewStore {
    std::string name;
    StoreId again = none;            // a store that was deregistered, whose number it gets
    StoreId like = none;             // its node has ports and links as that of this store
    MachineId machine = no_machine;  // it is at the node of this machine
    double send = never;             // bandwidths of the ports of its node otherwise
    double receive = never;
    double capacity = never;
    double read = never;
    double write = never;
    std::uint32_t streams = none;
};

class StoreRequests {
  public:
    explicit StoreRequests(WorldState& world) : world_(world) {}

    // The member of the token of a transfer, beside those of tasks and instances.
    static constexpr std::uint32_t member = 0xfffffff0U;

    // Opens the network of a run whose scenario has none, since it transfers nothing. `names`: of
    // its stores; `like`: of each machine that was added, the machine that it is like, or
    // no_machine.
    void open_network(const NetworkPlan& plan, std::span<const std::string> names,
                      std::span<const MachineId> like);
    [[nodiscard]] bool has_network() const { return world_.has_network(); }

    // The number of a file by its name, which the scenario does not have. none: unknown.
    [[nodiscard]] FileId find_file(const std::string& name) const;
    FileId name_file(const std::string& name);
    // The size that a file has wherever it is; nullopt: it is in no store, and on no way to one.
    [[nodiscard]] std::optional<double> find_size(FileId file) const;

    // All of these throw `std::invalid_argument` with the reason if they are not possible.
    void put_file(StoreId store, FileId file, double bytes);
    // `reading`: also if transfers read it, which then continue.
    void remove_file(StoreId store, FileId file, bool reading);
    // Begins a transfer and returns its number. A file that is in the target already is not
    // transferred.
    std::uint32_t begin(const StoreRequest& given);
    void cancel(std::uint32_t number);
    // The transfer of a request has ended.
    void end(std::uint32_t number, Ending how, const Final& figures);

    StoreId register_store(const NewStore& given);
    // Why a store cannot be deregistered without loss; nullptr if it can be.
    [[nodiscard]] const char* find_use(StoreId store) const;
    // Transfers from it and to it are cancelled: their tasks fail, their instances are refused, as
    // without a route. Its files are lost.
    void deregister_store(StoreId store);

    // waiting for a stream, latency, active, done, cancelled
    enum class Phase : std::uint8_t { waiting, latency, active, done, cancelled };
    [[nodiscard]] Phase phase(std::uint32_t number) const;
    // The bytes of a request that have been moved.
    [[nodiscard]] double moved(std::uint32_t number) const;

    struct NodeUse {
        double sent = 0.0;      // bytes so far
        double received = 0.0;  // bytes so far
        double sending = 0.0;   // bytes per second
        double receiving = 0.0;
        std::uint32_t transfers = 0;  // in progress
    };
    // By node of the network.
    [[nodiscard]] std::vector<NodeUse> node_use() const;

  private:
    [[nodiscard]] TransferSpec make_spec(const StoreRequest& given, std::uint32_t number) const;
    [[nodiscard]] std::vector<TransferId> transfers_of(StoreId store) const;
    [[nodiscard]] std::size_t file_count() const;
    void check_present(StoreId store) const;

    WorldState& world_;
};

}  // namespace twinloop
