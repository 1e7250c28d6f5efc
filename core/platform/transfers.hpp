// Transfers between nodes and stores over the network. A transfer is one activity of the kernel: it
// waits for a stream of its stores, then for the latency of its route, holding no bandwidth, and
// then draws on all ports, links and stores on its way at one rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/simulation.hpp"
#include "platform/data_store.hpp"
#include "platform/network.hpp"

namespace twinloop {

struct TransferSpec {
    NodeId from = none;
    NodeId to = none;
    StoreId source = none;  // a store of `from` that is read
    StoreId target = none;  // a store of `to` that is written
    FileId file = none;     // its name in the target; none: the bytes are not kept
    FileId content = none;  // the file in page caches; none: as `file`
    double bytes = 0.0;
    double limit = never;
    double weight = 1.0;
    std::uint64_t token = 0;  // of the activity
};

// All that a transfer needs to go on in another run.
struct SavedTransfer {
    double latency = 0.0;
    double registered = 0.0;
    double start = never;     // after the latency; infinite: it waits for a stream
    double left = 0.0;        // bytes
    StoreId store = none;     // its source, or else its target
    std::uint32_t place = 0;  // in the queue of its store, if it waits
};

class Transfers {
  public:
    Network network;
    std::vector<DataStore> stores;
    ResourceId unlimited = none;  // for transfers that nothing else bounds
    // Whether a bandwidth that only one transfer uses is a limit of this transfer, in place of a
    // resource: transfers from one store to many hosts are then equal flows (`core/README.md`).
    // For networks whose bandwidths do not change.
    bool has_private_limits = false;

    // The files of all stores. A file that exists in the store is replaced.
    [[nodiscard]] const FilePlaces& files() const { return files_; }
    void put_file(StoreId store, FileId file, double bytes);
    void remove_file(StoreId store, FileId file);
    // Throws `std::invalid_argument` if the store has no space for that many bytes.
    void check_space(StoreId store, double bytes) const;
    void reserve_files(std::size_t files) { files_.reserve(files); }

    // A node with ports and links of its own, with the bandwidths and latencies of another one.
    [[nodiscard]] NodeId add_node_like(Simulation& simulation, NodeId like);
    // A store without files at a node, with the capacity, bandwidths and streams of another one.
    [[nodiscard]] StoreId add_store_like(Simulation& simulation, StoreId like, NodeId node);

    // Registers a transfer. Throws `std::invalid_argument` if there is no route or no space.
    TransferId begin(Simulation& simulation, const TransferSpec& spec);
    // The identifier that the next transfer will have.
    [[nodiscard]] TransferId next_id() const {
        return free_.empty() ? static_cast<TransferId>(slots_.size()) : free_.back();
    }
    // A transfer, to go on in another run, and in that run. Transfers that wait for a stream of a
    // store are restored in the order of its queue.
    [[nodiscard]] SavedTransfer save(const Simulation& simulation, TransferId transfer) const;
    TransferId restore(Simulation& simulation, const TransferSpec& spec,
                       const SavedTransfer& saved);
    // The ends of a transfer in progress have changed: what is left of it moves between the nodes
    // of `spec`, which has the same stores. It keeps its stream and its latency. False if there is
    // no route: nothing has changed.
    [[nodiscard]] bool reroute(Simulation& simulation, TransferId transfer,
                               const TransferSpec& spec);
    // The activity of a transfer has ended: gives back its streams and its promise, stores the file
    // if it has finished, and lets transfers that waited begin. `done`: bytes that a cancelled one
    // has moved in this run.
    void end(Simulation& simulation, TransferId transfer, Ending how, double done = 0.0);

    struct Transfer {
        TransferSpec spec;
        ActivityId activity;
        double latency = 0.0;  // read at the registration
        double registered = 0.0;
        bool waits = false;  // for a stream
        bool used = false;
        ResourceId read = none;  // bandwidth of the reads of its source
        double moved = 0.0;      // bytes, before the present run
        double counted = 0.0;    // bytes, before the present run or of an earlier route
    };
    [[nodiscard]] const Transfer& operator[](TransferId id) const { return slots_[id]; }
    [[nodiscard]] std::size_t live() const { return slots_.size() - free_.size(); }
    // The number of slots: those of the transfers in progress are `used`.
    [[nodiscard]] std::size_t slots() const { return slots_.size(); }

    // The bytes that a node has sent to other nodes and received from them in this run.
    struct Traffic {
        double sent = 0.0;
        double received = 0.0;
    };
    // By node, with the transfers in progress.
    [[nodiscard]] std::vector<Traffic> traffic(const Simulation& simulation) const;
    // The bytes of a node that no transfer uses any more are counted for another one.
    void pass_traffic(NodeId from, NodeId to);

  private:
    [[nodiscard]] TransferId open(const TransferSpec& spec, double latency, double registered);
    // The transfers that use a bandwidth, also those that wait.
    struct Use {
        std::uint32_t count = 0;
        TransferId alone = none;  // whose limit it is
    };
    // All resources on the way of a transfer. Valid until the next call.
    [[nodiscard]] std::span<const ResourceId> find_route(TransferId id);
    // The limit of a transfer: that of its bandwidths of which it is the only user.
    [[nodiscard]] double find_limit(const Simulation& simulation, TransferId id);
    // The others of its resources. Valid until the next call.
    [[nodiscard]] std::span<const ResourceId> find_shared_route(TransferId id);
    // A transfer begins to use its bandwidths, or ends.
    void join(Simulation& simulation, TransferId id);
    void leave(TransferId id);
    void launch(Simulation& simulation, TransferId id, double start, double bytes);
    [[nodiscard]] bool may_begin(TransferId id) const;
    void take_streams(TransferId id);
    void admit(Simulation& simulation, StoreId store);
    // The file that page caches know.
    [[nodiscard]] static FileId content_of(const TransferSpec& spec) {
        return spec.content != none ? spec.content : spec.file;
    }
    // The bandwidth of the reads of the source: of its page cache, or of its disk.
    [[nodiscard]] ResourceId read_bandwidth(const TransferSpec& spec) const;
    static void count(std::vector<Traffic>& traffic, const TransferSpec& spec, double bytes);

    FilePlaces files_;
    std::vector<Transfer> slots_;
    std::vector<TransferId> free_;
    std::vector<ResourceId> route_;  // reused
    // Where limits are private: the bandwidths of each transfer in progress, and their uses.
    std::vector<Route> routes_;
    std::vector<Use> uses_;         // by resource
    std::vector<Traffic> traffic_;  // by node, up to the last one with any; of past routes
};

}  // namespace twinloop
