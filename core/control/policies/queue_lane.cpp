#include "control/policies/queue_lane.hpp"

#include <algorithm>

namespace twinloop {

void Lane::summarise(std::size_t block) {
    Summary& summary = summaries_[block];
    summary = {};
    for (const Waiting& task : tasks_.block(block)) {
        summary.cores = std::min(summary.cores, task.cores);
        double& own = summary.shortest[core_class(task.cores)];
        own = std::min(own, task.time);
    }
    for (std::size_t at = 1; at < core_classes; ++at)
        summary.shortest[at] = std::min(summary.shortest[at], summary.shortest[at - 1]);
}

void Lane::insert(const Waiting& task) {
    const auto [block, split] = tasks_.insert(task);
    if (split) {
        summaries_.insert(summaries_.begin() + static_cast<std::ptrdiff_t>(block) + 1, Summary());
        summarise(block);
        summarise(block + 1);
    } else {
        summaries_[block].add(task);
    }
}

void Lane::erase(Place& place) {
    if (tasks_.erase(place)) {
        summaries_.erase(summaries_.begin() + static_cast<std::ptrdiff_t>(place.block));
        place.index = 0;
    } else {
        summaries_[place.block].exact = false;
    }
}

const Waiting* Lane::at(Place& place) const {
    for (; place.block < tasks_.blocks(); ++place.block, place.index = 0)
        if (place.index < tasks_.block(place.block).size()) return &tasks_.at(place);
    return nullptr;
}

}  // namespace twinloop
