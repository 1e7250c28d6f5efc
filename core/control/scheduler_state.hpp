// The state of a scheduler: waiting and running tasks, and free capacity. A simulation has one, and
// so does a real execution: the same controllers give orders to both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "control/access.hpp"
#include "control/controller.hpp"
#include "control/order.hpp"
#include "control/queue_limits.hpp"
#include "control/space.hpp"
#include "control/workflow_tables.hpp"
#include "kernel/shared_rows.hpp"
#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "work/task_table.hpp"

namespace twinloop {

// A task that is ending has ended, but its machines are still reported as occupied.
enum class Phase : std::uint8_t { absent, held, waiting, running, ending, gone };

class SchedulerState {
  public:
    SchedulerState() = default;
    // `spreads`: whether tasks may be spread over machines; see Controller.
    SchedulerState(std::shared_ptr<const TaskTable> tasks, std::vector<MachineSpec> machines,
                   std::vector<double> machine_amounts, std::vector<AccessWindow> windows,
                   std::vector<QueueRule> queues, bool spreads);

    // --- for controllers ------------------------------------------------------------------------
    [[nodiscard]] double now() const { return now_; }
    [[nodiscard]] std::span<const MachineSpec> machines() const { return machines_; }
    [[nodiscard]] const Space& space() const { return space_; }
    [[nodiscard]] const Space& empty_space() const { return empty_; }
    // Only the number of cores matters, on whichever machines: free capacity is one number.
    [[nodiscard]] bool pooled() const { return pooled_; }
    [[nodiscard]] double free_cores() const { return space_.total_cores(); }

    [[nodiscard]] const Tasks& tasks() const { return tasks_; }
    [[nodiscard]] std::size_t task_count() const { return states_.size(); }
    [[nodiscard]] const Request& request(TaskId task) const { return tasks_[task].request; }
    [[nodiscard]] Needs needs(TaskId task) const {
        const Request& request = tasks_[task].request;
        // On machines of one core each, as many nodes are as many cores.
        const bool cores_only = single_cores_ && is_node_per_core(request);
        return {request.cores, request.memory, cores_only ? 0 : request.nodes,
                space_.resources() > 0 ? tasks_.amounts(task) : std::span<const double>()};
    }
    // The run time that schedulers plan with (s).
    [[nodiscard]] double planned_time(TaskId task) const { return states_[task].time; }
    // The run time that the user predicts (s), although the task may run longer.
    [[nodiscard]] double predicted_time(TaskId task) const {
        const double requested = tasks_[task].request.time;
        return std::isnan(requested) ? planned_time(task) : requested;
    }
    [[nodiscard]] Phase phase(TaskId task) const { return states_[task].phase; }

    // The waiting tasks, in the order in which they became ready.
    [[nodiscard]] std::size_t waiting_count() const { return waiting_count_; }
    [[nodiscard]] TaskId first_waiting() const { return first_; }
    [[nodiscard]] TaskId next_waiting(TaskId task) const { return states_[task].next; }
    // The submission time in this run; NaN before. Users with sessions submit at other times than
    // recorded.
    [[nodiscard]] double submit_time(TaskId task) const { return states_[task].submit; }
    // Counts up from the first task that became ready; an interrupted task keeps its number.
    [[nodiscard]] std::uint64_t arrival(TaskId task) const { return states_[task].arrival; }

