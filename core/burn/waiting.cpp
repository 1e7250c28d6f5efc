// Work that mostly waits: for a timer, or for a disk.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "clocks.hpp"
#include "draws.hpp"
#include "work.hpp"

namespace twinloop::burn {

namespace {

// A unit is a microsecond.
class Sleep final : public Work {
  public:
    void run(std::uint64_t units) override {
        wait_until(wall_seconds() + static_cast<double>(units) / sleep_rate);
    }
    std::uint64_t checksum() const override { return 0; }
};

[[noreturn]] void refuse(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// An unnamed temporary file, which disappears when the process ends.
class Scratch {
  public:
    Scratch() {
        const char* folder = std::getenv("TMPDIR");
        std::string path = folder != nullptr && *folder != '\0' ? folder : "/tmp";
#ifdef O_TMPFILE
        file_ = open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (file_ >= 0) return;
#endif
        // Not every file system supports unnamed files.
        path += "/twinloop-burn-XXXXXX";
        file_ = mkstemp(path.data());
        if (file_ < 0) refuse(path);
        unlink(path.c_str());
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Scratch(Scratch&&) = delete;
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch() { close(file_); }

    void write(const std::vector<std::uint64_t>& block) const {
        const auto* bytes = reinterpret_cast<const char*>(block.data());
        const std::size_t size = block.size() * sizeof(block[0]);
        for (std::size_t done = 0; done < size;) {
            const ssize_t some = pwrite(file_, bytes + done, size - done, static_cast<off_t>(done));
            if (some < 0) refuse("write");
            done += static_cast<std::size_t>(some);
        }
        if (fsync(file_) != 0) refuse("fsync");
    }

    void read(std::vector<std::uint64_t>& block) const {
#ifdef POSIX_FADV_DONTNEED
        // Read from the disk, not from the page cache.
        posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
#endif
        auto* bytes = reinterpret_cast<char*>(block.data());
        const std::size_t size = block.size() * sizeof(block[0]);
        for (std::size_t done = 0; done < size;) {
            const ssize_t some = pread(file_, bytes + done, size - done, static_cast<off_t>(done));
            if (some < 0) refuse("read");
            if (some == 0)
                throw std::runtime_error("the scratch file is shorter than what was written to it");
            done += static_cast<std::size_t>(some);
        }
    }

  private:
    int file_ = -1;
};

// A unit is a block that is written, synchronised and read back, at a fixed rate: the duration is
// known if the disk is fast enough.
class Io final : public Work {
  public:
    explicit Io(std::uint64_t seed) : draws_(seed) {}

    void run(std::uint64_t units) override {
        const double begin = wall_seconds();
        for (std::uint64_t done = 1; done <= units; ++done) {
            for (auto& word : block_) word = draws_.next();
            scratch_.write(block_);
            scratch_.read(block_);
            for (const auto word : block_) sum_ += word;
            wait_until(begin + static_cast<double>(done) / io_rate);
        }
    }

    std::uint64_t checksum() const override { return sum_; }

  private:
    Draws draws_;
    Scratch scratch_;
    std::vector<std::uint64_t> block_ =
        std::vector<std::uint64_t>((std::size_t{64} << 10U) / sizeof(std::uint64_t));
    std::uint64_t sum_ = 0;
};

}  // namespace

std::unique_ptr<Work> sleep_work() { return std::make_unique<Sleep>(); }
std::unique_ptr<Work> io_work(std::uint64_t seed) { return std::make_unique<Io>(seed); }

}  // namespace twinloop::burn
