// The clouds of a scenario: constant, shared by its runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernel/measure.hpp"
#include "platform/data_store.hpp"
#include "platform/instance_prices.hpp"
#include "platform/machine.hpp"

namespace twinloop {

enum class Caching : std::uint8_t { none, first_use, pre_staged };

// What an instance is started from: a file that is transferred to its host, and work of its boot.
struct ImagePlan {
    FileId file = none;  // none: nothing is transferred
    double bytes = 0.0;
    StoreId store = none;
    Caching caching = Caching::none;
    double delay = 0.0;        // before the work of the boot (s)
    double work = 0.0;         // core-seconds
    double limit = 1.0;        // cores that the work can use
    double per_booting = 0.0;  // more delay for each instance that boots, itself included (s)
    // Equally likely factors of the delay, and additional times of a share of the boots (s).
    std::vector<double> factors;
    std::vector<double> slow_times;
    double slow_share = 0.0;
    double failed_share = 0.0;   // of the boots: the instance is lost at the end of its delay
    double refused_share = 0.0;  // of the requests

    [[nodiscard]] bool is_random() const {
        return !factors.empty() || slow_share > 0 || failed_share > 0;
    }
};

struct InstanceType {
    bool fits_task = false;  // as large as the request of the task that it is rented for
    double cores = 1.0;
    double memory = 0.0;  // bytes
    double price = 0.0;   // of a unit of time
};

// The copy of the memory of an instance to another host.
struct MigrationPlan {
    bool live = true;         // pre-copy in rounds; otherwise the instance is stopped meanwhile
    double dirty_rate = 0.0;  // bytes per second that a running instance changes
    std::uint32_t rounds = 30;
    double threshold = 0.0;  // bytes that are left when the instance is stopped
    double bandwidth = never;
};

// The requests of the client and the answers of the provider, as messages over the network.
struct MessagePlan {
    std::uint32_t client = none;  // node; none: requests and answers take no time
    std::uint32_t controller = none;
    double request = 0.0;  // bytes of a request
    double reply =
        std::numeric_limits<double>::quiet_NaN();  // bytes of an answer; NaN: answers take no time

    [[nodiscard]] bool used() const { return client != none; }
    [[nodiscard]] bool has_answers() const { return used() && !std::isnan(reply); }
};

struct CloudPlan {
    std::vector<MachineId> hosts;  // in the order of their numbers in the scheduler of the cloud
    std::vector<ImagePlan> images;
    std::vector<InstanceType> types;
    std::uint32_t max_instances = ~0U;  // at once, of one client
    double max_cores = never;
    double max_memory = never;
    double decision_delay = 0.0;    // between a request and its queue (s)
    double inter_boot_delay = 0.0;  // at least, between two starts (s)
    bool hosts_begin_off = false;
    MigrationPlan migration;
    StoreId memory_store = none;    // of suspended instances; none: suspension takes no time
    bool suspends_locally = false;  // in the store of the host instead
    MessagePlan messages;
    BillingPlan billing;
    std::uint64_t seed = 0;  // of random boots and refusals
    // Recorded boots (s), in place of those of the images, see `Rental::boot_record`.
    std::vector<double> boot_times;
    double typical_boot = std::numeric_limits<double>::quiet_NaN();  // of instances beyond these
};

using CloudPlans = std::vector<CloudPlan>;

// What a client orders when it rents an instance.
struct Rental {
    std::uint16_t cloud = 0;
    std::uint16_t type = 0;
    std::uint16_t image = 0;
    double cores = 0.0;
    double memory = 0.0;
    double seconds = never;  // for which it will be used; infinite: not known
    std::int32_t user = -1;
    std::uint32_t boot_record = none;  // index of its recorded boot
    // Its boot (s), if none is recorded; NaN: that of the image.
    double boot_time = std::numeric_limits<double>::quiet_NaN();
    // The highest price of a unit at which it runs, for an instance at spot prices; NaN: it is none
    double bid = std::numeric_limits<double>::quiet_NaN();

    [[nodiscard]] bool is_spot() const { return !std::isnan(bid); }
};

// What happens to a rented instance, as its client sees it. Found: an earlier client has rented it.
// Outbid: the spot price was above its bid before it had a host. Interrupted: afterwards.
enum class RentalEvent : std::uint8_t { ready, refused, lost, ended, found, outbid, interrupted };

}  // namespace twinloop