    // The running tasks, in no order.
    [[nodiscard]] std::span<const TaskId> running() const { return running_; }
    [[nodiscard]] double start_time(TaskId task) const { return states_[task].start; }
    // A task may end earlier, or continue beyond it.
    [[nodiscard]] double planned_end(TaskId task) const {
        const TaskState& state = states_[task];
        if (has_laws_) return state.start + state.time * time_scale(task, parts(task));
        return state.start + state.time;
    }
    // The cores of a placement: those that the task requests, unless it is moldable.
    [[nodiscard]] double placed_cores(TaskId task, std::span<const Part> parts) const {
        const Task& row = tasks_[task];
        return row.moldable ? count_cores(row.request.cores, parts) : row.request.cores;
    }
    // The run time of a placement, as a multiple of that on the requested cores.
    [[nodiscard]] double time_scale(TaskId task, std::span<const Part> parts) const {
        return tasks_[task].moldable ? scale_by_law(task, parts) : 1.0;
    }
    [[nodiscard]] std::span<const Part> parts(TaskId task) const {
        const TaskState& state = states_[task];
        return std::span(parts_).subspan(state.first_part, state.part_count);
    }
    // The running tasks with a part on the machine, in the order of `running`.
    [[nodiscard]] std::vector<TaskId> tasks_on(MachineId machine);

    // The state of a machine that is not down, and the states that it may have.
    [[nodiscard]] MachineStatus status(MachineId machine) const {
        return statuses_.empty() ? MachineStatus() : statuses_[machine];
    }
    [[nodiscard]] const StateTables& state_tables() const { return *tables_; }
    [[nodiscard]] const StateTable& state_table(MachineId machine) const;

    // The host of an instance; no_machine of other machines.
    [[nodiscard]] MachineId host_of(MachineId machine) const {
        return machine < hosts_.size() ? hosts_[machine] : no_machine;
    }
    // The instances on a host, in no order.
    [[nodiscard]] std::span<const MachineId> instances_on(MachineId host) const {
        return host < instances_.size() ? std::span<const MachineId>(instances_[host])
                                        : std::span<const MachineId>();
    }
    // The tasks with a part on the machine itself.
    [[nodiscard]] std::size_t count_tasks(MachineId machine) const {
        return space_.occupants(machine) - instances_on(machine).size();
    }

    // Whether queue, windows and clock allow the task on the machine for `time` from `from` on.
    [[nodiscard]] bool allowed(TaskId task, MachineId machine, double from, double time) const;
    // The place of a task among those that the limits of queues hold; 0: it was never held.
    [[nodiscard]] std::uint64_t held_since(TaskId task) const { return limits_.held_since(task); }
    // The files of the tasks, for policies that place tasks near their data.
    [[nodiscard]] const DataView& data() const { return data_; }
    void set_data(const DataView& data) { data_ = data; }
    // Only free capacity restricts the placement of tasks.
    [[nodiscard]] bool unrestricted() const { return unrestricted_; }
    // Finds parts for the task in that space from `from` on, for its planned time.
    bool find(TaskId task, const Space& space, double from, std::vector<Part>& parts) const;
    // The ends of windows after now, in order.
    [[nodiscard]] std::span<const double> window_ends() const;

    // --- orders ---------------------------------------------------------------------------------
    // Each order is checked (order_checks.hpp). If it is refused, nothing changes, its controller
    // is notified, and the function returns false.
    // Places a waiting task. The space shows it immediately.
    bool place(TaskId task, std::span<const Part> parts);
    // Interrupts a running task, which waits again.
    bool preempt(TaskId task);
    // Ends a waiting or running task for good.
    bool kill(TaskId task);
    // Orders a state of a machine. Tasks may be placed on the machine once it is running.
    bool set_state(MachineId machine, StateId target);
    // Announces a later placement, without obligation; the controller is called at that time.
    bool reserve(TaskId task, MachineId machine, double time);
    // Requests a call at that time.
    bool wake(double time);
    // Rents an instance: a machine that is closed until it has started. Returns its number, or
    // no_machine if the order is refused. The number is used again when the instance is gone.
    MachineId rent(const Rental& rental);
    // Ends an instance that has no tasks.
    bool release(MachineId instance);
    // Of the scheduler of a cloud, whose tasks are instances: moves one to another host. It keeps
    // its place until the world has moved it, and has another one on that host from now on.
    bool migrate(TaskId instance, MachineId host);
    // Likewise: gives a running instance another number of cores of its host.
    bool resize_instance(TaskId instance, double cores);
    // Whether an instance has not reached the end of its boot.
    [[nodiscard]] bool is_starting(TaskId instance) const {
        return instance < starting_.size() && starting_[instance] != 0;
    }
    // The number of an instance at the other end of its migration; no_task: it is not moving.
    [[nodiscard]] TaskId other_end(TaskId instance) const {
        return instance < other_ends_.size() ? other_ends_[instance] : no_task;
    }

