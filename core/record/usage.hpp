// The CPU time of tasks in windows of equal length, from the start of each execution on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "platform/machine.hpp"
#include "work/request.hpp"

namespace twinloop {

class UsageLog {
  public:
    // The usage of one execution on one machine.
    struct Row {
        TaskId task = no_task;
        MachineId machine = no_machine;
        double start = 0.0;
        double end = never;       // infinite while it runs
        std::vector<double> cpu;  // CPU seconds, window by window
    };

    // Windows of length `step`; at most `most` of them in all executions together.
    UsageLog(double step, double most) : step_(step), most_(most) {}

    [[nodiscard]] double step() const { return step_; }
    // More windows were needed than allowed, and counting has stopped.
    [[nodiscard]] bool full() const { return full_; }
    [[nodiscard]] std::span<const Row> rows() const { return rows_; }
    // The number of windows of executions that have ended.
    [[nodiscard]] std::size_t window_count() const {
        std::size_t count = 0;
        for (const Row& row : rows_)
            if (row.end != never) count += row.cpu.size();
        return count;
    }
    // Calls `each(row, end, length, CPU seconds)` for all windows of executions that have ended.
    template <class Each>
    void for_each(Each&& each) const {
        for (const Row& row : rows_) {
            if (row.end == never) continue;
            double begin = row.start;
            for (std::size_t i = 0; i < row.cpu.size(); ++i) {
                const bool last = i + 1 == row.cpu.size();
                const double edge = row.start + static_cast<double>(i + 1) * step_;
                const double end = last ? row.end : edge;
                each(row, end, end - begin, row.cpu[i]);
                begin = end;
            }
        }
    }

    // Begins an execution; returns the index of its first row. The rows of its machines follow.
    std::size_t open(TaskId task, std::span<const Part> parts, double now);
    // Adds usage at a constant rate (CPU seconds per second) since that time.
    void add(std::size_t row, double rate, double since, double now);
    // Ends an execution, and with it its last window.
    void close(std::size_t first, std::span<const Part> parts, double now);

  private:
    bool grow(Row& row, double until);

    double step_;
    double most_;
    double total_ = 0.0;
    bool full_ = false;
    std::vector<Row> rows_;
};

}  // namespace twinloop
