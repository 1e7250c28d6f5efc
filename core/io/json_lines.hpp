// JSON Lines of flat objects: a table of the requested fields.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/lines.hpp"
#include "io/problems.hpp"
#include "io/table.hpp"

namespace twinloop::io {

class JsonLinesParser {
  public:
    static constexpr int deepest = 64;              // maximum depth of ignored values
    static constexpr std::size_t most_names = 256;  // ignored fields that are counted by name

    struct Field {
        std::string name;
        Type type;
    };

    // Integers beyond +-limit are out of range.
    explicit JsonLinesParser(std::vector<Field> fields,
                             std::int64_t limit = std::numeric_limits<std::int64_t>::max());
    void feed(std::string_view bytes) {
        lines_.feed(bytes, [this](auto... line) { take(line...); });
    }
    // The table: `line`, then the fields. A missing field is null.
    [[nodiscard]] Table finish();

    [[nodiscard]] const Problems& problems() const { return problems_; }
    // Occurrences of each ignored field; "" counts those beyond the bound.
    [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> others() const;

  private:
    enum class State : std::uint8_t { absent, unknown, known };
    struct Slot {
        State state;
        union {
            std::int64_t whole;
            double real;
        };
    };
    struct Other {
        std::string name;
        std::uint64_t count = 0;
        std::uint64_t last_line = 0;
    };
    struct Text {
        std::string_view view;
        std::string own;  // the unescaped text, if the line has escapes
    };
    // Does not throw: errors are reported by fail(), which returns false.
    void take(std::string_view line, std::uint64_t number, bool too_long);
    bool object();
    bool member();
    bool find_field(std::size_t& field);
    bool value(std::size_t field);
    bool skip_value(int depth);
    bool skip_nested(int depth);
    bool note_other(std::string_view name, const char* where);
    bool string(Text& out);
    bool escape(std::string& out);
    bool hex(std::uint32_t& out);
    bool utf8();
    bool literal(std::string_view word);
    bool fail(Kind kind, const char* where, int field = -1);
    void skip_blanks() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    }
    bool next_is(char wanted) {
        skip_blanks();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    std::vector<Field> fields_;
    std::vector<std::string> quoted_;  // the names in quotes, as usual in a line
    std::int64_t limit_;
    Lines lines_;
    Table table_;
    Problems problems_;

    const char* at_ = nullptr;
    const char* end_ = nullptr;
    std::uint64_t number_ = 0;
    std::size_t before_ = 0;            // the previous field; the number of fields if none
    std::vector<std::size_t> follows_;  // the field that followed each field in earlier lines
    std::vector<Slot> slots_;
    std::vector<Text> texts_;
    Text key_;
    Text skipped_;

    std::vector<Other> others_;
    std::unordered_map<std::string, std::size_t> other_of_;
    std::vector<std::size_t> touched_;  // ignored fields of this line, counted if it is valid
    std::uint64_t uncounted_ = 0;
};

}  // namespace twinloop::io
