// The lower bound of the benchmark of clouds: one instance for each task, and nothing else.
//
// First fit with a blocking queue; images that share the port of one store, then a boot of constant
// length, then the task. No limits, tables, meters, failures or errors: a heap of ends and three
// queues are the least that a simulation of this work must maintain. All images are of one size and
// no port of a host is slower than that of the store, so transfers end in the order in which they
// begin. Tasks must be sorted by submission.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Cloud {
    struct Host {
        double cores;
        double memory;
    };
    using End = std::pair<double, std::int64_t>;  // of a task

    const double* submit;
    const double* cores;
    const double* memory;
    const double* run_time;
    double bandwidth;
    double latency;
    double image;
    double boot;
    std::vector<Host> hosts;
    std::vector<std::uint32_t> host_of;
    std::deque<std::int64_t> waiting;
    std::deque<End> latent;     // ends of latencies
    std::deque<End> transfers;  // virtual finish times
    std::priority_queue<End, std::vector<End>, std::greater<>> running;
    double now = 0.0;
    double served = 0.0;  // virtual time: bytes given to each transfer so far

    bool place(std::int64_t task) {
        for (std::size_t at = 0; at < hosts.size(); ++at) {
            if (hosts[at].cores < cores[task] || hosts[at].memory < memory[task]) continue;
            hosts[at].cores -= cores[task];
            hosts[at].memory -= memory[task];
            host_of[static_cast<std::size_t>(task)] = static_cast<std::uint32_t>(at);
            latent.emplace_back(now + latency, task);
            return true;
        }
        return false;
    }
    void serve() {
        while (!waiting.empty() && place(waiting.front())) waiting.pop_front();
    }
    void advance(double time) {
        if (!transfers.empty())
            served += (time - now) * bandwidth / static_cast<double>(transfers.size());
        now = time;
    }
    void begin_transfer() {
        // Rebased when idle: otherwise the virtual time loses digits over a long run.
        if (transfers.empty()) served = 0.0;
        transfers.emplace_back(served + image, latent.front().second);
        latent.pop_front();
    }
    void end_transfer() {
        const std::int64_t task = transfers.front().second;
        served = transfers.front().first;
        transfers.pop_front();
        running.emplace(now + boot + run_time[task], task);
    }
    std::int64_t end_task() {
        const std::int64_t task = running.top().second;
        running.pop();
        Host& host = hosts[host_of[static_cast<std::size_t>(task)]];
        host.cores += cores[task];
        host.memory += memory[task];
        return task;
    }
    [[nodiscard]] double transfer_end() const {
        return transfers.empty() ? never
                                 : now + (transfers.front().first - served) *
                                             static_cast<double>(transfers.size()) / bandwidth;
    }
};

}  // namespace

extern "C" void limit_clouds(std::int64_t count, const double* submit, const double* cores,
                             const double* memory, const double* run_time, std::int64_t hosts,
                             double host_cores, double host_memory, double bandwidth,
                             double latency, double image, double boot, double* finish) {
    Cloud cloud{submit, cores, memory, run_time, bandwidth, latency, image,
                boot,   {},    {},     {},       {},        {},      {}};
    cloud.hosts.assign(static_cast<std::size_t>(hosts), {host_cores, host_memory});
    cloud.host_of.resize(static_cast<std::size_t>(count));
    std::int64_t next = 0;
    std::int64_t left = count;
    while (left > 0) {
        const double arrival = next < count ? submit[next] : never;
        const double latent = cloud.latent.empty() ? never : cloud.latent.front().first;
        const double moved = cloud.transfer_end();
        const double ended = cloud.running.empty() ? never : cloud.running.top().first;
        if (ended <= arrival && ended <= latent && ended <= moved) {
            cloud.advance(ended);
            finish[cloud.end_task()] = ended;
            --left;
            cloud.serve();
        } else if (moved <= arrival && moved <= latent) {
            cloud.advance(moved);
            cloud.end_transfer();
        } else if (latent <= arrival) {
            cloud.advance(latent);
            cloud.begin_transfer();
        } else if (arrival < never) {
            cloud.advance(arrival);
            cloud.waiting.push_back(next++);
            cloud.serve();
        } else {
            return;  // a task is larger than every host
        }
    }
}
