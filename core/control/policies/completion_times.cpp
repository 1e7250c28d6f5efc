// Min-min and max-min: of all ready tasks, each on the machine that completes it first, the one
// with the earliest or with the latest completion is placed next. Tasks that would have to wait for
// their machine are mapped anew at the next decision.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "control/policies/options.hpp"
#include "control/policies/transfer_estimates.hpp"
#include "control/policies/workflow_tasks.hpp"
#include "platform/transfers.hpp"
#include "work/file_table.hpp"

namespace twinloop {
namespace {

constexpr std::uint32_t no_kind = ~0U;

// The present and the planned use of the cores of a machine.
struct Slots {
    std::vector<double> free_at;  // of each core, in order
    std::uint32_t kind = 0;
};

// Machines that differ only in their load and in the files in their own stores.
struct Kind {
    double speed = 1.0;
    std::vector<MachineId> machines;
    struct Earliest {
        double start = never;
        MachineId machine = no_machine;
        bool is_valid = false;
    };
    std::vector<Earliest> earliest;  // by number of cores
};

// A ready task and the machine that completes it first.
struct Candidate {
    TaskId task = no_task;
    std::size_t cores = 1;
    bool is_simple = true;
    std::vector<double> seconds;                        // on each kind of machine
    std::vector<std::pair<MachineId, double>> holders;  // machines with inputs in their store
    double start = never;
    double completion = never;
    MachineId machine = no_machine;
    std::uint32_t kind = no_kind;  // it may be any machine of that kind that is free as early
    bool is_tied = false;          // with another machine
};

class CompletionTimes final : public Controller {
  public:
    explicit CompletionTimes(CompletionOptions options) : options_(std::move(options)) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<CompletionTimes>(*this);
    }
    [[nodiscard]] bool spreads() const override { return false; }
    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        return fits_some_machine(scheduler, task);
    }
    void submitted(const SchedulerState&, TaskId task) override {
        waiting_.insert({rank_of(*options_.tables, task), task});
    }
    void withdrawn(const SchedulerState&, TaskId task) override {
        waiting_.erase({rank_of(*options_.tables, task), task});
    }
    void placed(const SchedulerState& scheduler, TaskId task) override {
        withdrawn(scheduler, task);
    }

    void decide(SchedulerState& scheduler) override {
        if (scheduler.space().total_cores() <= slack) return;
        if (slots_.size() != scheduler.machines().size()) find_kinds(scheduler);
        read_slots(scheduler);
        candidates_.clear();
        most_cores_ = 1;
        for (const auto& [rank, task] : waiting_) {
            candidates_.push_back(make(scheduler, task));
            most_cores_ = std::max(most_cores_, candidates_.back().cores);
        }
        while (scheduler.space().total_cores() > slack) {
            const std::size_t next = choose();
            if (next == candidates_.size()) return;
            assign(scheduler, next);
        }
    }

  private:
    // Machines of one speed with equal routes to the stores of the platform.
    void find_kinds(const SchedulerState& scheduler) {
        using Routes = std::vector<TransferEstimates::Route>;
        std::map<std::pair<double, Routes>, std::uint32_t> known;
        kinds_.clear();
        slots_.assign(scheduler.machines().size(), {});
        const DataView& data = scheduler.data();
        for (MachineId m = 0; m < slots_.size(); ++m) {
            std::pair<double, Routes> key{scheduler.machines()[m].speed, {}};
            if (data.transfers != nullptr && node_of(scheduler, m) != none)
                for (StoreId s = 0; s < options_.tables->store_clusters.size(); ++s)
                    key.second.push_back(estimates_.route(data, s, node_of(scheduler, m)));
            const auto number = static_cast<std::uint32_t>(kinds_.size());
            const auto [found, is_new] = known.try_emplace(std::move(key), number);
            if (is_new) kinds_.push_back({scheduler.machines()[m].speed, {}, {}});
            slots_[m].kind = found->second;
            kinds_[found->second].machines.push_back(m);
        }
    }

    // The node of a machine of the platform, or of the host of an instance.
    [[nodiscard]] NodeId node_of(const SchedulerState& scheduler, MachineId machine) const {
        const MachineId host = scheduler.host_of(machine);
        const MachineId number = host == no_machine ? machine : host;
        return number < options_.tables->clusters.size() ? NodeId{number} : none;
    }

