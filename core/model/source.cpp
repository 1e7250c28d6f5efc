#include "model/source.hpp"

#include <algorithm>
#include <numeric>

namespace twinloop {
namespace {
constexpr std::uint32_t no_session = ~0U;
}

Source::Source(const Problem& problem) {
    const SessionColumns& all = problem.sessions;
    if (!all.empty()) {
        session_of_.assign(problem.size(), no_session);
        progress_.resize(all.job_offsets.size() - 1);
        for (std::uint32_t s = 0; s < progress_.size(); ++s) {
            const std::uint32_t first = all.job_offsets[s];
            const std::uint32_t end = all.job_offsets[s + 1];
            for (std::uint32_t i = first; i < end; ++i) session_of_[all.jobs[i]] = s;
            progress_[s] = {all.dependencies[s] == 0 ? all.starts[s] : -never, all.dependencies[s],
                            first, end - first};
            if (all.dependencies[s] == 0) due_.push(all.starts[s], s);
        }
    }
    for (TaskId task = 0; task < problem.size(); ++task)
        if (problem.rejected[task] == 0 && (session_of_.empty() || session_of_[task] == no_session))
            order_.push_back(task);
    const auto time = [&](TaskId task) { return problem.requests[task].submit; };
    if (!std::ranges::is_sorted(order_, {}, time)) std::ranges::stable_sort(order_, {}, time);
    if (!order_.empty()) next_submit_ = time(order_.front());
}

void Source::ended(const Problem& problem, TaskId task, double now) {
    if (task >= session_of_.size() || session_of_[task] == no_session) return;
    const SessionColumns& all = problem.sessions;
    const std::uint32_t session = session_of_[task];
    if (--progress_[session].unfinished > 0) return;
    for (std::uint32_t i = all.successor_offsets[session]; i < all.successor_offsets[session + 1];
         ++i) {
        Progress& next = progress_[all.successors[i]];
        next.start = std::max(next.start, now + all.think_times[i]);
        if (--next.waits_for == 0) due_.push(next.start, all.successors[i]);
    }
}

void Source::add(const Problem& problem, TaskId task) {
    const auto time = [&](TaskId each) { return problem.requests[each].submit; };
    const auto later = std::ranges::upper_bound(order_.begin() + static_cast<std::ptrdiff_t>(next_),
                                                order_.end(), time(task), {}, time);
    order_.insert(later, task);
    next_submit_ = time(order_[next_]);
}

}  // namespace twinloop
