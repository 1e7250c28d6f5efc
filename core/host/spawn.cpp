#include "host/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace twinloop {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> found;
    found.reserve(texts.size() + 1);
    // execve takes pointers to non-const char for historical reasons; it changes nothing.
    for (const std::string& text : texts) found.push_back(const_cast<char*>(text.c_str()));
    found.push_back(nullptr);
    return found;
}

// All data of the child, prepared before the fork: the child must not allocate memory.
struct Child {
    const Start& start;
    std::vector<char*> arguments;
    std::vector<char*> environment;
    cpu_set_t cpus{};
    pid_t parent = 0;
    StartError failure;

    explicit Child(const Start& wanted)
        : start(wanted), arguments(pointers(wanted.arguments)),
          environment(pointers(wanted.environment)), parent(::getpid()) {
        CPU_ZERO(&cpus);
        for (const int cpu : wanted.cpus) {
            if (cpu < 0 || cpu >= CPU_SETSIZE) throw StartError{EINVAL, "affinity"};
            CPU_SET(static_cast<std::size_t>(cpu), &cpus);
        }
    }

    [[noreturn]] void fail(const char* what) {
        failure.number = errno;
        failure.step = what;
        ::_exit(127);
    }

    void join_groups() {
        // 0 stands for the writing process.
        for (const int group : start.groups)
            if (::write(group, "0", 1) != 1) fail("cgroup");
    }

    void reset_signals() const {
        struct sigaction usual{};
        usual.sa_handler = SIG_DFL;
        for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
    }

    void take_files() {
        const std::array<int, 3> given{start.input, start.output, start.errors};
        std::array<int, 3> kept{};
        // Move the descriptors out of the way first: one may occupy the number of another.
        for (std::size_t i = 0; i < given.size(); ++i)
            if (kept[i] = ::fcntl(given[i], F_DUPFD, 3); kept[i] < 0) fail("files");
        for (std::size_t i = 0; i < given.size(); ++i)
            if (::dup2(kept[i], static_cast<int>(i)) < 0) fail("files");
#ifdef SYS_close_range
        constexpr unsigned close_on_exec = 4;
        if (::syscall(SYS_close_range, 3U, ~0U, close_on_exec) == 0) return;
#endif
        for (const int file : kept) ::close(file);
    }

    void limit_files() const {
        rlimit limit{};
        if (start.files == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
        limit.rlim_cur = start.files;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }

    [[noreturn]] void run() {
        ::setsid();
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(127);
        join_groups();
        if (!start.cpus.empty() && ::sched_setaffinity(0, sizeof cpus, &cpus) != 0)
            fail("affinity");
        take_files();
        limit_files();
        if (::chdir(start.folder.c_str()) != 0) fail("folder");
        reset_signals();
        ::execve(start.program.c_str(), arguments.data(), environment.data());
        fail("program");
    }
};

}  // namespace

Started spawn(const Start& start) {
    Child child(start);
    // The child shares this memory until execve: no signal handler may run in it.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t process = ::vfork();  // NOLINT(bugprone-unsafe-functions)
    if (process == 0) child.run();
    const int why = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (process < 0) throw StartError{why, "process"};
    if (child.failure.number != 0) {
        while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
        }
        throw child.failure;
    }
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    if (handle < 0) {
        const int reason = errno;
        ::kill(process, SIGKILL);
        while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
        }
        throw StartError{reason, "handle"};
    }
    return {process, handle};
}

bool set_subreaper(bool on) {
    int before = 0;
    ::prctl(PR_GET_CHILD_SUBREAPER, &before);
    ::prctl(PR_SET_CHILD_SUBREAPER, on ? 1UL : 0UL);
    return before != 0;
}

}  // namespace twinloop
