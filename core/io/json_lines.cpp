#include "io/json_lines.hpp"

#include <algorithm>
#include <array>

#include "io/numbers.hpp"

namespace twinloop::io {
namespace {

// The bytes of a string that need no further check.
constexpr auto plain = [] {
    std::array<bool, 256> table{};
    for (int c = 0x20; c < 0x80; ++c) table[c] = c != '"' && c != '\\';
    return table;
}();

bool is_plain(char c) { return plain[static_cast<unsigned char>(c)]; }

void append_utf8(std::uint32_t code, std::string& out) {
    const auto tail = [&](int shift) {
        out.push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3F)));
    };
    if (code < 0x80) {
        out.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
        out.push_back(static_cast<char>(0xC0 | (code >> 6)));
        tail(0);
    } else if (code < 0x10000) {
        out.push_back(static_cast<char>(0xE0 | (code >> 12)));
        tail(6);
        tail(0);
    } else {
        out.push_back(static_cast<char>(0xF0 | (code >> 18)));
        tail(12);
        tail(6);
        tail(0);
    }
}

}  // namespace

JsonLinesParser::JsonLinesParser(std::vector<Field> fields, std::int64_t limit)
    : fields_(std::move(fields)), limit_(limit), follows_(fields_.size() + 1),
      slots_(fields_.size()), texts_(fields_.size()) {
    table_.columns.emplace_back("line", Type::uint32);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        table_.columns.emplace_back(fields_[i].name, fields_[i].type);
        quoted_.push_back('"' + fields_[i].name + '"');
        follows_[i] = i + 1;
    }
    follows_.back() = 0;
}

Table JsonLinesParser::finish() {
    lines_.finish([this](auto... line) { take(line...); });
    table_.finish();
    return std::move(table_);
}

std::vector<std::pair<std::string, std::uint64_t>> JsonLinesParser::others() const {
    std::vector<std::pair<std::string, std::uint64_t>> result;
    for (const Other& each : others_)
        if (each.count) result.emplace_back(each.name, each.count);
    if (uncounted_) result.emplace_back("", uncounted_);
    return result;
}

void JsonLinesParser::take(std::string_view line, std::uint64_t number, bool too_long) {
    at_ = line.data();
    end_ = at_ + line.size();
    number_ = number;
    if (too_long) {
        fail(Kind::too_long, at_);
        return;
    }
    skip_blanks();
    if (at_ == end_) return;
    for (Slot& slot : slots_) slot.state = State::absent;
    touched_.clear();
    const std::uint64_t uncounted = uncounted_;
    if (!object()) {
        uncounted_ = uncounted;
        return;
    }
    constexpr std::uint64_t last = std::numeric_limits<std::uint32_t>::max();
    table_.columns[0].add(static_cast<std::uint32_t>(std::min(number, last)));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        Column& column = table_.columns[i + 1];
        if (slots_[i].state != State::known) column.add_unknown();
        else if (fields_[i].type == Type::string) column.add(texts_[i].view);
        else if (fields_[i].type == Type::float64) column.add(slots_[i].real);
        else column.add(slots_[i].whole);
    }
    for (const std::size_t other : touched_) ++others_[other].count;
}

bool JsonLinesParser::object() {
    const char* const begin = at_;
    if (*at_ != '{') return fail(Kind::not_an_object, begin);
    ++at_;
    if (!next_is('}')) {
        before_ = fields_.size();
        do {
            if (!member()) return false;
        } while (next_is(','));
        if (!next_is('}')) return fail(Kind::malformed, at_);
    }
    skip_blanks();
    return at_ == end_ || fail(Kind::malformed, at_);
}

bool JsonLinesParser::member() {
    skip_blanks();
    const char* const begin = at_;
    std::size_t field = 0;
    if (!find_field(field)) return false;
    if (!next_is(':')) return fail(Kind::malformed, at_);
    skip_blanks();
    if (field == fields_.size()) return note_other(key_.view, begin) && skip_value(1);
    if (slots_[field].state != State::absent)
        return fail(Kind::duplicate, begin, static_cast<int>(field));
    return value(field);
}