    // The cores that the tasks of an instance use; known while the controllers of its cloud decide.
    [[nodiscard]] double used_cores(TaskId instance) const;
    // Whether the limits of the cloud allow the instance that number of cores.
    [[nodiscard]] bool is_within_limits(TaskId instance, double cores) const;
    // The number of the rental of an instance, which is a task here.
    [[nodiscard]] std::uint32_t rental_of(TaskId instance) const {
        return instance < task_rentals_.size() ? task_rentals_[instance] : none;
    }

    // --- rented instances ------------------------------------------------------------------------
    // Whether it is the scheduler of a cloud.
    [[nodiscard]] bool is_provider() const { return is_provider_; }
    void set_provider() { is_provider_ = true; }
    // Whether the scheduler of a cloud decides about the machine.
    [[nodiscard]] bool is_cloud_host(MachineId machine) const {
        return machine < in_cloud_.size() && in_cloud_[machine] != 0;
    }
    [[nodiscard]] const CloudPlans& clouds() const { return *clouds_; }
    // Whether the machine is an instance that is rented and not yet gone.
    [[nodiscard]] bool is_rented(MachineId machine) const {
        return machine < rented_.size() && rented_[machine] != 0;
    }
    // Whether the client has given it back, and it has not ended yet.
    [[nodiscard]] bool is_given_back(MachineId machine) const {
        return machine < rented_.size() && rented_[machine] == given_back;
    }
    // Whether a rented instance has reached the end of its boot.
    [[nodiscard]] bool has_booted(MachineId machine) const {
        return is_rented(machine) && rented_[machine] == booted;
    }
    // Since when a rented instance has had a host; NaN: it never had one.
    [[nodiscard]] double hosted_since(MachineId instance) const { return hosted_since_[instance]; }
    void set_hosted_since(MachineId instance, double time) { hosted_since_[instance] = time; }
    // The number of its rental: rentals are numbered from 0.
    [[nodiscard]] std::uint32_t rental_number(MachineId instance) const {
        return rental_numbers_[instance];
    }
    [[nodiscard]] std::uint32_t rental_count() const { return rental_count_; }
    // The instances that are rented from a cloud, and their cores and memory.
    struct Rented {
        std::uint32_t instances = 0;
        double cores = 0.0;
        double memory = 0.0;
    };
    [[nodiscard]] const Rented& rented_from(std::size_t cloud) const { return totals_[cloud]; }

