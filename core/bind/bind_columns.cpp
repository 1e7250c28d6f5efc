#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "bind/arrays.hpp"
#include "bind/environment.hpp"
#include "bind/observers.hpp"
#include "kernel/checks.hpp"
#include "kernel/columns.hpp"

namespace twinloop::bind {
namespace {

using Reals = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

struct Result {
    nb::object finish;
    std::uint64_t events;
    nb::object rates;
};

[[noreturn]] void refuse_row(const char* column, std::size_t row, const std::string& rule) {
    throw nb::value_error(
        ("column `" + std::string(column) + "`, row " + std::to_string(row) + ": " + rule).c_str());
}

template <class Check>
void check_column(const char* name, std::span<const double> column, Check&& check) {
    for (std::size_t row = 0; row < column.size(); ++row) {
        try {
            check(column[row]);
        } catch (const std::invalid_argument& error) {
            refuse_row(name, row, error.what());
        }
    }
}

void check_resources(const Columns& columns) {
    const auto hosts = static_cast<std::int64_t>(columns.capacity.size());
    const std::int64_t count = hosts + static_cast<std::int64_t>(columns.lease_host.size());
    const auto alone = [&](std::int64_t id) {
        return id >= hosts || std::ranges::find(columns.lease_host, id) != columns.lease_host.end();
    };
    for (std::size_t row = 0; row < columns.start.size(); ++row) {
        const auto route = columns.resource.subspan(row * columns.width, columns.width);
        bool any = false;
        for (std::size_t i = 0; i < route.size(); ++i) {
            if (route[i] == -1 && columns.width > 1) continue;
            if (route[i] < 0 || route[i] >= count)
                refuse_row("resource", row,
                           "there is no resource " + std::to_string(route[i]) +
                               " (capacity and leases name " + std::to_string(count) + ")");
            if (columns.width > 1 && alone(route[i]))
                refuse_row("resource", row,
                           "a lease, or a resource with leases, can only be used alone: resource " +
                               std::to_string(route[i]));
            for (std::size_t j = 0; j < i; ++j)
                if (route[j] == route[i])
                    refuse_row("resource", row,
                               "resource " + std::to_string(route[i]) + " is listed twice");
            any = true;
        }
        if (!any) refuse_row("resource", row, "an activity needs at least one resource");
    }
}

std::span<const double> reals(const char* name, const std::optional<Reals>& column,
                              std::size_t rows) {
    if (!column) return {};
    if (column->shape(0) != rows)
        throw nb::value_error(("column `" + std::string(name) + "` has " +
                               std::to_string(column->shape(0)) + " rows, `start` has " +
                               std::to_string(rows))
                                  .c_str());
    return {column->data(), column->shape(0)};
}

std::span<const std::int64_t> integers(const char* name, const std::optional<Integers>& column,
                                       std::size_t rows, std::size_t max_dimensions) {
    if (!column) return {};
    if (column->ndim() < 1 || column->ndim() > max_dimensions || column->shape(0) != rows)
        throw nb::value_error(("column `" + std::string(name) +
                               "` must have as many rows as `start` (" + std::to_string(rows) + ")")
                                  .c_str());
    return {column->data(), column->size()};
}

void check_leases(const Columns& columns) {
    const auto hosts = static_cast<std::int64_t>(columns.capacity.size());
    for (std::size_t row = 0; row < columns.lease_host.size(); ++row)
        if (columns.lease_host[row] < 0 || columns.lease_host[row] >= hosts)
            refuse_row("leases", row,
                       "there is no host " + std::to_string(columns.lease_host[row]));
    check_column("leases", columns.lease_size, [](double size) { check_positive("size", size); });
    check_column("leases", columns.lease_weight, [](double weight) {
        if (weight != 0.0) check_positive("weight", weight);
    });
}

[[noreturn]] void raise_stalled(const std::vector<Stalled>& stalled) {
    const std::string where = "resource " + std::to_string(stalled.front().where);
    const std::string message =
        std::to_string(stalled.size()) + " of the rows can never end; row " +
        std::to_string(stalled.front().slot) + ": " + why(stalled.front(), where);
    PyErr_SetString(types.stalled, message.c_str());
    throw nb::python_error();
}

Result run(const Reals& start, const Reals& work, const std::optional<Reals>& capacity,
           const std::optional<Integers>& resource, const std::optional<Reals>& limit,
           const std::optional<Reals>& weight, const std::optional<Integers>& kind,
           nb::handle efficiency, const std::optional<Integers>& lease_host,
           const std::optional<Reals>& lease_size, const std::optional<Reals>& lease_weight,
           bool record) {
    static constexpr double one = 1.0;
    const std::size_t rows = start.shape(0);
    Columns columns;
    columns.start = {start.data(), rows};
    columns.work = reals("work", work, rows);
    columns.limit = reals("limit", limit, rows);
    columns.weight = reals("weight", weight, rows);
    columns.kind = integers("kind", kind, rows, 1);
    columns.resource = integers("resource", resource, rows, 2);
    if (resource && resource->ndim() == 2) columns.width = resource->shape(1);
    columns.capacity =
        capacity ? std::span(capacity->data(), capacity->shape(0)) : std::span(&one, 1);
    if (lease_host) {
        const std::size_t leases = lease_host->shape(0);
        columns.lease_host = integers("leases", lease_host, leases, 1);
        columns.lease_size = reals("leases", lease_size, leases);
        columns.lease_weight = reals("leases", lease_weight, leases);
    }
    if (PyCallable_Check(efficiency.ptr()))
        throw nb::type_error("run_columns takes efficiencies as a table, not as a function");
    columns.efficiency = efficiency_from(efficiency);

    check_column("start", columns.start, [](double value) { check_not_negative("start", value); });
    check_column("work", columns.work, [](double value) { check_not_negative("work", value); });
    check_column("limit", columns.limit, [](double value) { check_limit(value); });
    check_column("weight", columns.weight, [](double value) { check_positive("weight", value); });
    check_column("capacity", columns.capacity,
                 [](double value) { check_not_negative("capacity", value); });
    for (std::size_t row = 0; row < columns.kind.size(); ++row)
        if (columns.kind[row] < 0 || columns.kind[row] > std::int64_t{largest_kind})
            refuse_row("kind", row, "a kind must be between 0 and 65535");
    check_leases(columns);
    if (resource) check_resources(columns);
    if (!resource && columns.capacity.size() != 1 && rows > 0)
        throw nb::value_error("with several capacities, give the column `resource`");

    ColumnRun done;
    {
        const nb::gil_scoped_release released;
        done = run_columns(columns, record, [] {
            const nb::gil_scoped_acquire held;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
    }
    if (!done.stalled.empty()) raise_stalled(done.stalled);
    return {as_array(std::move(done.finish)), done.events,
            done.rates ? nb::object(rate_columns(*done.rates)) : nb::none()};
}

}  // namespace

void bind_columns(nb::module_& module) {
    nb::class_<Result>(module, "ColumnRun", nb::is_final(), "The result of `run_columns`.")
        .def_prop_ro(
            "finish", [](const Result& self) { return self.finish; },
            nb::sig("def finish(self) -> numpy.typing.NDArray[numpy.float64]"),
            "The finish time of each row.")
        .def_prop_ro(
            "events", [](const Result& self) { return self.events; },
            "The number of starts and ends.")
        .def_prop_ro(
            "rates", [](const Result& self) { return self.rates; },
            nb::sig("def rates(self) -> dict[str, numpy.typing.NDArray[typing.Any]] | None"),
            "With `record`: the rates over time, in the columns of `Recording.rates`.");

    module.def(
        "run_columns_native", &run, nb::arg("start"), nb::arg("work"), nb::kw_only(),
        nb::arg("capacity").none(), nb::arg("resource").none(), nb::arg("limit").none(),
        nb::arg("weight").none(), nb::arg("kind").none(), nb::arg("efficiency").none(),
        nb::arg("lease_host").none(), nb::arg("lease_size").none(), nb::arg("lease_weight").none(),
        nb::arg("record"),
        nb::sig("def run_columns_native(start: numpy.typing.NDArray[numpy.float64], work: "
                "numpy.typing.NDArray[numpy.float64], *, capacity: "
                "numpy.typing.NDArray[numpy.float64] | None, resource: "
                "numpy.typing.NDArray[numpy.int64] | None, limit: "
                "numpy.typing.NDArray[numpy.float64] | None, weight: "
                "numpy.typing.NDArray[numpy.float64] | None, kind: "
                "numpy.typing.NDArray[numpy.int64] | None, efficiency: "
                "collections.abc.Mapping[int, collections.abc.Sequence[float]] | None, "
                "lease_host: numpy.typing.NDArray[numpy.int64] | None, lease_size: "
                "numpy.typing.NDArray[numpy.float64] | None, lease_weight: "
                "numpy.typing.NDArray[numpy.float64] | None, record: bool) -> ColumnRun"),
        "Native part of `twinloop.engine.run_columns`, which converts its arguments to columns.");
}

}  // namespace twinloop::bind
