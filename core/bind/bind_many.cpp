#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "bind/arrays.hpp"
#include "bind/event.hpp"
#include "bind/policies.hpp"
#include "world/kpis.hpp"
#include "world/power_series.hpp"
#include "world/world.hpp"

namespace twinloop::bind {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Calls `work(row)` for each row on several threads, including this one; results do not depend on
// the order. This thread also checks for Ctrl-C: rows in progress are finished, no other is begun.
template <class Work>
void on_threads(std::size_t rows, unsigned threads, Work&& work) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(50);
    std::exception_ptr failure;
    bool interrupted = false;
    {
        const nb::gil_scoped_release released;
        std::atomic<std::size_t> next{0};
        std::mutex guard;
        const auto go = [&](auto&& between) {
            try {
                for (std::size_t row = next++; row < rows; row = next++) {
                    work(row);
                    between();
                }
            } catch (...) {
                const std::scoped_lock lock(guard);
                failure = std::current_exception();
                next = rows;
            }
        };
        std::vector<std::jthread> others;
        const std::size_t wanted = std::min<std::size_t>(std::max(1U, threads), rows);
        for (std::size_t i = 1; i < wanted; ++i) others.emplace_back([&] { go([] {}); });
        auto looked = Clock::now();
        go([&] {
            if (interrupted || Clock::now() - looked < patience) return;
            looked = Clock::now();
            const nb::gil_scoped_acquire held;
            if (PyErr_CheckSignals() == 0) return;
            next = rows;
            interrupted = true;
        });
    }
    if (interrupted) throw nb::python_error();
    if (failure) std::rethrow_exception(failure);
}

std::vector<std::unique_ptr<Controller>> clone(
    std::span<const std::unique_ptr<Controller>> controllers) {
    std::vector<std::unique_ptr<Controller>> copies;
    for (const auto& each : controllers) copies.push_back(each->clone());
    return copies;
}

// A column of task outcomes: of all tasks, or of the completed ones.
using TaskColumn = double (*)(const World&, TaskId);

template <double Outcome::* Time>
double any(const World& run, TaskId task) {
    return run.tasks()[task].*Time;
}

template <TaskColumn Of>
double completed(const World& run, TaskId task) {
    return run.tasks()[task].status == Status::completed ? Of(run, task) : unknown;
}

double run_time(const World& run, TaskId task) {
    return run.tasks()[task].end - run.tasks()[task].last_start;
}

double machine(const World& run, TaskId task) {
    return static_cast<double>(run.state().records.last_machines[task]);
}

const std::map<std::string, TaskColumn>& task_columns() {
    static const std::map<std::string, TaskColumn> all = {
        {"starts", any<&Outcome::start>},
        {"ends", any<&Outcome::end>},
        {"task_submit", completed<any<&Outcome::submit>>},
        {"task_ready", completed<any<&Outcome::ready>>},
        {"task_start", completed<any<&Outcome::start>>},
        {"task_end", completed<any<&Outcome::end>>},
        {"task_run_time", completed<run_time>},
        {"task_cpu", completed<any<&Outcome::used>>},
        {"task_machine", completed<machine>}};
    return all;
}

// The columns of a matrix; those of the scenario by default.
const ValueColumns& columns_of(const ScenarioHandle& scenario, const Matrix& matrix,
                               const ValueColumns* columns) {
    const ValueColumns& used = columns == nullptr ? scenario.scenario->columns : *columns;
    if (used.size() != matrix.shape(1))
        throw nb::value_error("the width of a row does not match its columns");
    return used;
}

