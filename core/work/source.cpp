#include "work/source.hpp"

#include <utility>

namespace twinloop {

Submissions::Submissions(const TaskTable& tasks, SessionColumns sessions)
    : sessions_(std::move(sessions)) {
    if (sessions_.size() > 0) {
        session_of_.assign(tasks.size(), no_session);
        for (std::uint32_t s = 0; s < sessions_.size(); ++s)
            for (std::uint32_t i = sessions_.job_offsets[s]; i < sessions_.job_offsets[s + 1]; ++i)
                session_of_[sessions_.jobs[i]] = s;
    }
    timed_.reserve(tasks.size());
    for (TaskId task = 0; task < tasks.size(); ++task)
        if (!tasks[task].rejected && session_of(task) == no_session)
            timed_.push_back({tasks[task].request.submit, task});
    if (!std::ranges::is_sorted(timed_, {}, &Entry::time))
        std::ranges::stable_sort(timed_, {}, &Entry::time);
}

Source::Source(std::shared_ptr<const Submissions> submissions)
    : submissions_(std::move(submissions)) {
    const SessionColumns& all = submissions_->sessions();
    sessions_.resize(all.size());
    for (std::uint32_t s = 0; s < sessions_.size(); ++s) {
        const std::uint32_t first = all.job_offsets[s];
        const bool independent = all.dependencies[s] == 0;
        sessions_[s] = {independent ? all.starts[s] : -never, all.dependencies[s], first,
                        all.job_offsets[s + 1] - first};
        if (independent) due_.push(all.starts[s], s);
    }
    find_next_timed();
}

void Source::find_next_timed() {
    const std::vector<Submissions::Entry>& timed = submissions_->timed();
    next_timed_ = next_ < timed.size() ? timed[next_].time : never;
    if (next_added_ < added_.size()) next_timed_ = std::min(next_timed_, added_[next_added_].time);
}

bool Source::record_session_end(TaskId task, double now) {
    const std::uint32_t session = submissions_->session_of(task);
    if (session == Submissions::no_session || --sessions_[session].unfinished > 0) return false;
    const SessionColumns& all = submissions_->sessions();
    for (std::uint32_t i = all.successor_offsets[session]; i < all.successor_offsets[session + 1];
         ++i) {
        Progress& next = sessions_[all.successors[i]];
        next.start = std::max(next.start, now + all.think_times[i]);
        if (--next.waits_for == 0) due_.push(next.start, all.successors[i]);
    }
    return true;
}

void Source::add(double time, TaskId task) {
    const auto rest = added_.begin() + static_cast<std::ptrdiff_t>(next_added_);
    added_.insert(std::ranges::upper_bound(rest, added_.end(), time, {}, &Submissions::Entry::time),
                  {time, task});
    find_next_timed();
}

}  // namespace twinloop
