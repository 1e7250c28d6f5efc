// A world: one run of a scenario. Everything that happens is an event of its kernel simulation.
//
// Within an instant, executions end first, then machines change, then tasks are submitted, and then
// the controller is called once. Scenarios may choose another order, or a call after each event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "world/state.hpp"
#include "world/store_requests.hpp"

namespace twinloop {

class Clouds;

class World final : private Client {
  public:
    World(std::shared_ptr<const Scenario> scenario, std::shared_ptr<const Outages> outages,
          ModelValues values, std::unique_ptr<Controller> controller, const Recording& recording,
          std::unique_ptr<Source> source = nullptr,
          std::vector<std::unique_ptr<Controller>> providers = {});
    // The copy continues in the same way.
    World(const World& other) : World(other, other.controller_->clone()) {}
    // A copy with another controller, which `introduce_controller` has to follow.
    World(const World& other, std::unique_ptr<Controller> controller);
    World(World&&) = delete;
    World& operator=(const World&) = delete;
    World& operator=(World&&) = delete;
    ~World() override = default;

    [[nodiscard]] double now() const { return state_.now(); }
    // The time of the next instant; infinite if there is none.
    [[nodiscard]] double next_time();
    // Processes the next instant; false if there is none, if the usage record is full, or if the
    // instant is beyond the known outages: the run continues after `extend`.
    bool step();
    // Processes all instants up to and including that time, and sets the clock.
    void run_until(double time);
    [[nodiscard]] bool needs_outages() const { return needs_outages_; }
    void extend(std::shared_ptr<const Outages> outages);

    [[nodiscard]] const WorldState& state() const { return state_; }
    [[nodiscard]] SchedulerState& scheduler() { return state_.scheduler; }
    [[nodiscard]] const SchedulerState& scheduler() const { return state_.scheduler; }
    [[nodiscard]] Controller& controller() { return *controller_; }
    [[nodiscard]] const Controller& controller() const { return *controller_; }
    // Whether it runs Python code, in its controller or in its source.
    [[nodiscard]] bool foreign() const {
        return has_foreign_controller() || state_.submitter.foreign();
    }
    [[nodiscard]] bool has_foreign_controller() const { return foreign_ || has_foreign_provider_; }
    // The cloud whose controllers decide at present, or have failed; none: no cloud.
    [[nodiscard]] std::size_t acting_cloud() const { return acting_cloud_; }
    // The controllers of the clouds.
    [[nodiscard]] std::span<const std::unique_ptr<Controller>> providers() const {
        return providers_;
    }
    [[nodiscard]] const SharedRows<TaskRun>& tasks() const { return state_.tasks; }
    // The energy of a machine, and the energy charged to a task, up to now (J).
    [[nodiscard]] double energy(MachineId machine) const;
    [[nodiscard]] double energy_of(TaskId task) const;
    // The completed share of the work of a task, including kept work of earlier executions.
    [[nodiscard]] double progress(TaskId task) const;