// The index of the field of this name; the number of fields if it is not requested.
bool JsonLinesParser::find_field(std::size_t& field) {
    // The lines of a file nearly always have the same order of fields.
    field = follows_[before_];
    if (field < fields_.size()) {
        const std::string& quoted = quoted_[field];
        if (static_cast<std::size_t>(end_ - at_) >= quoted.size() &&
            std::memcmp(at_, quoted.data(), quoted.size()) == 0) {
            at_ += quoted.size();
            before_ = field;
            return true;
        }
    }
    if (at_ == end_ || *at_ != '"') return fail(Kind::malformed, at_);
    if (!string(key_)) return false;
    for (field = 0; field < fields_.size(); ++field)
        if (fields_[field].name == key_.view) break;
    if (field < fields_.size()) before_ = follows_[before_] = field;
    return true;
}

bool JsonLinesParser::value(std::size_t field) {
    Slot& slot = slots_[field];
    slot.state = State::known;
    const char* const begin = at_;
    const auto refuse = [&](Kind kind) { return fail(kind, begin, static_cast<int>(field)); };
    if (at_ == end_) return fail(Kind::malformed, begin);
    if (*at_ == 'n') {
        slot.state = State::unknown;
        return literal("null");
    }
    if (fields_[field].type == Type::string)
        return *at_ == '"' ? string(texts_[field]) : refuse(Kind::wrong_type);
    if (*at_ != '-' && (*at_ < '0' || *at_ > '9')) return refuse(Kind::wrong_type);
    if (fields_[field].type == Type::int64 && *at_ != '0') {
        const char* const behind = scan_digits(at_, end_, slot.whole);
        if (behind && behind != end_ && (*behind == ',' || *behind == '}') &&
            slot.whole <= limit_) {
            at_ = behind;
            return true;
        }
    }
    Decimal decimal;
    if (!scan_decimal<Grammar::json>(at_, end_, decimal)) return refuse(Kind::not_a_number);
    at_ = decimal.end;
    Reading reading = Reading::ok;
    if (fields_[field].type == Type::float64)
        reading = to_float64(decimal, std::numeric_limits<double>::max(), slot.real);
    else reading = to_int64(decimal, limit_, slot.whole);
    if (reading == Reading::not_whole) return refuse(Kind::not_whole);
    return reading == Reading::ok || refuse(Kind::out_of_range);
}

