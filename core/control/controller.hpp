// The interface of controllers: they receive notifications about the scheduler state and give
// orders when they are called.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "platform/cloud_plan.hpp"
#include "platform/machine.hpp"
#include "work/request.hpp"

namespace twinloop {

class SchedulerState;
class Space;
struct Order;

// Ratios; infinite: without a limit.
struct Overcommit {
    double cores = 1.0;
    double memory = 1.0;
    double amounts = 1.0;  // of other resources
};

class Controller {
  public:
    virtual ~Controller() = default;
    [[nodiscard]] virtual std::unique_ptr<Controller> clone() const = 0;

    // A task has become ready and waits, for the first time or after an interruption.
    virtual void submitted(const SchedulerState&, TaskId) {}
    // A waiting task has left the queue without a placement.
    virtual void withdrawn(const SchedulerState&, TaskId) {}
    // A task occupies machines, by an order of the controller or because it ran before.
    virtual void placed(const SchedulerState&, TaskId) {}
    // A task has ended or was interrupted. Its parts, which are still known, are free again.
    virtual void ended(const SchedulerState&, TaskId) {}
    // A placed task could not be started on these machines, and waits again (real executions only).
    virtual void start_failed(const SchedulerState&, TaskId, std::span<const Part>,
                              const char* /*why*/) {}
    // An order of this controller was refused; nothing has changed. By default an error.
    virtual void refused(const SchedulerState&, const Order&, std::span<const Part>,
                         const char* why);
    // A machine was added, or changed in state or size.
    virtual void machine_changed(const SchedulerState&, MachineId) {}
    // A machine has another state, or has failed or recovered: also if it is not open before and
    // after.
    virtual void state_changed(const SchedulerState&, MachineId) {}

    // The client of a cloud: an instance that it has rented can be used, or is gone.
    virtual void rental_changed(const SchedulerState&, MachineId, RentalEvent) {}

    // What it remembers beyond the waiting and the running tasks, as numbers; and to go on with
    // that in another run, in which it was told of the same tasks.
    [[nodiscard]] virtual std::vector<double> memory() const { return {}; }
    virtual void restore_memory(const SchedulerState&, std::span<const double>) {}

    // Called after a change while tasks wait, and at requested times.
    virtual void decide(SchedulerState&) = 0;

    // Whether the task could be placed if all machines were free.
    [[nodiscard]] virtual bool possible(const SchedulerState&, TaskId) const;
    // How many tasks like this one could be placed at the same time, with this free capacity: at
    // most `most`, which is also the answer of a program.
    [[nodiscard]] virtual std::size_t count_places(const SchedulerState&, const Space&, TaskId,
                                                   std::size_t most) const;
    // Whether a task without a request for nodes may be spread over several machines.
    [[nodiscard]] virtual bool spreads() const { return true; }
    // Whether it may place more cores on a machine than the machine has.
    [[nodiscard]] virtual bool overcommits() const { return false; }
    // How much it may place on a machine, as a multiple of what the machine has.
    [[nodiscard]] virtual Overcommit overcommit() const { return {}; }
    // Whether it is also called while no task waits.
    [[nodiscard]] virtual bool decides_when_idle() const { return false; }
    // Whether it still has orders to give after the last task: the run then goes on.
    [[nodiscard]] virtual bool continues() const { return false; }
    // Whether it rents instances at spot prices, and is called when these change.
    [[nodiscard]] virtual bool bids() const { return false; }
    // Whether it runs Python code: it can then be neither copied nor run on other threads.
    [[nodiscard]] virtual bool foreign() const { return false; }
    // Of several controllers: their number, and the index of the one that was called last.
    [[nodiscard]] virtual std::size_t count() const { return 1; }
    [[nodiscard]] virtual std::size_t acting() const { return 0; }

  protected:
    Controller() = default;
    Controller(const Controller&) = default;
    Controller& operator=(const Controller&) = default;
};

}  // namespace twinloop
