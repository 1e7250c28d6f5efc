// The Standard Workload Format: 18 numbers per line, -1 where unknown, comments after a semicolon.
// (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/lines.hpp"
#include "io/numbers.hpp"
#include "io/problems.hpp"
#include "io/table.hpp"

namespace twinloop::io {

class SwfParser {
  public:
    static constexpr std::size_t fields = 18;
    static constexpr std::size_t longest_header = std::size_t{1} << 20;

    SwfParser();
    void feed(std::string_view bytes) {
        lines_.feed(bytes, [this](auto... line) { take(line...); });
    }
    // The table: `line`, then the 18 fields by name.
    [[nodiscard]] Table finish();

    // Comments before the first record, without the semicolon.
    [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
    [[nodiscard]] const Problems& problems() const { return problems_; }

  private:
    void take(std::string_view line, std::uint64_t number, bool too_long);
    void comment(std::string_view text, std::uint64_t number);
    void record(std::string_view line, std::uint64_t number);
    void refuse(std::string_view line, std::uint64_t number, std::size_t field, const char* at,
                Reading reading);

    Lines lines_;
    Table table_;
    Problems problems_;
    std::vector<std::string> header_;
    std::size_t header_size_ = 0;
    bool in_header_ = true;
};

}  // namespace twinloop::io
