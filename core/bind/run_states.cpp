#include "bind/run_states.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "bind/arrays.hpp"
#include "bind/policies.hpp"
#include "bind/sources.hpp"

namespace twinloop::bind {
namespace {

// The numbers of a saved execution by name.
constexpr std::pair<const char*, double SavedExecution::*> execution_fields[] = {
    {"placed", &SavedExecution::placed},     {"until", &SavedExecution::until},
    {"stop", &SavedExecution::stop},         {"work_begun", &SavedExecution::work_begun},
    {"begun", &SavedExecution::begun},       {"length", &SavedExecution::length},
    {"rate", &SavedExecution::rate},         {"factor", &SavedExecution::factor},
    {"stretch", &SavedExecution::stretch},   {"speed", &SavedExecution::speed},
    {"from", &SavedExecution::from},         {"inside", &SavedExecution::inside},
    {"overhead", &SavedExecution::overhead}, {"demanded", &SavedExecution::demanded},
    {"waited", &SavedExecution::waited},     {"paused", &SavedExecution::paused},
    {"left", &SavedExecution::left},         {"done", &SavedExecution::done},
    {"used", &SavedExecution::used},         {"energy", &SavedExecution::energy}};
constexpr std::pair<const char*, double SavedTransfer::*> transfer_fields[] = {
    {"latency", &SavedTransfer::latency},
    {"registered", &SavedTransfer::registered},
    {"start", &SavedTransfer::start},
    {"left", &SavedTransfer::left}};
constexpr const char* step_names[] = {"dispatch", "startup", "read", "compute", "write", "release"};

nb::dict execution_dict(TaskId task, const SavedExecution& saved) {
    nb::dict row;
    row["task"] = task;
    row["step"] = step_names[static_cast<std::size_t>(saved.step)];
    row["draws"] = saved.draws;
    row["fragment"] = saved.fragment;
    row["rank"] = saved.rank;
    row["halted"] = saved.halted;
    row["until_stop"] = saved.until_stop;
    for (const auto& [name, field] : execution_fields) row[name] = saved.*field;
    row["remaining"] = saved.remaining;
    if (saved.step != Step::read && saved.step != Step::write) return row;
    row["files"] = saved.files;
    row["refused"] = saved.refused;
    if (!saved.transfers) return row;
    nb::dict transfer;
    for (const auto& [name, field] : transfer_fields) transfer[name] = saved.transfer.*field;
    transfer["store"] = saved.transfer.store;
    row["transfer"] = transfer;
    return row;
}

}  // namespace

SavedExecution execution_from(const nb::dict& row) {
    SavedExecution saved;
    const auto step = nb::cast<std::string>(row["step"]);
    const auto* const found = std::ranges::find(step_names, step);
    if (found == std::end(step_names))
        throw nb::value_error(("'" + step + "' is not a step of an execution").c_str());
    saved.step = static_cast<Step>(found - std::begin(step_names));
    saved.draws = nb::cast<bool>(row["draws"]);
    saved.fragment = nb::cast<std::uint32_t>(row["fragment"]);
    saved.rank = nb::cast<std::uint64_t>(row["rank"]);
    saved.halted = nb::cast<std::uint32_t>(row["halted"]);
    saved.until_stop = nb::cast<bool>(row["until_stop"]);
    for (const auto& [name, field] : execution_fields) saved.*field = nb::cast<double>(row[name]);
    saved.remaining = nb::cast<std::vector<double>>(row["remaining"]);
    if (saved.step != Step::read && saved.step != Step::write) return saved;
    saved.files = nb::cast<std::uint32_t>(row["files"]);
    saved.refused = nb::cast<bool>(row["refused"]);
    saved.transfers = row.contains("transfer");
    if (!saved.transfers) return saved;
    const auto transfer = nb::cast<nb::dict>(row["transfer"]);
    for (const auto& [name, field] : transfer_fields)
        saved.transfer.*field = nb::cast<double>(transfer[name]);
    saved.transfer.store = nb::cast<StoreId>(transfer["store"]);
    return saved;
}

World::Known known_from(const nb::dict& row) {
    const auto number = [&](const char* name, double& field) {
        if (row.contains(name)) field = nb::cast<double>(row[name]);
    };
    World::Known known;
    Outcome& outcome = known.outcome;
    outcome.status = static_cast<Status>(nb::cast<std::uint8_t>(row["status"]));
    number("submit", outcome.submit);
    number("ready", outcome.ready);
    number("start", outcome.start);
    number("last_start", outcome.last_start);
    number("end", outcome.end);
    number("last_end", outcome.last_end);
    number("done", outcome.done);
    number("used", outcome.used);
    number("energy", outcome.energy);
    number("spent", known.spent);
    number("planned", known.planned);
    outcome.attempts = nb::cast<std::uint32_t>(row["attempts"]);
    if (row.contains("failures")) outcome.failures = nb::cast<std::uint32_t>(row["failures"]);
    if (row.contains("arrival")) known.arrival = nb::cast<std::uint64_t>(row["arrival"]);
    if (row.contains("seen")) known.seen = nb::cast<bool>(row["seen"]);
    return known;
}

World::KnownMachine machine_from(const SchedulerState& scheduler, const nb::dict& row) {
    const auto name = nb::cast<std::string>(row["state"]);
    const std::vector<std::string>& names = scheduler.state_tables().names;
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) throw nb::value_error(("there is no state '" + name + "'").c_str());
    World::KnownMachine known;
    known.outages = nb::cast<std::uint32_t>(row["outages"]);
    known.restored_at = nb::cast<double>(row["restored_at"]);
    known.energy = nb::cast<double>(row["energy"]);
    known.removed = nb::cast<bool>(row["removed"]);
    known.status = {static_cast<StateId>(found - names.begin()), nb::cast<double>(row["begun"])};
    return known;
}