    // --- for the world, or for a real execution -------------------------------------------------
    // The parts that the task of an order has left.
    [[nodiscard]] std::span<const Part> vacated(const Order& order) const {
        return std::span(vacated_).subspan(order.first, order.count);
    }
    // Forgets the orders, which are carried out.
    void clear_orders();
    // The rental of an order.
    [[nodiscard]] const Rental& rental(const Order& order) const { return rentals_[order.first]; }
    // The number of cores of an order.
    [[nodiscard]] double size(const Order& order) const { return sizes_[order.first]; }
    // The clouds: their hosts are never open for tasks.
    void set_clouds(std::shared_ptr<const CloudPlans> clouds);
    void set_cloud_host(MachineId host, bool in_cloud);
    // A machine of another scheduler, in its present state. Returns its number here.
    MachineId adopt_machine(const SchedulerState& other, MachineId machine);
    // The instance belongs to another cloud from now on.
    void change_rental(MachineId instance, const Rental& rental);
    // The instance can be used from now on; or it is gone, after its tasks.
    void open_rented(MachineId instance);
    void end_rented(MachineId instance, RentalEvent event);
    void resize_rented(MachineId instance, double cores);
    // Of a cloud: the scheduler of its client, and the instances there by their numbers here;
    // nullptr: they cannot be read now.
    void set_client(const SchedulerState* client, std::span<const MachineId> instances) {
        client_ = client;
        client_instances_ = instances;
    }
    void set_rental(TaskId instance, std::uint32_t rental) {
        if (instance >= task_rentals_.size()) task_rentals_.resize(instance + std::size_t{1}, none);
        task_rentals_[instance] = rental;
    }
    // Instances that start together are placed together or not at all: the number of those from
    // this one on, and those before and after it that are in the queue.
    struct Together {
        std::uint32_t group = none;
        std::uint32_t count = 1;
        TaskId before = no_task;
        TaskId after = no_task;
    };
    [[nodiscard]] Together together(TaskId task) const {
        return task < together_.size() ? together_[task] : Together();
    }
    void set_together(TaskId task, const Together& together);
    // Whether it is placed with the one before it.
    [[nodiscard]] bool follows(TaskId task) const {
        const Together mine = together(task);
        return mine.before != no_task && phase(mine.before) == Phase::waiting &&
               together(mine.before).group == mine.group;
    }
    // Whether empty hosts have room for so many instances of this size.
    [[nodiscard]] bool can_hold(TaskId task, std::size_t count) const {
        return controller_->count_places(*this, empty_, task, count) >= count;
    }
    // A new task, with the number of one that is gone if there is one.
    TaskId put_task(const Task& task);
    // A task is gone: its number may be used again.
    void recycle(TaskId task) { free_tasks_.push_back(task); }
    void set_starting(TaskId instance, bool starting) {
        if (instance >= starting_.size()) starting_.resize(instance + std::size_t{1}, 0);
        starting_[instance] = starting ? 1 : 0;
    }
    // The migration has ended: the instance leaves one of its two places.
    void end_migration(TaskId left);
    // The status that a machine has got by an order.
    [[nodiscard]] MachineStatus entered(const Order& order) const { return entered_[order.first]; }
    void set_controller(Controller* controller) {
        controller_ = controller;
        acting_ = 0;
    }
    // Tells a new controller of the running and the waiting tasks. Returns the waiting tasks that
    // it can never place.
    std::vector<TaskId> introduce_controller();
    [[nodiscard]] bool is_possible(TaskId task) const { return controller_->possible(*this, task); }
    void set_now(double now) { now_ = now; }
    TaskId add_task(const Task& task, std::span<const double> amounts, std::string_view name = {},
                    std::string_view command = {});
    void add_child(TaskId parent, TaskId child) { tasks_.add_child(parent, child); }
    void set_rejected(TaskId task) { tasks_.set_rejected(task); }
    void set_planned_time(TaskId task, double time) { states_.edit(task).time = time; }
    // The submission is needed only for a task that is submitted before it may start.
    void set_times(TaskId task, double submit, double planned) {
        TaskState& state = states_.edit(task);
        state.submit = submit;
        state.time = planned;
    }
    // The order of the running tasks, as in an earlier run.
    void order_running(std::span<const TaskId> tasks) {
        running_.assign(tasks.begin(), tasks.end());
        for (std::uint32_t place = 0; place < tasks.size(); ++place)
            states_.edit(tasks[place]).place = place;
    }
    // The place of a task in the order of arrival, as in an earlier run.
    void set_arrival(TaskId task, std::uint64_t arrival) {
        states_.edit(task).arrival = arrival;
        next_arrival_ = std::max(next_arrival_, arrival + 1);
    }
    // The task may start from now on, within the limits of its queue.
    void submit(TaskId task);
    // Likewise, for a task that is submitted now, with its planned time.
    void submit(TaskId task, double planned);
    void withdraw(TaskId task);
    // A running task has ended, but occupies its machines until `end`.
    void set_ending(TaskId task) { states_.edit(task).phase = Phase::ending; }
    // A running task has ended; its machines are free.
    void end(TaskId task);
    // Adds a task that has been running since that time.
    void adopt(TaskId task, std::span<const Part> parts, double since);
    void set_state_tables(std::shared_ptr<const StateTables> tables) {
        tables_ = std::move(tables);
    }
    // `like`: a machine with the same states; no_machine: none but running and off.
    MachineId add_machine(const MachineSpec& spec, std::span<const double> amounts,
                          MachineId like = no_machine);
    // An instance is a machine that occupies cores and memory of its host. It is open only while
    // the host is.
    MachineId add_instance(const MachineSpec& spec, MachineId host);
    void move_instance(MachineId instance, MachineId host);
    // The machine is gone for good; the host of an instance has the cores and the memory again.
    void remove_machine(MachineId machine);
    // Whether a machine exists; a machine that is down does not.
    void set_present(MachineId machine, bool present);
    [[nodiscard]] bool is_present(MachineId machine) const { return absent_[machine] == 0; }
    void set_status(MachineId machine, MachineStatus status);
    void resize(MachineId machine, double cores);
    // Of several controllers, the one that gives the next orders.
    void set_acting(std::size_t controller) { acting_ = static_cast<std::uint8_t>(controller); }
    // Calls the controller and returns its orders, valid until the next call.
    std::span<const Order> decide();
    // The orders of the last call, also if it was left by an exception.
    [[nodiscard]] std::span<const Order> orders() const { return orders_; }
    [[nodiscard]] double wake_time() const { return wake_; }
    void set_wake(double time) { wake_ = time; }
    void clear_wake() { wake_ = never; }
    [[nodiscard]] bool must_decide() const { return waiting_count_ > 0; }

