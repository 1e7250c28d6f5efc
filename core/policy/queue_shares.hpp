// How much each user (or group) has used of late: core-seconds that fade with a half-life. Running
// tasks are charged as they run, so use is exact at any time and never jumps.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace twinloop {

class Shares {
  public:
    explicit Shares(double half_life) : half_life_(half_life) {}

    void start(std::size_t who, double cores, double now) { change(who, cores, 1, now); }
    void stop(std::size_t who, double cores, double now) { change(who, -cores, -1, now); }

    [[nodiscard]] double use(std::size_t who, double now) const {
        if (who >= accounts_.size()) return 0.0;
        const Account& account = accounts_[who];
        const double passed = now - account.at;
        if (!std::isfinite(half_life_)) return account.use + account.cores * passed;
        // use' = cores - use * ln 2 / half-life, solved.
        const double rate = std::numbers::ln2 / half_life_;
        const double faded = std::exp(-rate * passed);
        const double fresh = -std::expm1(-rate * passed) / rate;
        return account.use * faded + account.cores * fresh;
    }

  private:
    struct Account {
        double use = 0.0;  // at that time
        double at = 0.0;
        double cores = 0.0;
        std::int64_t tasks = 0;
    };

    void change(std::size_t who, double cores, std::int64_t tasks, double now) {
        if (who >= accounts_.size()) accounts_.resize(who + 1);
        Account& account = accounts_[who];
        account.use = use(who, now);
        account.at = now;
        account.tasks += tasks;
        account.cores = account.tasks == 0 ? 0.0 : account.cores + cores;
    }

    double half_life_;
    std::vector<Account> accounts_;
};

}  // namespace twinloop
