// Runs sharing and flow cases in SimGrid and prints the finish time of each activity.
//
// Cases are read from standard input, as words and numbers:
//
//   case sharing|flow
//   resource <capacity>
//   activity <start> <work> <limit, or -1> <weight> <latency> <count> <resource>...
//   capacity <time> <resource> <value>
//   weight <time> <activity> <value>                (sharing only)
//   suspend <time> <activity>
//   resume <time> <activity>
//   end
//
// The output has one line of finish times for each case, in the order of its activities. --cfg
// options set the model (see simgrid_oracle.py); this file only translates cases into SimGrid:
//
//   sharing  a resource is a host of one core, an activity an Exec with a bound and a priority;
//   flow     a resource is a link, an activity a Comm with a rate over a separate route.

#include <simgrid/s4u.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

struct Activity {
    double start, work, limit, weight, latency;
    std::vector<std::size_t> resources;
};

struct Change {
    std::string verb;
    double time;
    std::size_t subject;
    double value;
};

struct Case {
    bool flow = false;
    std::vector<double> capacities;
    std::vector<Activity> activities;
    std::vector<Change> changes;
};

bool read_case(std::istream& in, Case& out) {
    out = Case{};
    std::string word;
    if (!(in >> word)) return false;
    if (word != "case") throw std::runtime_error("expected 'case', read '" + word + "'");
    in >> word;
    out.flow = word == "flow";
    while (in >> word && word != "end") {
        if (word == "resource") {
            double capacity;
            in >> capacity;
            out.capacities.push_back(capacity);
        } else if (word == "activity") {
            Activity a;
            std::size_t count;
            in >> a.start >> a.work >> a.limit >> a.weight >> a.latency >> count;
            a.resources.resize(count);
            for (auto& r : a.resources) in >> r;
            out.changes.push_back({"start", a.start, out.activities.size(), 0.0});
            out.activities.push_back(a);
        } else {
            Change c{word, 0.0, 0, 0.0};
            in >> c.time >> c.subject;
            if (word == "capacity" || word == "weight") in >> c.value;
            out.changes.push_back(c);
        }
    }
    if (!in) throw std::runtime_error("case not closed by 'end'");
    std::stable_sort(out.changes.begin(), out.changes.end(),
                     [](const Change& a, const Change& b) { return a.time < b.time; });
    return true;
}

// A bandwidth that is never a bottleneck.
constexpr double OPEN = 1e15;

// SimGrid omits the constraint of a resource with capacity zero, so that its activities would
// continue. Zero is replaced by a capacity too small to affect the finish times.
double at_least_tiny(double capacity, double usual) { return std::max(capacity, 1e-14 * usual); }

// Base of the two translations of a case. `play` runs in the only actor that acts on the platform:
// its actions at one instant are not interleaved with others.
class Stage {
  public:
    explicit Stage(const Case& c) : case_(c), finish_(c.activities.size(), -1.0) {
        zone_ = sg::create_full_zone("zone");
        director_host_ = zone_->create_host("director", 1.0);
    }
    virtual ~Stage() = default;

    std::vector<double> run(const sg::Engine& engine) {
        zone_->seal();
        sg::Actor::create("director", director_host_, [this] { play(); });
        engine.run();
        return finish_;
    }

  protected:
    virtual void start(std::size_t activity) = 0;
    virtual void set_capacity(std::size_t resource, double value) = 0;
    virtual void set_weight(std::size_t activity, double value) = 0;
    virtual sg::Activity& handle(std::size_t activity) = 0;

    const Case& case_;
    std::vector<double> finish_;
    std::vector<sg::ActorPtr> witnesses_;  // each records the end of one activity
    sg::NetZone* zone_;
    sg::Host* director_host_;

  private:
    void play() {
        for (const Change& c : case_.changes) {
            sg::this_actor::sleep_until(c.time);
            if (c.verb == "start") start(c.subject);
            else if (c.verb == "capacity") set_capacity(c.subject, c.value);
            else if (finish_[c.subject] >= 0.0) continue;  // it ended before the change
            else if (c.verb == "weight") set_weight(c.subject, c.value);
            else if (c.verb == "suspend") handle(c.subject).suspend();
            else if (c.verb == "resume") handle(c.subject).resume();
            else throw std::runtime_error("unknown change '" + c.verb + "'");
        }
        // The end of an actor cancels the activities that it started.
        for (const auto& witness : witnesses_) witness->join();
    }
};

class Sharing : public Stage {
  public:
    explicit Sharing(const Case& c) : Stage(c), execs_(c.activities.size()) {
        // The speed of a host changes by a switch to another of its declared speeds.
        std::vector<std::vector<double>> speeds;
        for (double capacity : c.capacities) speeds.push_back({capacity});
        for (const Change& change : c.changes)
            if (change.verb == "capacity")
                speeds[change.subject].push_back(
                    at_least_tiny(change.value, c.capacities[change.subject]));
        for (std::size_t r = 0; r < speeds.size(); ++r)
            hosts_.push_back(zone_->create_host("host" + std::to_string(r), speeds[r]));
        next_speed_.assign(hosts_.size(), 1);
    }

