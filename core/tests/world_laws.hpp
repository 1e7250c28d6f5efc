// Laws of worlds, checked by simple recomputation; each aborts with a message if it does not hold.
#pragma once

#include "world/world.hpp"

// At any time: free and occupied capacity, limits of queues, rates, use of stores, and energy as
// the integral of power. `overcommits`: tasks may have more cores than their machines.
void check_state(const twinloop::World& world, bool overcommits);
// At the end: all tasks have ended, nothing is left over, and times and work are consistent.
// `instant`: the last instant that was processed.
void check_end(const twinloop::World& world, double instant);
// Two worlds have the same state and the same records, bit by bit.
void check_equal(const twinloop::World& left, const twinloop::World& right);
