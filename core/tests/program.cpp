#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "kernel/recorder.hpp"
#include "kernel/simulation.hpp"

namespace {

using namespace twinloop;

class AmountBytes final : public Bytes {
  public:
    using Bytes::Bytes;

    // Few distinct values, so that ties are common; sometimes an unusual or invalid one, unless
    // amounts are moderate: within the range of a compensated sum.
    double amount() {
        const double value = any_amount();
        return moderate && (value > 1e12 || (value > 0.0 && value < 1e-12)) ? 1.0 : value;
    }

    bool moderate = false;

  private:
    double any_amount() {
        static constexpr double values[] = {
            0.0,  1.0,   2.0, 3.0,  4.0,   0.5,  10.0,  1e-3, 1e6,  7.25, 100.0, 0.1,
            1e12, 1e-12, 1.5, 33.0, 1e100, -1.0, 1e-90, 5.0,  1e50, 6.0,  8.0,   9.0,
        };
        const std::uint8_t code = byte();
        if (code < 200) return values[code % std::size(values)];
        if (code == 200) return std::numeric_limits<double>::quiet_NaN();
        if (code == 201) return std::numeric_limits<double>::infinity();
        return static_cast<double>(code) / 16.0 + static_cast<double>(byte());
    }
};

// Records its notifications; sometimes starts an activity, or throws.
class LoggingClient final : public Client {
  public:
    explicit LoggingClient(Simulation& simulation) : simulation_(simulation) {}
    void fired(std::uint64_t token, bool) override {
        log.push_back({simulation_.now(), token, 0.0});
        if (token % 7 == 3) throw std::runtime_error("a callback fails");
    }
    void dropped(std::uint64_t token) override { log.push_back({-1.0, token, 0.0}); }
    double feed(std::uint64_t) override { return never; }
    void ended(std::uint64_t token, Ending how, const Final& figures) override {
        require(figures.remaining >= 0.0, "the remaining work is not negative");
        if (how == Ending::finished)
            require(figures.remaining == 0.0, "a finished activity has no remaining work");
        log.push_back({simulation_.now(), token, figures.consumed});
        charges[token] = figures.cost;
        if (respawn > 0 && how == Ending::finished) {
            --respawn;
            ActivitySpec spec;
            spec.work = 1.0;
            spec.token = ++last_token;
            const ResourceId route[] = {
                static_cast<ResourceId>(token % simulation_.resource_count())};
            simulation_.start(spec, route);
        }
    }

    struct Line {
        double time;
        std::uint64_t token;
        double figure;
        bool operator==(const Line&) const = default;
    };
    std::vector<Line> log;
    std::map<std::uint64_t, double> charges;  // of ended activities
    std::uint64_t last_token = 0;
    int respawn = 0;

