// The client of a cloud that runs all tasks on one instance, in the order of their arrival.
#include <cmath>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {
namespace {

class OneInstance final : public Controller {
  public:
    explicit OneInstance(const ClientOptions& options) : options_(options) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<OneInstance>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    // It gives back the instance after the last task.
    [[nodiscard]] bool decides_when_idle() const override { return true; }
    [[nodiscard]] bool bids() const override { return !std::isnan(options_.bid); }
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        const CloudPlan& cloud = scheduler.clouds()[options_.cloud];
        const InstanceType& type = cloud.types[options_.type];
        return holds(type, scheduler.request(task)) &&
               can_host(scheduler, cloud, type.cores, type.memory, options_.overcommit);
    }

    void ended(const SchedulerState& scheduler, TaskId task) override {
        const MachineId instance = scheduler.parts(task).front().machine;
        if (instance != instance_) others_.push_back(instance);
    }
    void rental_changed(const SchedulerState&, MachineId instance, RentalEvent event) override {
        if (event == RentalEvent::found) others_.push_back(instance);
        if (instance != instance_) return;
        if (event == RentalEvent::ready) {
            ready_ = true;
            return;
        }
        instance_ = no_machine;
        ready_ = false;
        refused_ = event == RentalEvent::refused;
    }

    void decide(SchedulerState& scheduler) override {
        for (const MachineId instance : std::exchange(others_, {}))
            if (find_release_obstacle(scheduler, instance) == nullptr) scheduler.release(instance);
        if (std::exchange(refused_, false)) {
            while (scheduler.waiting_count() > 0) scheduler.kill(scheduler.first_waiting());
            return;
        }
        if (instance_ == no_machine) {
            if (scheduler.waiting_count() > 0) rent(scheduler);
            return;
        }
        if (!ready_) return;
        while (scheduler.waiting_count() > 0) {
            const TaskId task = scheduler.first_waiting();
            const Part part{instance_, 1, scheduler.request(task).cores};
            if (find_place_obstacle(scheduler, task, {&part, 1}, {}) != nullptr) return;
            scheduler.place(task, {&part, 1});
        }
        if (scheduler.running().empty() && find_release_obstacle(scheduler, instance_) == nullptr)
            scheduler.release(instance_);
    }

  private:
    void rent(SchedulerState& scheduler) {
        const InstanceType& type = scheduler.clouds()[options_.cloud].types[options_.type];
        Rental rental;
        rental.cloud = options_.cloud;
        rental.type = options_.type;
        rental.image = options_.image;
        rental.cores = type.cores;
        rental.memory = type.memory;
        rental.bid = options_.bid;
        if (!is_outbid(scheduler, rental.cloud, rental.bid)) instance_ = scheduler.rent(rental);
    }

    ClientOptions options_;
    MachineId instance_ = no_machine;
    std::vector<MachineId> others_;  // of an earlier client, to give back
    bool ready_ = false;
    bool refused_ = false;
};

}  // namespace

std::unique_ptr<Controller> make_one_instance(const ClientOptions& options) {
    return std::make_unique<OneInstance>(options);
}

}  // namespace twinloop
