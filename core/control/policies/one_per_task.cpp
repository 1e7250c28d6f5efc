// The client of a cloud that rents an instance for every task, and gives it back after the task.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {
namespace {

class OnePerTask final : public Controller {
  public:
    explicit OnePerTask(const ClientOptions& options) : options_(options) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<OnePerTask>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    // It gives back the instance of the last task.
    [[nodiscard]] bool decides_when_idle() const override { return true; }
    [[nodiscard]] bool bids() const override { return !std::isnan(options_.bid); }

    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        const CloudPlan& cloud = scheduler.clouds()[options_.cloud];
        const InstanceType& type = cloud.types[options_.type];
        const Request& wanted = scheduler.request(task);
        if (!type.fits_task && !holds(type, wanted)) return false;
        const Rental rental = make_rental(scheduler, task);
        return can_host(scheduler, cloud, rental.cores, rental.memory, options_.overcommit);
    }

    void submitted(const SchedulerState&, TaskId task) override { waiting_.push_back(task); }
    void withdrawn(const SchedulerState&, TaskId task) override {
        std::erase(waiting_, task);
        for (MachineId m = 0; m < tasks_.size(); ++m)
            if (tasks_[m] == task) {
                tasks_[m] = no_task;
                unused_.push_back(m);
            }
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        unused_.push_back(scheduler.parts(task).front().machine);
    }
    void rental_changed(const SchedulerState&, MachineId instance, RentalEvent event) override {
        if (event == RentalEvent::ready) {
            ready_.push_back(instance);
            return;
        }
        if (event == RentalEvent::found) {
            unused_.push_back(instance);
            return;
        }
        const TaskId task = take_task(instance);
        std::erase(ready_, instance);
        if (task == no_task) return;
        if (event == RentalEvent::refused) refused_.push_back(task);
        else if (event != RentalEvent::ended) waiting_.push_back(task);
    }

    void decide(SchedulerState& scheduler) override {
        for (const TaskId task : std::exchange(refused_, {}))
            if (scheduler.phase(task) == Phase::waiting) scheduler.kill(task);
        for (const MachineId instance : ready_) start(scheduler, instance);
        ready_.clear();
        for (std::size_t at = 0; at < unused_.size(); ++at) {
            const MachineId instance = unused_[at];
            if (task_of(instance) == no_task &&
                find_release_obstacle(scheduler, instance) == nullptr)
                scheduler.release(instance);
        }
        unused_.clear();
        std::size_t served = 0;
        while (served < waiting_.size() && rent(scheduler, waiting_[served])) ++served;
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(served));
    }

  private:
    // An instance of an earlier client has no task.
    [[nodiscard]] TaskId task_of(MachineId instance) const {
        return instance < tasks_.size() ? tasks_[instance] : no_task;
    }
    TaskId take_task(MachineId instance) {
        return instance < tasks_.size() ? std::exchange(tasks_[instance], no_task) : no_task;
    }
    [[nodiscard]] Rental make_rental(const SchedulerState& scheduler, TaskId task) const {
        const InstanceType& type = scheduler.clouds()[options_.cloud].types[options_.type];
        const Request& wanted = scheduler.request(task);
        Rental rental;
        rental.cloud = options_.cloud;
        rental.type = options_.type;
        rental.image = options_.image;
        rental.cores = type.fits_task ? wanted.cores : type.cores;
        rental.memory = type.fits_task ? wanted.memory : type.memory;
        rental.user = wanted.user;
        rental.bid = options_.bid;
        return rental;
    }
    bool rent(SchedulerState& scheduler, TaskId task) {
        if (scheduler.phase(task) != Phase::waiting) return true;
        const Rental rental = make_rental(scheduler, task);
        // Beyond the limits of the cloud, tasks wait for the end of others; so they do for a price
        // that is not above the bid.
        if (find_rental_obstacle(scheduler, rental) != nullptr ||
            is_outbid(scheduler, rental.cloud, rental.bid))
            return false;
        const MachineId instance = scheduler.rent(rental);
        if (instance >= tasks_.size()) tasks_.resize(instance + std::size_t{1}, no_task);
        tasks_[instance] = task;
        return true;
    }
    void start(SchedulerState& scheduler, MachineId instance) {
        const TaskId task = take_task(instance);
        // It was rented from outside, or is given back already.
        if (task == no_task) return;
        if (scheduler.phase(task) != Phase::waiting) {
            unused_.push_back(instance);
            return;
        }
        const Part part{instance, 1, scheduler.request(task).cores};
        scheduler.place(task, {&part, 1});
    }

    ClientOptions options_;
    std::vector<TaskId> waiting_;    // without an instance
    std::vector<TaskId> refused_;    // their instances
    std::vector<MachineId> ready_;   // instances without their task
    std::vector<MachineId> unused_;  // instances to give back
    std::vector<TaskId> tasks_;      // that wait for an instance, by instance
};

}  // namespace

std::unique_ptr<Controller> make_one_per_task(const ClientOptions& options) {
    return std::make_unique<OnePerTask>(options);
}

}  // namespace twinloop