  private:
    Simulation& simulation_;
};

[[nodiscard]] bool is_open_lease(const Simulation& simulation, ResourceId id) {
    if (!simulation.is_lease(id)) return false;
    try {
        (void)simulation.lease(id);
    } catch (const std::invalid_argument&) {
        return false;  // it has been released
    }
    return true;
}

// The resources that limit an activity: its route, and the host of its lease.
std::vector<ResourceId> used_by(const Simulation& simulation, const Activity& activity) {
    const auto route = activity.route.view();
    std::vector<ResourceId> all(route.begin(), route.end());
    if (simulation.is_lease(all.front())) all.push_back(simulation.lease(all.front()).host);
    return all;
}

[[nodiscard]] bool is_suspended(const Simulation& simulation, const Activity& activity) {
    const ResourceId first = activity.route.front();
    return simulation.is_lease(first) && simulation.lease(first).suspended;
}

void check_rates(Simulation& simulation) {
    std::vector<double> drawn(simulation.resource_count());
    for (const ActivityId id : simulation.activities()) {
        const double rate = simulation.rate(id);
        const Activity& activity = simulation.activity(id);
        require(rate >= 0.0 && std::isfinite(rate), "a rate is finite and not negative");
        require(rate <= activity.limit * (1 + 1e-12), "no rate exceeds its limit");
        require(rate == 0.0 || !is_suspended(simulation, activity),
                "a suspended lease has no rate");
        require(simulation.remaining(id) >= 0.0, "the remaining work is not negative");
        for (const ResourceId resource : used_by(simulation, activity)) drawn[resource] += rate;
    }
    for (ResourceId id = 0; id < simulation.resource_count(); ++id) {
        if (simulation.is_lease(id) && !is_open_lease(simulation, id)) continue;
        require(drawn[id] <= simulation.capacity(id) * (1 + 1e-9), "no capacity is exceeded");
        require(near(drawn[id], simulation.rate(id), 0.0),
                "the rate of a resource is the sum of the rates of its activities");
    }
    for (const ActivityId id : simulation.activities()) {
        const Activity& activity = simulation.activity(id);
        if (activity.state != State::running || activity.limit == 0.0) continue;
        bool bounded = simulation.rate(id) >= activity.limit * (1 - 1e-9) ||
                       is_suspended(simulation, activity);
        for (const ResourceId resource : used_by(simulation, activity))
            bounded = bounded || drawn[resource] >= simulation.capacity(resource) * (1 - 1e-9);
        require(bounded, "a running activity is bounded by its limit or by a full resource");
    }
}

// Max-min sharing of resources that no flow couples: a consumer below its own bound has the highest
// rate per weight. The consumers of a host are its activities and its leases.
class Fairness {
  public:
    explicit Fairness(Simulation& simulation) {
        std::map<ResourceId, Share> leases;
        for (const ActivityId id : simulation.activities()) {
            const Activity& activity = simulation.activity(id);
            const ResourceId on = activity.route.front();
            if (activity.state != State::running || activity.limit == 0.0) continue;
            if (activity.route.view().size() > 1 || simulation.has_group(on)) continue;
            const double rate = simulation.rate(id);
            const bool is_free = rate < activity.limit * (1 - 1e-6);
            shares_[on].push_back({rate, activity.weight, is_free});
            if (!simulation.is_lease(on) || simulation.lease(on).suspended) continue;
            leases[on].rate += rate;
            leases[on].is_free = leases[on].is_free || is_free;
        }
        for (auto& [id, share] : leases) {
            const Lease& lease = simulation.lease(id);
            share.weight = lease.weight;
            share.is_free = share.is_free && share.rate < lease.size * (1 - 1e-6);
            shares_[lease.host].push_back(share);
        }
    }
    void check() const {
        for (const auto& [id, shares] : shares_) {
            double level = 0.0;
            for (const Share& each : shares) level = std::max(level, each.rate / each.weight);
            for (const Share& each : shares)
                require(!each.is_free || each.rate / each.weight >= level * (1 - 1e-6),
                        "a consumer below its bound has at least the level of the others");
        }
    }

  private:
    struct Share {
        double rate = 0.0;
        double weight = 1.0;
        bool is_free = false;
    };
    std::map<ResourceId, std::vector<Share>> shares_;
};

// An efficiency that sometimes throws, as a user function may.
class ThrowingEfficiency final : public Efficiency {
  public:
    void evaluate(const Presence&, std::span<KindPresence> present) const override {
        for (KindPresence& each : present) {
            if (each.running == 5) throw std::runtime_error("an efficiency function fails");
            each.efficiency = each.kind == 2 ? 0.0 : 1.0 / each.running;
        }
    }
};

class LoadEfficiency final : public Efficiency {
  public:
    void evaluate(const Presence& where, std::span<KindPresence> present) const override {
        std::uint32_t running = 0;
        for (KindPresence& each : present) {
            running += each.running;
            each.efficiency = where.demand > where.capacity ? where.capacity / where.demand : 1.0;
        }
        require(running == where.running && running > 0, "the kinds present add up");
    }
};

std::shared_ptr<const Efficiency> some_efficiency(std::size_t choice) {
    static const auto table = std::make_shared<EfficiencyTable>(
        std::map<Kind, std::vector<double>>{{0, {1.0, 0.9, 0.5}}, {1, {1.0, 1.0, 2.0}}});
    static const auto throwing = std::make_shared<ThrowingEfficiency>();
    static const auto by_load = std::make_shared<LoadEfficiency>();
    if (choice == 0) return table;
    if (choice == 1) return throwing;
    if (choice == 2) return by_load;
    return nullptr;
}

class SomeCost final : public CostModel {
  public:
    SomeCost(double idle, double slope) : idle_(idle), slope_(slope) {}
    [[nodiscard]] double rate(double used, double capacity) const override {
        return idle_ + slope_ * (capacity > 0.0 ? std::min(used / capacity, 1.0) : 0.0);
    }

  private:
    double idle_;
    double slope_;
};

// The slow way to integrate costs: all rates are read before every event.
class CostMeter {
  public:
    explicit CostMeter(Simulation& simulation) : simulation_(simulation) {}

