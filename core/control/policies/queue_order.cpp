#include "control/policies/queue_order.hpp"

#include <algorithm>

namespace twinloop {

Queue::Queue(const BatchOptions& options)
    : order_(options.order), by_group_(options.by_group), age_(options.age),
      shares_(options.half_life), lanes_(1), ranked_(1) {}

Waiting Queue::entry(const SchedulerState& scheduler, TaskId task) const {
    const Request& request = scheduler.request(task);
    Waiting waiting{0.0, scheduler.arrival(task), request.cores, scheduler.planned_time(task), task,
                    0};
    switch (order_) {
        case QueueOrder::arrival:
            break;
        case QueueOrder::shortest:
            waiting.key = waiting.time;
            break;
        case QueueOrder::longest:
            waiting.key = -waiting.time;
            break;
        case QueueOrder::priority:
            // All tasks age equally, so the order of two tasks never changes.
            waiting.key = age_ * scheduler.submit_time(task) - request.priority;
            break;
        case QueueOrder::fair_share:
            waiting.lane = static_cast<std::uint32_t>(owner(request));
            break;
    }
    return waiting;
}

void Queue::insert(const Waiting& task) {
    if (task.lane >= lanes_.size()) lanes_.resize(task.lane + 1);
    Lane& lane = lanes_[task.lane];
    if (fair() && lane.empty()) busy_.push_back(task.lane);
    lane.insert(task);
    ++size_;
}

void Queue::erase(const Waiting& task) {
    Lane& lane = lanes_[task.lane];
    Lane::Place place = lane.find(task);
    lane.erase(place);
    --size_;
    if (fair() && lane.empty()) std::erase(busy_, task.lane);
}

void Queue::placed(const SchedulerState& scheduler, TaskId task) {
    if (!fair()) return;
    const Request& request = scheduler.request(task);
    shares_.start(owner(request), request.cores, scheduler.now());
}

void Queue::ended(const SchedulerState& scheduler, TaskId task) {
    if (!fair()) return;
    const Request& request = scheduler.request(task);
    shares_.stop(owner(request), request.cores, scheduler.now());
}

void Queue::rank(double now) {
    if (!fair()) return;
    ranked_.clear();
    for (const std::uint32_t lane : busy_) ranked_.push_back({shares_.use(lane, now), lane});
    std::ranges::sort(ranked_, [](const Ranked& a, const Ranked& b) {
        return a.use < b.use || (a.use == b.use && a.lane < b.lane);
    });
}

void Queue::Cursor::open() {
    first_ = last_;
    const auto& ranked = queue_->ranked_;
    while (last_ < ranked.size() && ranked[last_].use == ranked[first_].use) ++last_;
    queue_->places_.assign(last_ - first_, {});
}

const Waiting* Queue::Cursor::next() {
    return first([](const Lane& lane, Lane::Place& place) { return lane.at(place); });
}

const Waiting* Queue::Cursor::next_within(double cores) {
    Limits limits;
    limits.allow(cores, never);
    return next(limits, [cores](const Waiting& task) { return task.cores <= cores; });
}

void Queue::Cursor::take() {
    const std::uint32_t id = queue_->ranked_[first_ + chosen_].lane;
    Lane& lane = queue_->lanes_[id];
    lane.erase(queue_->places_[chosen_]);
    --queue_->size_;
    if (queue_->fair() && lane.empty()) std::erase(queue_->busy_, id);
}

}  // namespace twinloop
