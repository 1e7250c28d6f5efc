#include "work/submitter.hpp"

namespace twinloop {

Submitter::Submitter(std::shared_ptr<const Submissions> submissions, std::unique_ptr<Source> source)
    : submissions_(std::move(submissions)), source_(std::move(source)) {
    if (!source_ && submissions_->sessions().size() > 0)
        source_ = std::make_unique<SessionSource>(submissions_);
    if (!source_) {
        next_ = submissions_->timed().data();
        timed_end_ = next_ + submissions_->timed().size();
    }
    find_next_timed();
}

Submitter::Submitter(const Submitter& other)
    : submissions_(other.submissions_), source_(other.source_ ? other.source_->clone() : nullptr),
      next_(other.next_), timed_end_(other.timed_end_),
      added_(other.added_.begin() + static_cast<std::ptrdiff_t>(other.next_added_),
             other.added_.end()),
      next_timed_(other.next_timed_) {}

void Submitter::add(double time, TaskId task) {
    const auto rest = added_.begin() + static_cast<std::ptrdiff_t>(next_added_);
    added_.insert(std::ranges::upper_bound(rest, added_.end(), time, {}, &Submissions::Entry::time),
                  {time, task});
    find_next_timed();
}

}  // namespace twinloop