// One run for each row of the matrix: its KPIs, its task columns, and the time of the next event of
// runs that need failures beyond the known horizon (NaN for complete runs).
nb::object run_many(const ScenarioHandle& scenario, nb::handle policy, const Matrix& matrix,
                    const ValueColumns* its_columns, unsigned threads, bool figures,
                    const std::vector<std::string>& columns) {
    const std::size_t rows = matrix.shape(0);
    const ValueColumns& used = columns_of(scenario, matrix, its_columns);
    const auto prototype = policy_from(policy, scenario.names, 0);
    if (prototype->foreign())
        throw nb::type_error(
            "a policy in Python cannot run on native threads: use a built-in policy");
    const auto providers = providers_from(scenario, 0);
    if (std::ranges::any_of(providers, [](const auto& each) { return each->foreign(); }))
        throw nb::type_error(
            "a controller in Python cannot run on native threads: use a built-in controller");
    const std::size_t tasks = scenario.scenario->size();
    std::vector<double> found(figures ? rows * kpi_names.size() : 0);
    std::vector<TaskColumn> wanted;
    Recording recording;
    for (const std::string& name : columns) {
        wanted.push_back(task_columns().at(name));
        if (name == "task_machine") recording.machines = true;
    }
    std::vector<std::vector<double>> values(wanted.size(), std::vector<double>(rows * tasks));
    std::vector<double> unfinished(rows, unknown);
    // Another thread may extend the failures of the scenario once the interpreter lock is released.
    const std::shared_ptr<const Outages> outages = scenario.scenario->outages;
    on_threads(rows, threads, [&](std::size_t row) {
        const std::span<const double> given(matrix.data() + row * matrix.shape(1), matrix.shape(1));
        World run(scenario.scenario, outages, scenario.scenario->values(given, used),
                  prototype->clone(), recording, nullptr, clone(providers));
        while (run.step()) {
        }
        if (run.needs_outages()) {
            unfinished[row] = run.next_time();
            return;
        }
        if (figures)
            std::ranges::copy(kpis(run),
                              found.begin() + static_cast<std::ptrdiff_t>(row * kpi_names.size()));
        for (std::size_t i = 0; i < wanted.size(); ++i)
            for (TaskId task = 0; task < tasks; ++task)
                values[i][row * tasks + task] = wanted[i](run, task);
    });
    nb::list arrays;
    for (auto& each : values) arrays.append(as_array(std::move(each)));
    return nb::make_tuple(as_array(std::move(found)), arrays, as_array(std::move(unfinished)));
}

// The power for each row of model values under the same loads.
nb::object watts(const LoadProfile& self, const ScenarioHandle& scenario, const Matrix& matrix,
                 const ValueColumns* columns, unsigned threads) {
    const ValueColumns& used = columns_of(scenario, matrix, columns);
    const Scenario& all = *scenario.scenario;
    const std::size_t windows = self.windows();
    std::vector<double> means(matrix.shape(0) * windows);
    on_threads(matrix.shape(0), threads, [&](std::size_t row) {
        const std::span<const double> given(matrix.data() + row * matrix.shape(1), matrix.shape(1));
        const ModelValues values = all.values(given, used);
        std::vector<std::shared_ptr<const PowerModel>> models;
        models.reserve(self.groups());
        for (std::size_t group = 0; group < self.groups(); ++group)
            models.push_back(all.power_of(values, all.first_of_group(group)));
        self.watts(models, std::span(means).subspan(row * windows, windows));
    });
    return as_array(std::move(means));
}

}  // namespace

void bind_many(nb::module_& module) {
    nb::list names;
    for (const std::string_view each : kpi_names) names.append(nb::str(each.data(), each.size()));
    module.attr("KPI_NAMES") = nb::tuple(names);
    module.def("run_many", &run_many, nb::arg("scenario"), nb::arg("policy"), nb::arg("matrix"),
               nb::arg("value_columns").none() = nb::none(), nb::kw_only(), nb::arg("threads"),
               nb::arg("figures"), nb::arg("columns"),
               nb::sig("def run_many(scenario: NativeScenario, policy: object, matrix: "
                       "numpy.typing.NDArray[numpy.float64], value_columns: ValueColumns | None "
                       "= None, *, threads: int, figures: bool, "
                       "columns: list[str]) -> tuple[numpy.typing.NDArray[numpy.float64], "
                       "list[numpy.typing.NDArray[numpy.float64]], "
                       "numpy.typing.NDArray[numpy.float64]]"));
    nb::class_<LoadProfile>(module, "LoadProfile", nb::is_final(),
                            "The load of the machines in each window of a run.")
        .def_prop_ro("windows", &LoadProfile::windows)
        .def("watts", &watts, nb::arg("scenario"), nb::arg("matrix"),
             nb::arg("columns").none() = nb::none(), nb::kw_only(), nb::arg("threads"),
             nb::sig("def watts(self, scenario: NativeScenario, matrix: "
                     "numpy.typing.NDArray[numpy.float64], columns: ValueColumns | None = None, "
                     "*, threads: int) -> "
                     "numpy.typing.NDArray[numpy.float64]"));
}

}  // namespace twinloop::bind
