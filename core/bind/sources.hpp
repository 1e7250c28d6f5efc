// Sources in the Python interface.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "bind/policies.hpp"
#include "work/source.hpp"

namespace twinloop::bind {

// The source of a run of that scenario: the state of a source in Python (an object of
// `twinloop.engine.run_source`), or nullptr for None: that of the scenario.
std::unique_ptr<Source> source_from(nb::handle state, const ScenarioHandle& scenario);

// The row of a new task, an object of `twinloop.engine.new_rows`, which has checked its values.
NewTask new_task_from(nb::handle given);
// The values of such a row by name; those of a row that was added, and its parents.
nb::dict new_task_dict(const NewTask& given);
nb::dict added_task_dict(const Tasks& tasks, TaskId task, const std::vector<TaskId>& parents);
// The parents of each task that was added, in their order.
std::vector<std::vector<TaskId>> parents_of_added(const Tasks& tasks);

// What a source in Python needs to go on in another run, and in that run; None for a native source.
nb::object save_source(const Source& source);
void restore_source(Source& source, nb::handle saved);

}  // namespace twinloop::bind