World::Decisions decisions_from(const nb::dict& row) {
    World::Decisions made;
    made.call = nb::cast<bool>(row["call"]);
    made.wake = nb::cast<double>(row["wake"]);
    made.decide_at = nb::cast<double>(row["decide_at"]);
    made.events = nb::cast<std::uint64_t>(row["events"]);
    made.occupied = nb::cast<double>(row["occupied"]);
    made.memory = nb::cast<std::vector<double>>(row["memory"]);
    return made;
}

namespace {

nb::dict save_tasks(const World& run) {
    const WorldState& state = run.state();
    const auto& all = run.tasks();
    const auto at = [&](const SharedRows<double>& rows) {
        std::vector<double> values(all.size(), 0.0);
        for (std::size_t i = 0; i < rows.size(); ++i) values[i] = rows[i];
        return as_array(std::move(values));
    };
    nb::dict tasks;
    tasks["last_end"] = as_array(all, [](const TaskRun& row) { return row.last_end; });
    tasks["work"] = as_array(all, [](const TaskRun& row) { return row.done; });
    tasks["cpu_time"] = as_array(all, [](const TaskRun& row) { return row.used; });
    tasks["energy"] = as_array(all, [](const TaskRun& row) { return row.energy; });
    tasks["failures"] = as_array(all, [](const TaskRun& row) { return row.failures; });
    tasks["ended_as"] = as_array(all, [](const TaskRun& row) { return row.ended_as; });
    tasks["saved"] = at(state.saved);
    tasks["spent"] = at(state.spent);
    std::vector<std::uint64_t> arrivals(all.size());
    std::vector<double> planned(all.size());
    std::vector<std::uint64_t> held(all.size());
    for (TaskId task = 0; task < all.size(); ++task) {
        arrivals[task] = run.scheduler().arrival(task);
        planned[task] = run.scheduler().planned_time(task);
        held[task] = run.scheduler().held_since(task);
    }
    tasks["held"] = as_array(std::move(held));
    tasks["arrival"] = as_array(std::move(arrivals));
    tasks["planned"] = as_array(std::move(planned));
    return tasks;
}

nb::list save_machines(const World& run) {
    const Fleet& fleet = run.state().fleet;
    const std::vector<std::string>& names = run.scheduler().state_tables().names;
    nb::list machines;
    for (MachineId m = 0; m < fleet.size(); ++m) {
        const MachineStatus status = run.scheduler().status(m);
        nb::dict row;
        row["cores"] = fleet[m].capacity / fleet[m].speed;
        row["state"] = names[status.state];
        row["begun"] = status.state == running_state ? run.now() : status.begun;
        row["outages"] = fleet[m].outages;
        row["restored_at"] = fleet[m].restored_at;
        row["removed"] = fleet[m].removed;
        row["energy"] = run.energy(m);
        if (fleet[m].is_instance) row["memory"] = run.scheduler().machines()[m].memory;
        machines.append(row);
    }
    return machines;
}

// The files of each store, by number.
nb::list save_stores(const World& run) {
    const Transfers& transfers = run.state().staging.transfers;
    std::vector<std::vector<FileId>> files(transfers.stores.size());
    transfers.files().each(
        [&](FileId file, StoreId store, double) { files[store].push_back(file); });
    nb::list stores;
    for (const std::vector<FileId>& each : files) stores.append(each);
    return stores;
}

// The tasks that were added in the run.
nb::list save_added(const World& run) {
    const Tasks& tasks = run.scheduler().tasks();
    const std::vector<std::vector<TaskId>> parents = parents_of_added(tasks);
    const auto first = static_cast<TaskId>(tasks.shared().size());
    nb::list added;
    for (TaskId task = first; task < tasks.size(); ++task) {
        nb::dict row = added_task_dict(tasks, task, parents[task - first]);
        row["rejected"] = run.tasks()[task].status == Status::rejected;
        added.append(row);
    }
    return added;
}

nb::dict save_decisions(const World& run) {
    const World::Decisions made = run.decisions();
    nb::dict decisions;
    decisions["call"] = made.call;
    decisions["wake"] = made.wake;
    decisions["decide_at"] = made.decide_at;
    decisions["events"] = made.events;
    decisions["occupied"] = made.occupied;
    decisions["memory"] = made.memory;
    decisions["policy"] = save_policy(run.controller());
    const auto running = run.scheduler().running();
    decisions["running"] = std::vector<TaskId>(running.begin(), running.end());
    return decisions;
}

}  // namespace

nb::dict save_run(const World& run) {
    nb::list executions;
    for (const auto& [task, saved] : run.executions())
        executions.append(execution_dict(task, saved));
    const Source* const source = run.state().submitter.source();
    nb::dict submissions;
    submissions["added"] = run.state().added_by_source;
    submissions["memory"] = source == nullptr ? std::vector<double>() : source->memory();
    submissions["python"] = source == nullptr ? nb::object(nb::none()) : save_source(*source);
    nb::dict found;
    found["tasks"] = save_tasks(run);
    found["executions"] = executions;
    found["machines"] = save_machines(run);
    found["stores"] = save_stores(run);
    found["added"] = save_added(run);
    found["submissions"] = submissions;
    found["decisions"] = save_decisions(run);
    return found;
}

}  // namespace twinloop::bind