  private:
    void count_rental(const Rental& rental, double sign);

    struct TaskState {
        double time = 0.0;  // planned
        double submit = std::numeric_limits<double>::quiet_NaN();
        double start = 0.0;
        std::uint64_t arrival = 0;
        TaskId before = no_task;  // among the waiting tasks
        TaskId next = no_task;
        std::uint32_t first_part = 0;
        std::uint32_t part_count = 0;
        std::uint32_t place = 0;  // in `running_`
        Phase phase = Phase::absent;
    };

    // The needs beyond the cores of the parts, where the space keeps account of them.
    [[nodiscard]] Needs space_needs(TaskId task) const {
        if (space_.is_plain()) return {};
        Needs all = needs(task);
        all.cores = placed_cores(task, parts(task));
        return all;
    }
    [[nodiscard]] static double count_cores(double requested, std::span<const Part> parts);
    [[nodiscard]] double scale_by_law(TaskId task, std::span<const Part> parts) const;
    [[nodiscard]] bool needs_only_cores(const TaskTable::Extent& extent) const;
    void set_spreads(bool spreads);
    void submit(TaskId task, TaskState& state);
    void enqueue(TaskId task, TaskState& state);
    void unlink(TaskId task);
    void release_held(TaskId ended);
    void occupy(TaskId task, std::span<const Part> parts, double since);
    void vacate(TaskId task);
    void compact();
    void add_order(Order::Kind kind, TaskId task, MachineId machine);
    bool undo_place(TaskId task);
    bool refuse(const Order& order, std::span<const Part> parts, const char* why);
    // Whether `find` has found these parts for the task in the present space: they are correct.
    [[nodiscard]] bool is_found(TaskId task, std::span<const Part> parts) const {
        return found_.task == task && found_.parts == parts.data() &&
               found_.count == parts.size() && states_[task].phase == Phase::waiting;
    }
    [[nodiscard]] bool is_free_machine(TaskId task, std::span<const Part> parts) const;
    void reopen(MachineId machine);
    void announce(MachineId machine);
    MachineId append_machine(const MachineSpec& spec, std::span<const double> amounts,
                             std::uint16_t table);
    void occupy_host(MachineId instance, MachineId host);
    void leave_host(MachineId instance);
    void index_parts(TaskId task, bool add);

