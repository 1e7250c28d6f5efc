#include "io/swf.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace twinloop::io {
namespace {

struct Field {
    const char* name;
    Type type;
};

constexpr std::array<Field, SwfParser::fields> schema = {{
    {"job", Type::int64},
    {"submit", Type::float64},
    {"wait", Type::float64},
    {"run_time", Type::float64},
    {"allocated", Type::float64},
    {"cpu_time", Type::float64},
    {"memory", Type::float64},
    {"requested", Type::float64},
    {"requested_time", Type::float64},
    {"requested_memory", Type::float64},
    {"status", Type::int64},
    {"user", Type::int64},
    {"group", Type::int64},
    {"executable", Type::int64},
    {"queue", Type::int64},
    {"partition", Type::int64},
    {"preceding", Type::int64},
    {"think_time", Type::float64},
}};

// A double does not represent larger integers exactly, and no log has such a time or size.
constexpr double largest = 9007199254740992.0;

bool blank(char c) { return c == ' ' || c == '\t'; }

std::string_view word(const char* at, const char* end) {
    const char* stop = at;
    while (stop != end && !blank(*stop)) ++stop;
    return {at, static_cast<std::size_t>(stop - at)};
}

std::uint64_t count_words(std::string_view line) {
    std::uint64_t count = 0;
    bool inside = false;
    for (const char c : line) {
        count += !blank(c) && !inside;
        inside = !blank(c);
    }
    return count;
}

Kind kind_of(Reading reading) {
    switch (reading) {
        case Reading::not_whole:
            return Kind::not_whole;
        case Reading::out_of_range:
            return Kind::out_of_range;
        default:
            return Kind::not_a_number;
    }
}

union Value {
    std::int64_t whole;
    double real;
};

bool ends_at(const char* at, const char* end) { return at == end || blank(*at); }

Reading any_number(const char*& at, const char* end, bool whole, Value& out) {
    Decimal decimal;
    if (!scan_decimal<Grammar::loose>(at, end, decimal) || !ends_at(decimal.end, end))
        return Reading::malformed;
    at = decimal.end;
    if (whole) return to_int64(decimal, std::numeric_limits<std::int64_t>::max(), out.whole);
    const Reading reading = to_float64(decimal, largest, out.real);
    out.real += 0.0;  // no minus zero
    return reading;
}

}  // namespace

SwfParser::SwfParser() {
    table_.columns.emplace_back("line", Type::uint32);
    for (const Field& field : schema) table_.columns.emplace_back(field.name, field.type);
}

Table SwfParser::finish() {
    lines_.finish([this](auto... line) { take(line...); });
    table_.finish();
    return std::move(table_);
}

void SwfParser::take(std::string_view line, std::uint64_t number, bool too_long) {
    while (!line.empty() && blank(line.front())) line.remove_prefix(1);
    if (too_long) {
        problems_.add(Kind::too_long, -1, number, line);
        in_header_ = false;
    } else if (!line.empty() && line.front() == ';') {
        comment(line.substr(1), number);
    } else {
        while (!line.empty() && blank(line.back())) line.remove_suffix(1);
        if (line.empty()) return;
        in_header_ = false;
        record(line, number);
    }
}

void SwfParser::comment(std::string_view text, std::uint64_t number) {
    header_size_ += text.size() + 1;
    if (in_header_ && header_size_ <= longest_header) header_.emplace_back(text);
    else problems_.add(Kind::comment, -1, number, text);
}

void SwfParser::refuse(std::string_view line, std::uint64_t number, std::size_t field,
                       const char* at, Reading reading) {
    const std::uint64_t found = count_words(line);
    if (found == fields)
        problems_.add(kind_of(reading), static_cast<int>(field), number,
                      word(at, line.data() + line.size()));
    else problems_.add(Kind::field_count, -1, number, line, found);
}

void SwfParser::record(std::string_view line, std::uint64_t number) {
    const char* at = line.data();
    const char* const end = at + line.size();
    std::array<Value, fields> values;
    std::uint32_t unknown = 0;   // a bit per field
    std::uint32_t negative = 0;  // likewise: below zero and not -1
    std::array<const char*, fields> begins;
    std::int64_t short_number = 0;
    for (std::size_t i = 0; i < fields; ++i) {
        begins[i] = at;
        const bool whole = schema[i].type == Type::int64;
        // Nearly all fields are -1 or short integers.
        if (end - at >= 2 && at[0] == '-' && at[1] == '1' && ends_at(at + 2, end)) {
            unknown |= 1U << i;
            at += 2;
        } else if (const char* behind = scan_digits(at, end, short_number);
                   behind && ends_at(behind, end)) {
            at = behind;
            if (whole) values[i].whole = short_number;
            else values[i].real = static_cast<double>(short_number);
        } else {
            const Reading reading = any_number(at, end, whole, values[i]);
            if (reading != Reading::ok) return refuse(line, number, i, begins[i], reading);
            const double read = whole ? static_cast<double>(values[i].whole) : values[i].real;
            if (read < 0.0) unknown |= 1U << i;
            if (read < 0.0 && read != -1.0) negative |= 1U << i;
        }
        while (at != end && blank(*at)) ++at;
    }
    if (at != end) {
        problems_.add(Kind::field_count, -1, number, line, count_words(line));
        return;
    }
    constexpr std::uint64_t last = std::numeric_limits<std::uint32_t>::max();
    table_.columns[0].add(static_cast<std::uint32_t>(std::min(number, last)));
    for (std::size_t i = 0; i < fields; ++i) {
        Column& column = table_.columns[i + 1];
        if (unknown >> i & 1U) column.add_unknown();
        else column.add(values[i]);
        if (negative >> i & 1U)
            problems_.add(Kind::negative, static_cast<int>(i), number, word(begins[i], end));
    }
}

}  // namespace twinloop::io
