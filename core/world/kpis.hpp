// The figures of a run, as `twinloop.metrics` defines them.
#pragma once

#include <array>
#include <string_view>

#include "world/world.hpp"

namespace twinloop {

inline constexpr std::array<std::string_view, 36> kpi_names = {"tasks",
                                                               "completed",
                                                               "rejected",
                                                               "killed",
                                                               "failed",
                                                               "lost",
                                                               "makespan_s",
                                                               "wait_mean_s",
                                                               "wait_p50_s",
                                                               "wait_p95_s",
                                                               "wait_p99_s",
                                                               "wait_max_s",
                                                               "turnaround_mean_s",
                                                               "turnaround_p95_s",
                                                               "slowdown_mean",
                                                               "bounded_slowdown_mean",
                                                               "bounded_slowdown_p95",
                                                               "utilisation",
                                                               "throughput_per_s",
                                                               "energy_j",
                                                               "energy_per_task_j",
                                                               "deadline_misses",
                                                               "lateness_mean_s",
                                                               "lateness_relative",
                                                               "lateness_additional_s",
                                                               "events",
                                                               "instances",
                                                               "instances_refused",
                                                               "instances_lost",
                                                               "instances_interrupted",
                                                               "instance_wait_mean_s",
                                                               "instance_core_s",
                                                               "bill",
                                                               "transfer_price",
                                                               "migrations",
                                                               "downtime_s"};

std::array<double, kpi_names.size()> kpis(const World& world);

}  // namespace twinloop
