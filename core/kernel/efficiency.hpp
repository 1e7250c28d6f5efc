// Efficiency: the share of consumed capacity that becomes work, given the activities that are
// present.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace twinloop {

using Kind = std::uint16_t;
inline constexpr Kind largest_kind = 65535;

// The resource as a whole.
struct Presence {
    double capacity;
    double demand;          // sum of the limits of its activities; infinite if one has no limit
    std::uint32_t running;  // activities of all kinds
};

struct KindPresence {
    Kind kind;
    std::uint32_t running;  // activities of this kind on the resource now
    double efficiency;      // output: finite, not negative
};

class Efficiency {
  public:
    virtual ~Efficiency() = default;
    // Called again when the capacity, the demand or the counts have changed; at least one activity
    // is present.
    virtual void evaluate(const Presence& where, std::span<KindPresence> present) const = 0;

  protected:
    Efficiency() = default;
    Efficiency(const Efficiency&) = default;
    Efficiency& operator=(const Efficiency&) = default;
};

// Per kind, the efficiency when one activity runs on the resource, when two do, and so on; the
// last value also applies to more. A kind without a row has efficiency 1.
class EfficiencyTable final : public Efficiency {
  public:
    explicit EfficiencyTable(std::map<Kind, std::vector<double>> rows);
    void evaluate(const Presence& where, std::span<KindPresence> present) const override;

  private:
    std::map<Kind, std::vector<double>> rows_;
};

}  // namespace twinloop