    void set_model(ResourceId id, std::shared_ptr<const CostModel> model) { models[id] = model; }

    template <class Advance>
    void advance(Advance&& advance) {
        (void)simulation_.next_time();  // settles
        const double before = simulation_.now();
        std::map<ResourceId, double> rates;
        for (const auto& [id, model] : models)
            if (model) rates[id] = model->rate(simulation_.rate(id), simulation_.capacity(id));
        std::map<std::uint64_t, double> shares;
        for (const ActivityId id : simulation_.activities())
            for (const ResourceId resource : used_by(simulation_, simulation_.activity(id)))
                if (simulation_.rate(resource) >= smallest && rates.contains(resource))
                    shares[simulation_.token(id.slot)] +=
                        rates[resource] * simulation_.rate(id) / simulation_.rate(resource);
        std::map<ResourceId, double> used;
        for (const ActivityId id : simulation_.activities())
            for (const ResourceId each : used_by(simulation_, simulation_.activity(id)))
                used[each] += simulation_.rate(id);
        double level = 0.0;
        for (ResourceId id = 0; id < simulation_.resource_count(); ++id) {
            if (is_open_lease(simulation_, id))
                heaviest = std::max(heaviest, simulation_.lease(id).weight);
            else if (!simulation_.is_lease(id) && simulation_.level(id) < never)
                level = std::max(level, simulation_.level(id));
        }
        const auto integrate = [&] {
            const double elapsed = simulation_.now() - before;
            levels += elapsed * level;
            for (const auto& [id, rate] : used) consumed[id] += elapsed * rate;
            for (const auto& [id, rate] : rates) costs[id] += elapsed * rate;
            for (const auto& [token, share] : shares) charges[token] += elapsed * share;
        };
        try {
            advance();
        } catch (...) {
            integrate();
            throw;
        }
        integrate();
    }

    std::map<ResourceId, std::shared_ptr<const CostModel>> models;
    std::map<ResourceId, double> costs;
    std::map<ResourceId, double> consumed;
    double levels = 0.0;                      // integral of the highest level of a resource
    double heaviest = 0.0;                    // weight of a lease
    std::map<std::uint64_t, double> charges;  // by token

  private:
    Simulation& simulation_;
};

class Machine {
  public:
    explicit Machine(AmountBytes& bytes)
        : bytes_(bytes),
          simulation_(0.0, sharing_rule(bytes.below(4) ? "max-min" : "strict-priority")),
          client_(simulation_), meter_(simulation_) {
        bytes.moderate = metered_ = bytes.below(2) == 0;
        simulation_.set_client(&client_);
        client_.respawn = static_cast<int>(bytes.below(20));
        const std::size_t resources = 1 + bytes.below(6);
        for (std::size_t i = 0; i < resources; ++i)
            simulation_.add_resource(static_cast<double>(bytes.below(5)),
                                     some_efficiency(bytes.below(8)));
        if (bytes.below(2)) simulation_.add_observer(&recorder_);
    }

    void operate() {
        const double before = simulation_.now();
        try {
            apply();
        } catch (const std::invalid_argument&) {
            // rejected: the state is unchanged
        } catch (const std::runtime_error&) {
            // a callback threw, or the activity had ended: the simulation continues
        }
        require(simulation_.now() >= before, "time does not decrease");
    }

    void finish() {
        drain(simulation_, client_);
        for (const auto& each : simulation_.activities()) {
            require(simulation_.alive(each), "a listed activity is alive");
            simulation_.cancel(each);
        }
        for (const ResourceId id : leases_)
            if (is_open_lease(simulation_, id)) simulation_.release_lease(id);
        require(simulation_.live() == 0, "no activity is left");
        for (ResourceId id = 0; id < simulation_.resource_count(); ++id) {
            if (simulation_.is_lease(id)) continue;
            require(simulation_.leases_on(id).empty(), "no lease is left");
            require(simulation_.running(id) == 0 && simulation_.rate(id) == 0.0,
                    "a resource without activities is not used");
        }
    }

  private:
    // Runs to the end, or up to a maximum number of steps.
    static void drain(Simulation& simulation, LoggingClient& client) {
        client.respawn = 0;
        double last = simulation.now();
        for (int count = 0; count < 800; ++count) {
            try {
                if (!simulation.step()) {
                    const auto stalled = simulation.stalled();
                    require(stalled.size() == simulation.live(),
                            "all activities left without a next event are stalled");
                    return;
                }
            } catch (const std::runtime_error&) {
            }
            require(simulation.now() >= last, "time does not decrease");
            last = simulation.now();
        }
    }

