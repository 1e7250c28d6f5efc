// Hardware performance counters of a process, where the kernel permits them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace twinloop {

// Opens the counters of a process and of its future children: name and file descriptor of each.
// Counters that are not available to this user are left out.
std::vector<std::pair<std::string_view, int>> open_counters(pid_t process);

// The current count; a multiplexed counter is scaled to the whole time. Empty if it never counted.
std::optional<std::int64_t> read_counter(int counter);

}  // namespace twinloop
