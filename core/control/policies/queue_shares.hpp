// The recent usage of each user (or group): core-seconds that decay with a half-life. Running tasks
// are charged continuously, so usage is exact at any time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

namespace twinloop {

class UsageShares {
  public:
    explicit UsageShares(double half_life) : half_life_(half_life) {}

    void start(std::size_t owner, double cores, double now) { change(owner, cores, 1, now); }
    void stop(std::size_t owner, double cores, double now) { change(owner, -cores, -1, now); }

    [[nodiscard]] double use(std::size_t owner, double now) const {
        if (owner >= accounts_.size()) return 0.0;
        const Account& account = accounts_[owner];
        const double passed = now - account.at;
        if (!std::isfinite(half_life_)) return account.use + account.cores * passed;
        // use' = cores - use * ln 2 / half-life, solved.
        const double rate = std::numbers::ln2 / half_life_;
        const double decayed = std::exp(-rate * passed);
        const double fresh = -std::expm1(-rate * passed) / rate;
        return account.use * decayed + account.cores * fresh;
    }

    // The accounts as rows of four numbers.
    [[nodiscard]] std::vector<double> memory() const {
        std::vector<double> numbers;
        for (const Account& each : accounts_)
            numbers.insert(numbers.end(),
                           {each.use, each.at, each.cores, static_cast<double>(each.tasks)});
        return numbers;
    }
    void restore_memory(std::span<const double> numbers) {
        accounts_.clear();
        for (; numbers.size() >= 4; numbers = numbers.subspan(4))
            accounts_.push_back(
                {numbers[0], numbers[1], numbers[2], static_cast<std::int64_t>(numbers[3])});
    }

  private:
    struct Account {
        double use = 0.0;  // at that time
        double at = 0.0;
        double cores = 0.0;
        std::int64_t tasks = 0;
    };

    void change(std::size_t owner, double cores, std::int64_t tasks, double now) {
        if (owner >= accounts_.size()) accounts_.resize(owner + 1);
        Account& account = accounts_[owner];
        account.use = use(owner, now);
        account.at = now;
        account.tasks += tasks;
        account.cores = account.tasks == 0 ? 0.0 : account.cores + cores;
    }

    double half_life_;
    std::vector<Account> accounts_;
};

}  // namespace twinloop