    void apply() {
        switch (bytes_.below(24)) {
            case 0:
            case 1:
            case 2:
            case 3:
                start();
                break;
            case 4:
                simulation_.suspend(some_activity());
                break;
            case 5:
                simulation_.resume(some_activity());
                break;
            case 6:
                simulation_.cancel(some_activity());
                break;
            case 7:
                simulation_.set_limit(some_activity(), bytes_.amount());
                break;
            case 8:
                simulation_.set_weight(some_activity(), bytes_.amount());
                break;
            case 9:
                simulation_.set_remaining(some_activity(), bytes_.amount());
                break;
            case 10: {
                const ActivityId id = some_activity();
                simulation_.move(id, some_route());
                break;
            }
            case 11: {
                const ResourceId id = some_resource();
                simulation_.set_capacity(id, bytes_.amount());
                break;
            }
            case 12: {
                // Bounded: a small period may put any number of events before `time`.
                const double time = simulation_.now() + bytes_.amount();
                int count = 0;
                while (count < 500 && step(time)) ++count;
                if (count < 500) meter_.advance([&] { simulation_.run_until(time); });
                break;
            }
            case 13:
                step(never);
                break;
            case 14:
                check_rates(simulation_);
                if (bytes_.moderate) Fairness(simulation_).check();
                if (metered_) check_costs();
                break;
            case 15: {
                const ResourceId id = some_resource();
                const double first = simulation_.now() + bytes_.amount();
                const double then = first + bytes_.amount();
                const double period = bytes_.below(2) ? never : bytes_.amount();
                profiled_ = true;
                simulation_.set_profile(id, {first, then}, {bytes_.amount(), bytes_.amount()},
                                        period);
                break;
            }
            case 16: {
                const double time = simulation_.now() + bytes_.amount();
                if (bytes_.below(2)) {
                    simulation_.schedule(time, bytes_.byte());
                } else {
                    simulation_.schedule_every(time, bytes_.amount(), bytes_.below(9),
                                               bytes_.byte());
                }
                break;
            }
            case 17: {
                const ResourceId id = some_resource();
                const auto group = simulation_.influence_group(id);
                require(std::ranges::find(group, id) != group.end(),
                        "a resource is in its own influence group");
                break;
            }
            case 18:
                if (bytes_.below(2)) {
                    copy();
                } else {
                    const double time = simulation_.now() + bytes_.amount();
                    if (bytes_.below(2) && !profiled_) {
                        metered_ = false;  // it may process any number of events
                        simulation_.skip(time);
                    } else {
                        meter_.advance([&] { simulation_.jump(time); });
                    }
                }
                break;
            case 19: {
                static constexpr double rates[] = {0.0, 1.0, 0.25, 30.0};
                const ResourceId id = some_resource();
                const double idle = rates[bytes_.below(4)];
                const auto model = bytes_.below(4)
                                       ? std::make_shared<SomeCost>(idle, rates[bytes_.below(4)])
                                       : nullptr;
                simulation_.set_cost_model(id, model);
                meter_.set_model(id, model);
                break;
            }
            case 20:
            case 21:
            case 22:
            case 23:
                change_lease();
                break;
        }
    }

    void change_lease() {
        switch (bytes_.below(8)) {
            case 0:
            case 1:
            case 2: {
                const ResourceId host = some_resource();
                const double size = bytes_.amount();
                // As any program must: the weight of a lease, or 0 for its size.
                const double weight = bytes_.below(3) ? 0.0 : bytes_.amount();
                if (host == simulation_.resource_count()) break;
                leases_.push_back(simulation_.add_lease(host, size, weight));
                meter_.consumed[leases_.back()] = 0.0;  // the id may be that of a released one
                break;
            }
            case 3: {
                const ResourceId lease = some_lease();
                simulation_.set_capacity(lease, bytes_.amount());
                break;
            }
            case 4: {
                const ResourceId lease = some_lease();
                simulation_.set_lease_weight(lease, bytes_.amount());
                break;
            }
            case 5: {
                const ResourceId lease = some_lease();
                if (bytes_.below(2)) simulation_.suspend_lease(lease);
                else simulation_.resume_lease(lease);
                break;
            }
            case 6: {
                const ResourceId lease = some_lease();
                const ResourceId host = some_resource();
                if (host == simulation_.resource_count()) break;
                simulation_.move_lease(lease, host);
                break;
            }
            default:
                if (bytes_.below(2)) simulation_.release_lease(some_lease());
                break;
        }
    }

