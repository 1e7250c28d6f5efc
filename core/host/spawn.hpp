// Start of a process on its CPUs and in its control groups, before its first instruction.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace twinloop {

struct Start {
    std::string program;  // path of the file to execute
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // NAME=VALUE
    std::string folder;
    int input = -1;
    int output = -1;
    int errors = -1;
    std::vector<int> groups;  // open `cgroup.procs` files of the control groups to join
    std::vector<int> cpus;    // empty: CPUs of the caller
    std::uint64_t files = 0;  // limit on open files; 0: limit of the caller
};

struct Started {
    pid_t process = -1;
    int handle = -1;  // a file descriptor that becomes readable when the process ends
};

// A failed step with its system error.
struct StartError : std::exception {
    StartError() = default;
    StartError(int why, const char* where) : number(why), step(where) {}
    [[nodiscard]] const char* what() const noexcept override { return step; }

    int number = 0;
    const char* step = "";
};

// The process leads a new session, has no signal blocked or ignored, has no other open files, and
// is killed when the thread that started it ends. Throws StartError if it cannot be started;
// no process remains then.
Started spawn(const Start& start);

// Sets whether orphaned descendants become children of this process; returns the previous setting.
bool set_subreaper(bool on);

}  // namespace twinloop