    Controller* controller_ = nullptr;
    DataView data_;
    std::uint8_t acting_ = 0;  // index of the controller that gives orders
    double now_ = 0.0;
    double wake_ = never;
    Tasks tasks_;
    std::vector<MachineSpec> machines_;
    Space space_;
    Space empty_;
    std::vector<AccessWindow> windows_;
    std::vector<double> window_ends_;
    std::vector<QueueRule> queues_;
    QueueLimits limits_;
    bool spreads_ = true;  // as the controller says
    bool pooled_ = true;
    bool unrestricted_ = true;
    bool single_cores_ = false;   // tasks may be spread, and every machine has one core
    bool has_laws_ = false;       // some task has a speed-up law
    bool finite_memory_ = false;  // some machine has a specified memory
    double slowest_mhz_ = never;  // of the machines with a specified clock

    SharedRows<TaskState> states_;
    std::vector<TaskId> running_;
    std::vector<Part> parts_;
    std::size_t live_parts_ = 0;
    TaskId first_ = no_task;
    TaskId last_ = no_task;
    std::size_t waiting_count_ = 0;
    std::uint64_t next_arrival_ = 1;
    // By machine; kept from the first call of `tasks_on` on.
    std::vector<std::vector<TaskId>> on_machine_;
    bool indexed_ = false;
    std::vector<Order> orders_;
    std::vector<Part> vacated_;
    std::vector<std::uint8_t> absent_;
    std::shared_ptr<const StateTables> tables_ = StateTables::common();
    std::vector<MachineStatus> statuses_;      // empty: all machines are running
    std::vector<std::uint16_t> added_tables_;  // of the machines that were added
    std::vector<MachineStatus> entered_;       // by the orders
    // By machine, up to the last instance or host: the host, and the instances on it.
    std::vector<MachineId> hosts_;
    std::vector<std::vector<MachineId>> instances_;
    std::uint16_t instance_table_ = 0;  // index of their states; 0: there was no instance yet
    std::shared_ptr<const CloudPlans> clouds_ = std::make_shared<const CloudPlans>();
    bool is_provider_ = false;
    std::vector<std::uint8_t> in_cloud_;  // by machine: it is a host of a cloud; empty: none is
    static constexpr std::uint8_t booted = 2;
    static constexpr std::uint8_t given_back = 3;
    // By machine, up to the last rented instance: 0: it is not rented; 1: it starts
    std::vector<std::uint8_t> rented_;
    std::vector<Rental> last_rentals_;           // likewise
    std::vector<std::uint32_t> rental_numbers_;  // likewise
    std::vector<double> hosted_since_;           // likewise
    std::uint32_t rental_count_ = 0;
    std::vector<MachineId> free_;              // numbers of instances that are gone
    std::vector<Rented> totals_;               // by cloud
    std::vector<Rental> rentals_;              // by the orders
    std::vector<double> sizes_;                // by the orders
    double grown_ = 0.0;                       // cores by which these orders have changed instances
    std::vector<TaskId> free_tasks_;           // numbers of tasks that are gone
    std::vector<std::uint8_t> starting_;       // instances, by task
    std::vector<Together> together_;           // likewise; empty without such instances
    std::vector<TaskId> other_ends_;           // up to the last task that migrated
    std::vector<std::uint32_t> task_rentals_;  // of instances, by task
    const SchedulerState* client_ = nullptr;   // of the scheduler of a cloud, while it decides
    std::span<const MachineId> client_instances_;  // by task
    // The last result of `find` in the present space. A change of the space forgets it.
    struct Found {
        TaskId task = no_task;
        const Part* parts = nullptr;
        std::size_t count = 0;
    };
    mutable Found found_;
};

}  // namespace twinloop
