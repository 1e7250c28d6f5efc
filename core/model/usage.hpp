// The CPU time of tasks in windows of equal length, from the start of each execution on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/request.hpp"

namespace twinloop {

class UsageLog {
  public:
    // What one execution of a task has used on one machine.
    struct Row {
        TaskId task = no_task;
        MachineId machine = no_machine;
        double start = 0.0;
        double end = never;       // as long as it goes on
        std::vector<double> cpu;  // CPU seconds, window by window
    };

    // Windows of length `step`, of all executions together at most `most`.
    UsageLog(double step, double most) : step_(step), most_(most) {}

    [[nodiscard]] double step() const { return step_; }
    // More windows were needed than there may be; it has stopped counting.
    [[nodiscard]] bool full() const { return full_; }
    [[nodiscard]] std::span<const Row> rows() const { return rows_; }
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

    // An execution begins; the rows of its parts follow each other from the place returned on.
    std::size_t open(TaskId task, std::span<const Part> parts, double now);
    // From then on until now it has used so many CPU seconds a second.
    void add(std::size_t row, double rate, double since, double now);
    // It has ended: it has as many windows as it lasted for, and the last one ends with it.
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
