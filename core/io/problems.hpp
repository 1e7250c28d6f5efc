// Problems of a parsed text: exact counts and first examples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twinloop::io {

enum class Kind : std::uint8_t {
    // The line is left out:
    too_long,
    field_count,
    not_a_number,
    not_whole,
    out_of_range,
    malformed,
    not_an_object,
    wrong_type,
    duplicate,
    not_utf8,
    too_deep,
    // The line is kept:
    negative,
    comment,
};

inline const char* name(Kind kind) {
    static constexpr const char* names[] = {
        "too_long",  "field_count",   "not_a_number", "not_whole", "out_of_range",
        "malformed", "not_an_object", "wrong_type",   "duplicate", "not_utf8",
        "too_deep",  "negative",      "comment",
    };
    return names[static_cast<std::size_t>(kind)];
}

struct Place {
    std::uint64_t line;
    std::uint64_t found;  // number of fields, for `field_count`
    std::string text;     // beginning of the text
};

struct Problem {
    Kind kind;
    int field;  // -1: the whole line
    std::uint64_t count = 0;
    std::vector<Place> first;
};

class Problems {
  public:
    static constexpr std::size_t places = 3;
    static constexpr std::size_t text_length = 40;

    void add(Kind kind, int field, std::uint64_t line, std::string_view text,
             std::uint64_t found = 0) {
        auto it = std::ranges::find_if(
            all_, [&](const Problem& each) { return each.kind == kind && each.field == field; });
        if (it == all_.end()) it = all_.insert(it, Problem{kind, field, 0, {}});
        ++it->count;
        if (it->first.size() < places)
            it->first.push_back({line, found, std::string(text.substr(0, text_length))});
    }
    [[nodiscard]] const std::vector<Problem>& all() const { return all_; }

  private:
    std::vector<Problem> all_;  // one for each kind and field
};

}  // namespace twinloop::io
