// What the CPU counts of a process, where the kernel lets anybody look.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace twinloop {

// Opens the counters of a process and of all that it starts from now on: name and file of each.
// Those that the machine or the kernel does not have, or does not show to this user, are left out.
std::vector<std::pair<std::string_view, int>> open_counters(pid_t process);

// The count so far; a counter that had to share its register with others is scaled to the whole
// time. Nothing if it never counted.
std::optional<std::int64_t> read_counter(int counter);

}  // namespace twinloop