  protected:
    void start(std::size_t i) override {
        const Activity& a = case_.activities[i];
        execs_[i] = sg::Exec::init();
        execs_[i]->set_host(hosts_[a.resources.at(0)])->set_flops_amount(a.work);
        execs_[i]->set_priority(a.weight);
        if (a.limit >= 0.0) execs_[i]->set_bound(a.limit);
        execs_[i]->start();
        witnesses_.push_back(sg::Actor::create("waiter", director_host_, [this, i] {
            execs_[i]->wait();
            finish_[i] = sg::Engine::get_clock();
        }));
    }
    void set_capacity(std::size_t r, double) override { hosts_[r]->set_pstate(next_speed_[r]++); }
    void set_weight(std::size_t i, double value) override { execs_[i]->update_priority(value); }
    sg::Activity& handle(std::size_t i) override { return *execs_[i]; }

  private:
    std::vector<sg::ExecPtr> execs_;
    std::vector<sg::Host*> hosts_;
    std::vector<unsigned long> next_speed_;
};

class Flow : public Stage {
  public:
    explicit Flow(const Case& c) : Stage(c), now_(c.capacities), comms_(c.activities.size()) {
        for (std::size_t r = 0; r < c.capacities.size(); ++r)
            links_.push_back(zone_->create_link("link" + std::to_string(r), c.capacities[r]));
        for (std::size_t i = 0; i < c.activities.size(); ++i) add_receiver(i);
    }

  protected:
    void start(std::size_t i) override {
        const Activity& a = case_.activities[i];
        // SimGrid bounds a Comm by the smallest bandwidth of its route at its start, so that a
        // later increase would have no effect: the bandwidth is unlimited at that instant.
        for (std::size_t r : a.resources) links_[r]->set_bandwidth(OPEN);
        comms_[i] = mailbox(i)->put_init(&payload_, 1);
        comms_[i]->set_remaining(a.work);  // set_payload_size takes whole bytes only
        if (a.limit >= 0.0) comms_[i]->set_rate(a.limit);
        comms_[i]->start();
        for (std::size_t r : a.resources) links_[r]->set_bandwidth(now_[r]);
    }
    void set_capacity(std::size_t r, double value) override {
        now_[r] = at_least_tiny(value, case_.capacities[r]);
        links_[r]->set_bandwidth(now_[r]);
    }
    void set_weight(std::size_t, double) override {
        throw std::runtime_error("a Comm cannot change its weight");
    }
    sg::Activity& handle(std::size_t i) override { return *comms_[i]; }

  private:
    // In CM02 a flow with a latency L shares with the penalty L, i.e. with the weight 1/L: a
    // private link has this latency. A flow without latency has the weight 1.
    void add_receiver(std::size_t i) {
        const Activity& a = case_.activities[i];
        if (a.weight != (a.latency > 0.0 ? 1.0 / a.latency : 1.0))
            throw std::runtime_error("the weight of a flow is 1/latency, or 1 without latency");
        auto* host = zone_->create_host("host" + std::to_string(i), 1.0);
        std::vector<sg::LinkInRoute> route;
        for (std::size_t r : a.resources) route.emplace_back(links_[r]);
        if (a.latency > 0.0) {
            auto* own = zone_->create_link("own" + std::to_string(i), OPEN);
            own->set_latency(a.latency);
            route.emplace_back(own);
        }
        zone_->add_route(director_host_->get_netpoint(), host->get_netpoint(), nullptr, nullptr,
                         route, false);
        witnesses_.push_back(sg::Actor::create("receiver", host, [this, i] {
            mailbox(i)->get<int>();
            finish_[i] = sg::Engine::get_clock();
        }));
    }
    static sg::Mailbox* mailbox(std::size_t i) {
        return sg::Mailbox::by_name("flow" + std::to_string(i));
    }

    std::vector<double> now_;
    std::vector<sg::CommPtr> comms_;
    std::vector<sg::Link*> links_;
    int payload_ = 0;
};

void run_case(const Case& c, int argc, char** argv) {
    sg::Engine engine(&argc, argv);
    std::unique_ptr<Stage> stage;
    if (c.flow) stage = std::make_unique<Flow>(c);
    else stage = std::make_unique<Sharing>(c);
    for (double t : stage->run(engine)) std::printf("%.17g ", t);
    std::printf("\n");
    std::fflush(stdout);
    _exit(0);  // without clean-up: the process runs one case
}

}  // namespace

int main(int argc, char** argv) {
    // SimGrid has one simulation per process: every case runs in a separate child.
    Case c;
    while (read_case(std::cin, c)) {
        const pid_t child = fork();
        if (child == 0) run_case(c, argc, argv);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
            std::fprintf(stderr, "simgrid_runner: a case failed with status %d\n", status);
            return 1;
        }
    }
    return 0;
}