// The recursion is limited by the maximum depth.
// NOLINTNEXTLINE(misc-no-recursion)
bool JsonLinesParser::skip_value(int depth) {
    if (at_ == end_) return fail(Kind::malformed, at_);
    switch (*at_) {
        case '"':
            return string(skipped_);
        case '{':
        case '[':
            return skip_nested(depth);
        case 't':
            return literal("true");
        case 'f':
            return literal("false");
        case 'n':
            return literal("null");
        default: {
            Decimal decimal;
            if (!scan_decimal<Grammar::json>(at_, end_, decimal)) return fail(Kind::malformed, at_);
            at_ = decimal.end;
            return true;
        }
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
bool JsonLinesParser::skip_nested(int depth) {
    if (depth > deepest) return fail(Kind::too_deep, at_);
    const bool named = *at_ == '{';
    const char close = named ? '}' : ']';
    ++at_;
    if (next_is(close)) return true;
    do {
        skip_blanks();
        if (named) {
            if (at_ == end_ || *at_ != '"') return fail(Kind::malformed, at_);
            if (!string(skipped_)) return false;
            if (!next_is(':')) return fail(Kind::malformed, at_);
            skip_blanks();
        }
        if (!skip_value(depth + 1)) return false;
    } while (next_is(','));
    return next_is(close) || fail(Kind::malformed, at_);
}

bool JsonLinesParser::note_other(std::string_view name, const char* where) {
    std::string key(name);
    auto found = other_of_.find(key);
    if (found == other_of_.end()) {
        if (others_.size() == most_names) {
            ++uncounted_;
            return true;
        }
        found = other_of_.emplace(key, others_.size()).first;
        others_.push_back({.name = std::move(key)});
    }
    Other& other = others_[found->second];
    if (other.last_line == number_) return fail(Kind::duplicate, where);
    other.last_line = number_;
    touched_.push_back(found->second);
    return true;
}

// The string that begins here: a view of the line, or a copy if it has escapes.
bool JsonLinesParser::string(Text& out) {
    const char* const begin = ++at_;
    while (at_ != end_ && is_plain(*at_)) ++at_;
    if (at_ != end_ && *at_ == '"') {
        out.view = {begin, static_cast<std::size_t>(at_ - begin)};
        ++at_;
        return true;
    }
    out.own.assign(begin, at_);
    while (at_ != end_ && *at_ != '"') {
        const char* const first = at_;
        if (*at_ == '\\') {
            ++at_;
            if (!escape(out.own)) return false;
            continue;
        }
        if (is_plain(*at_)) ++at_;
        else if (!utf8()) return false;
        out.own.append(first, at_);
    }
    if (at_ == end_) return fail(Kind::malformed, begin - 1);
    ++at_;
    out.view = out.own;
    return true;
}

bool JsonLinesParser::escape(std::string& out) {
    static constexpr std::string_view letters = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (at_ == end_) return fail(Kind::malformed, at_);
    const char letter = *at_++;
    const std::size_t simple = letters.find(letter);
    if (simple != std::string_view::npos) {
        out.push_back(meanings[simple]);
        return true;
    }
    std::uint32_t code = 0;
    if (letter != 'u' || !hex(code)) return fail(Kind::malformed, at_ - 1);
    if (code >= 0xD800 && code < 0xE000) {
        // A high surrogate: the low surrogate must follow.
        std::uint32_t low = 0;
        const bool first_half = code < 0xDC00;
        const bool follows = first_half && end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u';
        if (follows) at_ += 2;
        if (!follows || !hex(low) || low < 0xDC00 || low >= 0xE000)
            return fail(Kind::not_utf8, at_);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(code, out);
    return true;
}

bool JsonLinesParser::hex(std::uint32_t& out) {
    if (end_ - at_ < 4) return false;
    const auto result = std::from_chars(at_, at_ + 4, out, 16);
    if (result.ec != std::errc() || result.ptr != at_ + 4) return false;
    at_ += 4;
    return true;
}

// A multi-byte character: shortest form, no surrogates, at most U+10FFFF.
bool JsonLinesParser::utf8() {
    const auto byte = [&](int i) { return static_cast<unsigned char>(at_[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x20) return fail(Kind::malformed, at_);
    const int length = lead >= 0xF0 ? 4 : (lead >= 0xE0 ? 3 : 2);
    if (lead < 0xC2 || lead > 0xF4 || end_ - at_ < length) return fail(Kind::not_utf8, at_);
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (byte(1) < low || byte(1) > high) return fail(Kind::not_utf8, at_);
    for (int i = 2; i < length; ++i)
        if ((byte(i) & 0xC0) != 0x80) return fail(Kind::not_utf8, at_);
    at_ += length;
    return true;
}

bool JsonLinesParser::literal(std::string_view word) {
    if (static_cast<std::size_t>(end_ - at_) < word.size() ||
        std::string_view(at_, word.size()) != word)
        return fail(Kind::malformed, at_);
    at_ += word.size();
    return true;
}

bool JsonLinesParser::fail(Kind kind, const char* where, int field) {
    problems_.add(kind, field, number_, {where, static_cast<std::size_t>(end_ - where)});
    return false;
}

}  // namespace twinloop::io
