// Work of a known amount: every kind has its own unit, and all units of a kind cost the same.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace twinloop::burn {

enum class Kind : std::uint8_t { cpu, memory, stream, cache, mixed, sleep, io };

inline constexpr std::array<std::string_view, 7> kind_names{"cpu",   "memory", "stream", "cache",
                                                            "mixed", "sleep",  "io"};

inline std::string_view name_of(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::optional<Kind> kind_of(std::string_view name);

// The work of one thread, which depends only on the seed.
class Work {
  public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    Work(Work&&) = delete;
    Work& operator=(Work&&) = delete;
    virtual ~Work() = default;

    virtual void run(std::uint64_t units) = 0;
    // Checksum of all units so far, so that the compiler cannot remove any work.
    virtual std::uint64_t checksum() const = 0;
    // Units of one pass over its memory.
    virtual std::uint64_t round() const { return 1; }
};

std::unique_ptr<Work> cpu_work(std::uint64_t seed);
std::unique_ptr<Work> memory_work(std::uint64_t seed);
std::unique_ptr<Work> stream_work(std::uint64_t seed);
std::unique_ptr<Work> cache_work(std::uint64_t seed);
std::unique_ptr<Work> sleep_work();
std::unique_ptr<Work> io_work(std::uint64_t seed);

// Units of `sleep` and of `io` per second of wall-clock time.
inline constexpr double sleep_rate = 1e6;
inline constexpr double io_rate = 20.0;

// The parts of a second of `mixed`, in this order.
struct Phase {
    Kind kind;
    double share;
};
inline constexpr std::array<Phase, 3> mixed_phases{
    {{Kind::cpu, 0.4}, {Kind::sleep, 0.2}, {Kind::memory, 0.4}}};

// Work of any kind except `mixed`, which consists of other kinds.
std::unique_ptr<Work> work_of(Kind kind, std::uint64_t seed);

}  // namespace twinloop::burn
