#include "work/source.hpp"

#include <utility>

namespace twinloop {

std::vector<TaskId> find_parents(const Tasks& tasks, const NewTask& given) {
    std::vector<TaskId> parents;
    parents.reserve(given.parents.size());
    for (const auto& each : given.parents) {
        const auto* const name = std::get_if<std::string>(&each);
        const TaskId parent = name == nullptr ? std::get<TaskId>(each) : tasks.find(*name);
        if (parent >= tasks.size())
            throw SourceError("the task '" + given.name + "' depends on " +
                              (name == nullptr ? std::to_string(parent) : "'" + *name + "'") +
                              ", which is no task of the workload and has not been submitted");
        parents.push_back(parent);
    }
    return parents;
}

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

SessionSource::SessionSource(std::shared_ptr<const Submissions> submissions)
    : submissions_(std::move(submissions)) {
    const SessionColumns& all = submissions_->sessions();
    sessions_.resize(all.size());
    for (std::uint32_t s = 0; s < sessions_.size(); ++s) {
        sessions_.edit(s) = initial(s);
        if (all.dependencies[s] == 0) due_.push(all.starts[s], s);
    }
}

SessionSource::Progress SessionSource::initial(std::uint32_t session) const {
    const SessionColumns& all = submissions_->sessions();
    const std::uint32_t first = all.job_offsets[session];
    return {all.dependencies[session] == 0 ? all.starts[session] : -never,
            all.dependencies[session], first, all.job_offsets[session + 1] - first};
}

std::vector<double> SessionSource::memory() const {
    std::vector<double> memory{static_cast<double>(next_timed_)};
    for (std::uint32_t s = 0; s < sessions_.size(); ++s) {
        const Progress& mine = sessions_[s];
        if (mine == initial(s)) continue;
        for (const std::uint32_t each : {s, mine.waits_for, mine.next, mine.unfinished})
            memory.push_back(each);
        memory.push_back(mine.start);
    }
    return memory;
}

void SessionSource::restore_memory(std::span<const double> memory) {
    constexpr std::size_t width = 5;
    const SessionColumns& all = submissions_->sessions();
    if (memory.size() % width != 1) throw std::invalid_argument("the sessions cannot be read");
    *this = SessionSource(submissions_);
    next_timed_ = static_cast<std::size_t>(memory.front());
    due_ = {};
    for (auto row = memory.subspan(1); !row.empty(); row = row.subspan(width)) {
        const auto session = static_cast<std::uint32_t>(row[0]);
        if (!(row[0] >= 0 && session < sessions_.size() && row[2] >= all.job_offsets[session] &&
              row[2] <= all.job_offsets[session + 1]))
            throw std::invalid_argument("there is no such session");
        sessions_.edit(session) = {row[4], static_cast<std::uint32_t>(row[1]),
                                   static_cast<std::uint32_t>(row[2]),
                                   static_cast<std::uint32_t>(row[3])};
    }
    for (std::uint32_t s = 0; s < sessions_.size(); ++s) {
        const Progress& mine = sessions_[s];
        if (mine.waits_for == 0 && mine.next < all.job_offsets[s + 1])
            due_.push(mine.start + all.delays[mine.next], s);
    }
}

void SessionSource::take(double now, const Tasks& /*tasks*/, Submission& submission) {
    const std::vector<Submissions::Entry>& timed = submissions_->timed();
    while (next_timed_ < timed.size() && timed[next_timed_].time <= now)
        submission.tasks.push_back(timed[next_timed_++].task);
    while (!due_.empty() && due_.front().key() <= now) {
        const auto session = static_cast<std::uint32_t>(due_.front().tag);
        due_.pop();
        advance(session, now, submission.tasks);
    }
    std::ranges::sort(submission.tasks);
}

void SessionSource::advance(std::uint32_t session, double now, std::vector<TaskId>& tasks) {
    const SessionColumns& all = submissions_->sessions();
    Progress& mine = sessions_.edit(session);
    const std::uint32_t end = all.job_offsets[session + 1];
    while (mine.next < end && mine.start + all.delays[mine.next] <= now)
        tasks.push_back(all.jobs[mine.next++]);
    if (mine.next < end) due_.push(mine.start + all.delays[mine.next], session);
}

bool SessionSource::record_end(TaskId task, double end, Status /*status*/) {
    const std::uint32_t session = submissions_->session_of(task);
    if (session == Submissions::no_session || --sessions_.edit(session).unfinished > 0)
        return false;
    const SessionColumns& all = submissions_->sessions();
    for (std::uint32_t i = all.successor_offsets[session]; i < all.successor_offsets[session + 1];
         ++i) {
        Progress& next = sessions_.edit(all.successors[i]);
        next.start = std::max(next.start, end + all.think_times[i]);
        if (--next.waits_for == 0) due_.push(next.start, all.successors[i]);
    }
    return true;
}

}  // namespace twinloop