    // --- changes from outside -------------------------------------------------------------------
    // Adds a task that is not in the scenario, to be submitted at its time.
    // Throws `SourceError` if it has an unknown parent.
    TaskId inject(const NewTask& given);
    void fail(MachineId machine);
    void restore(MachineId machine);
    void set_cores(MachineId machine, double cores);
    // `like`: a host with the same power model, states, ports, links and store; no_machine: none.
    MachineId add_machine(const MachineSpec& spec, std::span<const double> amounts, MachineId like);
    // Shares the machines from now on, if they are not shared yet.
    void share_machines();
    // Instances, see instances.hpp. `beyond`: whether its cores may exceed the free cores of the
    // host. The last two return the reason why they are not possible; nullptr if they are done.
    MachineId add_instance(MachineId host, double cores, double memory, bool beyond);
    const char* move_instance(MachineId instance, MachineId host, bool beyond);
    const char* resize_instance(MachineId instance, double cores, bool beyond);
    // Asks the controller of a cloud for the state of an instance, by the serial number of its
    // rental. The records have the answer as soon as the client has it.
    void describe_instance(std::size_t cloud, std::uint32_t serial);
    // Returns the reason why the machine cannot change to the state; nullptr if it does.
    const char* set_state(MachineId machine, StateId target);
    void remove_machine(MachineId machine);
    // The clouds, for orders from outside; see clouds.hpp. Orders about instances are checked
    // there.
    [[nodiscard]] Clouds clouds();
    // Rents an instance. Throws `std::invalid_argument` with the reason if that is not possible.
    MachineId rent(const Rental& rental, double validity);
    std::vector<MachineId> rent_together(const Rental& rental, std::uint32_t count);
    // Whether changes are noted; and the changes since the last call.
    void watch(bool watched);
    [[nodiscard]] std::vector<Notice> take_notices() { return std::exchange(state_.notices, {}); }
    // Processes instants up to that time, or up to the first one with a notice: true.
    bool run_until_notice(double time);
    // Files, transfers and stores, see store_requests.hpp.
    [[nodiscard]] StoreRequests store_requests() { return StoreRequests(state_); }
    // Tells a new controller of the running and the waiting tasks; it decides in this instant. It
    // rejects tasks that it can never place, when they become ready.
    void introduce_controller(Interrupted after_preemption);
    // Removes what is recorded: records and figures begin now, with the tasks that have not ended.
    void forget_history();
    // To start from a state: the clock, then the known outcomes (tasks that have ended first), then
    // tasks that wait, may not start yet, or run, with a share of their work completed.
    void begin_at(double time);
    // What is known of a task beside its outcome. `seen`: the scheduler knows of its end.
    struct Known {
        Outcome outcome;
        std::uint64_t arrival = 0;  // 0: not known
        double spent = 0.0;
        double planned = unknown;
        bool seen = true;
    };
    void adopt(TaskId task, const Known& known);
    void adopt_execution(TaskId task, std::span<const Part> parts, const SavedExecution& saved);
    void set_saved_work(TaskId task, double seconds) { state_.save_work(task, seconds); }
    // The executions in the order in which they are to be restored.
    [[nodiscard]] std::vector<std::pair<TaskId, SavedExecution>> executions() const;
    // A task that was added in the run before. `pending`: it has not been submitted.
    void adopt_added(const NewTask& given, bool rejected, bool pending);
    // A machine: before `begin_at` the time at which it was restored from outside; after it, what
    // is known otherwise. Throws `std::invalid_argument` if it cannot be in its state.
    struct KnownMachine {
        std::uint32_t outages = 0;
        double restored_at = -never;
        double energy = 0.0;
        bool removed = false;
        MachineStatus status;
    };
    void set_restored_at(MachineId machine, double time) {
        state_.fleet[machine].restored_at = time;
    }
    void restore_machine(MachineId machine, const KnownMachine& known);
    // An instance as it was in an earlier run, on a host in any state. `host`: no_machine if the
    // instance was removed, or if its host is restored later; `restore_host` then follows.
    MachineId restore_instance(MachineId host, double cores, double memory);
    void restore_host(MachineId instance, MachineId host);
    // The files of stores; other stores have their files of the start. Throws `std::out_of_range`
    // if there is no such store or file.
    using StoreFiles = std::pair<StoreId, std::vector<FileId>>;
    void restore_stores(std::span<const StoreFiles> given);
    // The tasks that the source has added, and its memory; at the end. Without a memory, the source
    // has learnt of the ends from `adopt`.
    void restore_submissions(std::size_t added_by_source, std::span<const double> memory);
    // When the controller is called, and what it remembers.
    struct Decisions {
        bool call = true;
        double wake = never;
        double decide_at = never;
        std::uint64_t events = 0;
        double occupied = 0.0;
        std::vector<double> memory;
    };
    [[nodiscard]] Decisions decisions() const;
    void restore_decisions(const Decisions& known);
    void adopt_waiting(TaskId task, double done_share);  // NaN: as saved
    void adopt_held(TaskId task);
    void adopt_running(TaskId task, std::span<const Part> parts, double done_share);

  private:
    // Events of the kernel
    void fired(std::uint64_t token, bool again) override;
    void dropped(std::uint64_t) override {}
    double feed(std::uint64_t) override { return never; }
    void ended(std::uint64_t token, Ending how, const Final& figures) override;

    // Records the use of shared machines.
    class UseRecorder final : public Observer {
      public:
        explicit UseRecorder(WorldState& world) : world_(world) {}
        void rate_changed(ResourceId resource, double now, double rate) override;

      private:
        WorldState& world_;
    };

    void connect();
    [[nodiscard]] bool continues() const;
    [[nodiscard]] double time_of_instant(double next) const;
    [[nodiscard]] std::size_t count_helpful() const;
    void fail_remaining();
    void check_progress(double time);
    void submit_due();
    void submit_new(NewTask& given);
    [[nodiscard]] bool may_overload(double cores, double speed) const;
    TaskId add_task(const NewTask& given);
    TaskId append_task(const NewTask& given, std::size_t parents);
    void reject_added(TaskId task);
    void decide();
    [[nodiscard]] bool is_postponed(bool due);
    void check_wakes();
    void set_decision_timer();
    void carry_out(std::span<const Order> orders);
    // Whether a controller is to be called in this instant.
    [[nodiscard]] bool is_called() const;
    // Calls the controllers that are to be called: that of the tasks, then those of the clouds.
    void decide_all();
    void decide(std::size_t cloud);
    void carry_out(std::size_t cloud, std::span<const Order> orders);
    void note_clouds();

    WorldState state_;
    UseRecorder use_recorder_{state_};
    std::unique_ptr<Controller> controller_;
    std::vector<std::unique_ptr<Controller>> providers_;  // the controllers of the clouds
    bool foreign_;                                        // as the controller says
    bool has_foreign_provider_ = false;
    std::size_t acting_cloud_ = none;
    bool decides_when_idle_;
    double decide_at_ = never;  // next time of a decision interval
    bool needs_outages_ = false;
    bool waiting_ = false;     // for a time, also after the last task
    std::size_t stuck_ = 0;    // steps and decisions at the same time
    std::size_t in_vain_ = 0;  // calls of the controller without orders or other events
    double vain_since_ = 0.0;  // the time of the first of them
    std::uint64_t last_events_ = 0;
};

}  // namespace twinloop