    // Of a running task: its start, its transfers and its declared work from there on.
    void read_slots(const SchedulerState& scheduler) {
        for (Kind& each : kinds_) each.earliest.clear();
        for (MachineId m = 0; m < slots_.size(); ++m) {
            const bool open = scheduler.space().open(m);
            const double free = open ? std::floor(scheduler.space().cores(m) + slack) : 0.0;
            slots_[m].free_at.assign(static_cast<std::size_t>(std::max(0.0, free)),
                                     scheduler.now());
        }
        for (const TaskId task : scheduler.running())
            for (const Part& part : scheduler.parts(task))
                for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                    if (!scheduler.space().open(m)) continue;
                    const double end = scheduler.start_time(task) + seconds(scheduler, task, m);
                    // The end of a task that takes longer than expected is not known.
                    if (end <= scheduler.now()) continue;
                    std::vector<double>& here = slots_[m].free_at;
                    here.insert(here.end(), static_cast<std::size_t>(std::ceil(part.cores - slack)),
                                end);
                }
        for (Slots& each : slots_) std::ranges::sort(each.free_at);
    }

    // The declared time of a task on a machine, with the transfers of its files.
    [[nodiscard]] double seconds(const SchedulerState& scheduler, TaskId task, MachineId machine) {
        const NodeId node = node_of(scheduler, machine);
        const double moves = node == none ? 0.0 : estimates_.estimate(scheduler.data(), task, node);
        return moves + declared_time(scheduler, task) * scheduler.tasks()[task].speed /
                           scheduler.machines()[machine].speed;
    }

    Candidate make(const SchedulerState& scheduler, TaskId task) {
        Candidate made;
        made.task = task;
        const Needs needs = scheduler.needs(task);
        made.cores = static_cast<std::size_t>(std::max(1.0, std::ceil(needs.cores - slack)));
        made.is_simple = scheduler.unrestricted() && needs_only_cores(needs);
        made.seconds.reserve(kinds_.size());
        find_holders(scheduler, task, made);
        for (const Kind& kind : kinds_) {
            // A machine without inputs of the task, if there is one: the others are holders.
            const auto holds = [&](MachineId m) {
                return std::ranges::find(made.holders, m, &std::pair<MachineId, double>::first) !=
                       made.holders.end();
            };
            const auto other = std::ranges::find_if_not(kind.machines, holds);
            const MachineId m = other == kind.machines.end() ? kind.machines.front() : *other;
            made.seconds.push_back(seconds(scheduler, task, m));
        }
        find_best(scheduler, made);
        return made;
    }

    // The machines with inputs of the task in their own stores.
    void find_holders(const SchedulerState& scheduler, TaskId task, Candidate& made) {
        const DataView& data = scheduler.data();
        if (data.files == nullptr || data.transfers == nullptr) return;
        const WorkflowTables& tables = *options_.tables;
        for (const FileId file : data.files->read_by(task)) {
            StoreId store = data.files->files[file].store;
            if (store == none) store = data.transfers->files().first(file);
            if (store == none || store < tables.store_clusters.size()) continue;
            const NodeId node = data.transfers->stores[store].spec.node;
            if (node >= slots_.size()) continue;
            if (std::ranges::find(made.holders, node, &std::pair<MachineId, double>::first) ==
                made.holders.end())
                made.holders.emplace_back(node, seconds(scheduler, task, node));
        }
    }

    // The machine of a kind on which so many cores are free first.
    const Kind::Earliest& earliest(std::uint32_t number, std::size_t cores) {
        Kind& kind = kinds_[number];
        if (kind.earliest.size() <= cores) kind.earliest.resize(cores + 1);
        Kind::Earliest& found = kind.earliest[cores];
        if (found.is_valid) return found;
        found = {never, no_machine, true};
        for (const MachineId m : kind.machines) {
            const std::vector<double>& free_at = slots_[m].free_at;
            if (free_at.size() < cores || free_at[cores - 1] >= found.start) continue;
            found.start = free_at[cores - 1];
            found.machine = m;
        }
        return found;
    }

    // Of equal completions, that on the first machine.
    void find_best(const SchedulerState& scheduler, Candidate& task) {
        task.completion = never;
        task.machine = no_machine;
        task.is_tied = false;
        const auto offer = [&](MachineId m, double start, double length, std::uint32_t kind) {
            const double completion = start + length;
            if (completion > task.completion || completion == never) return;
            task.is_tied = completion == task.completion;
            if (task.is_tied && m > task.machine) return;
            task.completion = completion;
            task.start = start;
            task.machine = m;
            task.kind = kind;
        };
        for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
            if (task.is_simple) {
                const Kind::Earliest& found = earliest(k, task.cores);
                if (found.machine != no_machine)
                    offer(found.machine, found.start, task.seconds[k], k);
                continue;
            }
            for (const MachineId m : kinds_[k].machines)
                if (is_usable(scheduler, task, m))
                    offer(m, slots_[m].free_at[task.cores - 1], task.seconds[k], no_kind);
        }
        for (const auto& [m, length] : task.holders)
            if (slots_[m].free_at.size() >= task.cores &&
                (task.is_simple || is_usable(scheduler, task, m)))
                offer(m, slots_[m].free_at[task.cores - 1], length, no_kind);
    }

    // Whether the machine has what the task needs beside cores: now, or once it is empty.
    [[nodiscard]] bool is_usable(const SchedulerState& scheduler, const Candidate& task,
                                 MachineId m) const {
        if (slots_[m].free_at.size() < task.cores) return false;
        const Needs needs = scheduler.needs(task.task);
        const bool now = slots_[m].free_at[task.cores - 1] <= scheduler.now();
        const Space& space = now ? scheduler.space() : scheduler.empty_space();
        return space.holds(m, 0.0, needs.memory, needs.amounts) &&
               scheduler.allowed(task.task, m, scheduler.now(), scheduler.planned_time(task.task));
    }

    // Of equal tasks, the first by its id.
    [[nodiscard]] std::size_t choose() const {
        std::size_t best = candidates_.size();
        for (std::size_t at = 0; at < candidates_.size(); ++at) {
            const Candidate& each = candidates_[at];
            if (each.task == no_task || each.machine == no_machine) continue;
            if (best == candidates_.size() ||
                (options_.largest ? each.completion > candidates_[best].completion
                                  : each.completion < candidates_[best].completion))
                best = at;
        }
        return best;
    }

    void assign(SchedulerState& scheduler, std::size_t next) {
        Candidate& chosen = candidates_[next];
        if (chosen.kind != no_kind) chosen.machine = earliest(chosen.kind, chosen.cores).machine;
        const MachineId m = chosen.machine;
        const Part part{m, 1, scheduler.request(chosen.task).cores};
        // A task without work, placed before it in this decision, still has its cores.
        if (chosen.start <= scheduler.now() && scheduler.space().cores(m) >= part.cores - slack)
            scheduler.place(chosen.task, {&part, 1});
        std::vector<double>& free_at = slots_[m].free_at;
        std::fill_n(free_at.begin(), chosen.cores, chosen.completion);
        std::ranges::sort(free_at);
        chosen.task = no_task;
        const std::uint32_t number = slots_[m].kind;
        find_changes(number, m);
        for (Candidate& each : candidates_) {
            if (each.task == no_task) continue;
            const bool is_later = each.kind == number && changes_[each.cores] == Change::start;
            const bool is_elsewhere =
                each.kind == number && each.is_tied && changes_[each.cores] == Change::machine;
            if (is_later || is_elsewhere || !each.is_simple ||
                (each.kind == no_kind && each.machine == m))
                find_best(scheduler, each);
        }
    }

    // By number of cores: how the earliest start on this kind of machine has changed with a
    // machine.
    void find_changes(std::uint32_t number, MachineId machine) {
        std::vector<Kind::Earliest>& all = kinds_[number].earliest;
        changes_.assign(most_cores_ + 1, Change::none);
        for (std::size_t cores = 0; cores < all.size(); ++cores) {
            if (!all[cores].is_valid || all[cores].machine != machine) continue;
            const double before = all[cores].start;
            all[cores].is_valid = false;
            const Kind::Earliest& now = earliest(number, cores);
            if (now.start != before) changes_[cores] = Change::start;
            else if (now.machine != machine) changes_[cores] = Change::machine;
        }
    }

    CompletionOptions options_;
    std::set<std::pair<std::uint64_t, TaskId>> waiting_;  // by rank
    TransferEstimates estimates_;
    std::vector<Kind> kinds_;
    std::vector<Slots> slots_;  // by machine
    enum class Change : std::uint8_t { none, machine, start };
    std::vector<Change> changes_;        // by number of cores; reused
    std::size_t most_cores_ = 1;         // of a candidate
    std::vector<Candidate> candidates_;  // reused
};

}  // namespace

std::unique_ptr<Controller> make_completion_times(const CompletionOptions& options) {
    return std::make_unique<CompletionTimes>(options);
}

}  // namespace twinloop
