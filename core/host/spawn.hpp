// Starting a process for real: on its CPUs and in its groups before its first instruction.
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
    std::vector<int> groups;  // open files that take the number of a process into a control group
    std::vector<int> cpus;    // empty: those of the caller
    std::uint64_t files = 0;  // how many it may have open; 0: as many as the caller
};

struct Started {
    pid_t process = -1;
    int handle = -1;  // a file that can be read from when the process has ended
};

// A step that failed, as the system says it.
struct StartError : std::exception {
    StartError() = default;
    StartError(int why, const char* where) : number(why), step(where) {}
    [[nodiscard]] const char* what() const noexcept override { return step; }

    int number = 0;
    const char* step = "";
};

// The process leads a session of its own, has no signal blocked or ignored, keeps no other file
// open, and dies with the thread that started it. Throws StartError if it could not be started;
// nothing is left of it then.
Started spawn(const Start& start);

// Whether orphans among the descendants of this process become its children. Returns what was.
bool set_subreaper(bool on);

}  // namespace twinloop