    bool step(double before) {
        bool stepped = false;
        meter_.advance([&] { stepped = simulation_.step(before); });
        return stepped;
    }

    void check_costs() {
        for (const auto& [id, consumed] : meter_.consumed) {
            if (simulation_.is_lease(id) && !is_open_lease(simulation_, id)) continue;
            // Of a lease it is weight x integral of the level, with the rounding of that integral.
            const double scale =
                simulation_.is_lease(id) ? 1e-6 * meter_.heaviest * meter_.levels : 0.0;
            require(near(simulation_.consumed(id), consumed, std::max(1.0, scale)),
                    "a resource has given what its activities have consumed");
        }
        for (const auto& [id, cost] : meter_.costs)
            require(near(simulation_.cost(id), cost, 0.0),
                    "the cost of a resource is the integral of its rate");
        std::map<std::uint64_t, double> charges = client_.charges;
        for (const ActivityId id : simulation_.activities())
            charges[simulation_.token(id.slot)] = simulation_.cost(id);
        for (const auto& [token, charge] : charges)
            require(near(charge, meter_.charges[token], 0.0),
                    "the charge of an activity is the integral of price x rate");
    }

    // Two copies of the same state give the same results.
    void copy() {
        Simulation left(simulation_);
        Simulation right(simulation_);
        LoggingClient left_client(left);
        LoggingClient right_client(right);
        left.set_client(&left_client);
        right.set_client(&right_client);
        drain(left, left_client);
        drain(right, right_client);
        require(left_client.log == right_client.log, "copies have equal logs");
        require(left.events() == right.events(), "copies count equally many events");
    }

    void start() {
        ActivitySpec spec;
        spec.work = bytes_.amount();
        if (bytes_.below(3) == 0) spec.limit = bytes_.amount();
        if (bytes_.below(3) == 0) spec.weight = bytes_.amount();
        spec.kind = static_cast<Kind>(bytes_.below(3));
        spec.priority = static_cast<std::int32_t>(bytes_.below(3));
        spec.token = ++client_.last_token;
        spec.start = bytes_.below(4) ? simulation_.now() : simulation_.now() + bytes_.amount();
        auto route = some_route();
        // Often equal to another activity, to form a bundle with it.
        const ActivityId other = some_activity();
        if (bytes_.below(2) && simulation_.alive(other)) {
            const Activity& equal = simulation_.activity(other);
            spec.limit = equal.limit;
            spec.weight = equal.weight;
            spec.kind = equal.kind;
            spec.priority = equal.priority;
            route.assign(equal.route.view().begin(), equal.route.view().end());
        }
        known_.push_back(simulation_.start(spec, route));
    }

    [[nodiscard]] ActivityId some_activity() {
        return known_.empty() ? ActivityId{} : known_[bytes_.below(known_.size())];
    }
    [[nodiscard]] ResourceId some_resource() {
        return static_cast<ResourceId>(bytes_.below(simulation_.resource_count() + 1));
    }
    [[nodiscard]] ResourceId some_lease() {
        return leases_.empty() ? some_resource() : leases_[bytes_.below(leases_.size())];
    }
    [[nodiscard]] std::vector<ResourceId> some_route() {
        if (!leases_.empty() && bytes_.below(2)) return {some_lease()};
        const std::size_t hops = bytes_.below(3) ? 1 : 1 + bytes_.below(5);
        std::vector<ResourceId> route;
        for (std::size_t i = 0; i < hops; ++i) route.push_back(some_resource());
        return route;
    }

    AmountBytes& bytes_;
    Simulation simulation_;
    LoggingClient client_;
    CostMeter meter_;
    RateRecorder recorder_;
    std::vector<ActivityId> known_;
    std::vector<ResourceId> leases_;  // also released ones
    bool metered_ = true;             // the meter is exact: moderate amounts, no skipped events
    bool profiled_ = false;  // profile steps are not skipped, and their number is not bounded
};

}  // namespace

void run_program(std::span<const std::uint8_t> program) {
    AmountBytes bytes(program);
    Machine machine(bytes);
    while (!bytes.empty()) machine.operate();
    machine.finish();
}
