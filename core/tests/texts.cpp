#include "texts.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "io/json_lines.hpp"
#include "io/swf.hpp"

namespace {

using twinloop::io::Bytes;
using twinloop::io::Column;
using twinloop::io::JsonLinesParser;
using twinloop::io::Problem;
using twinloop::io::Problems;
using twinloop::io::SwfParser;
using twinloop::io::Table;
using twinloop::io::Type;

void require(bool holds, const char* law) {
    if (holds) return;
    std::fprintf(stderr, "\nthe law does not hold: %s\n", law);
    std::abort();
}

// Pieces of both formats, valid and invalid, so that few bytes reach deep parser states.
constexpr std::string_view pieces[] = {
    " ",
    "\n",
    "\r",
    "\r\n",
    "\t",
    ";",
    "-1",
    " -1",
    "17 ",
    "552.21 ",
    "1e3 ",
    "-7 ",
    "0",
    "9223372036854775807",
    "1e400 ",
    "1e-400",
    ".",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"n\":",
    "\"x\":",
    "\"s\":",
    "\"o\":",
    "null",
    "true",
    "\"a\"",
    "\"",
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "\xC3\xA9",
    "\xED\xA0",
    "\xFF",
    "{\"n\":1,\"x\":2.5,\"s\":\"t\"}\n",
    "1 0 5 60 4 -1 -1 4 90 -1 1 7 1 -1 0 -1 -1 -1\n",
};

std::string text_from(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        if (byte < std::size(pieces)) text += pieces[byte];
        else text.push_back(static_cast<char>(byte));
    }
    return text;
}

std::string_view view(const Bytes& bytes) {
    return {static_cast<const char*>(bytes.data()), bytes.size()};
}

bool same(const Table& one, const Table& other) {
    if (one.rows() != other.rows()) return false;
    for (std::size_t i = 0; i < one.columns.size(); ++i) {
        const Column& a = one.columns[i];
        const Column& b = other.columns[i];
        if (a.unknown() != b.unknown() || view(a.values()) != view(b.values()) ||
            view(a.offsets()) != view(b.offsets()) || view(a.valid()) != view(b.valid()))
            return false;
    }
    return true;
}

bool same(const Problems& one, const Problems& other) {
    if (one.all().size() != other.all().size()) return false;
    for (std::size_t i = 0; i < one.all().size(); ++i) {
        const Problem& a = one.all()[i];
        const Problem& b = other.all()[i];
        if (a.kind != b.kind || a.field != b.field || a.count != b.count ||
            a.first.front().text != b.first.front().text)
            return false;
    }
    return true;
}

// A column has a validity bit per row if some but not all values are known, and space for each.
void check_shape(const Table& table) {
    for (const Column& column : table.columns) {
        require(column.rows() == table.rows(), "all columns have the rows of the table");
        const bool bits = column.unknown() > 0;
        require(!bits || column.valid().size() == (column.rows() + 7) / 8,
                "there is a validity bit for each row");
        if (column.type() == Type::string)
            require(column.offsets().size() == 8 * (column.rows() + 1),
                    "there is an offset for each row");
        else
            require(
                column.values().size() == column.rows() * (column.type() == Type::uint32 ? 4 : 8),
                "there is a value for each row");
    }
}

// Exported Arrow data stays valid without the table, and can be released in any order.
void check_export(const std::shared_ptr<const Table>& table) {
    ArrowArrayStream stream{};
    ArrowSchema schema{};
    ArrowArray rows{};
    ArrowArray end{};
    twinloop::io::export_stream(table, &stream);
    require(stream.get_schema(&stream, &schema) == 0 && stream.get_next(&stream, &rows) == 0 &&
                stream.get_next(&stream, &end) == 0,
            "the stream gives a schema and rows");
    stream.release(&stream);
    require(end.release == nullptr, "the rows come in one batch");
    require(static_cast<std::size_t>(rows.length) == table->rows(),
            "the batch has all rows of the table");
    ArrowArray moved = *rows.children[1];
    rows.children[1]->release = nullptr;
    rows.release(&rows);
    require(static_cast<std::size_t>(moved.length) == table->rows(), "a column may be moved out");
    moved.release(&moved);
    schema.release(&schema);
}

template <class Make>
void check(std::string_view text, Make&& make) {
    auto whole = make();
    whole.feed(text);
    const auto expected = std::make_shared<const Table>(whole.finish());
    check_shape(*expected);
    check_export(expected);
    for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{7}}) {
        auto cut = make();
        for (std::size_t at = 0; at < text.size(); at += step) cut.feed(text.substr(at, step));
        const Table table = cut.finish();
        require(same(table, *expected), "the table does not depend on how the text is cut");
        require(same(cut.problems(), whole.problems()),
                "the problems do not depend on how the text is cut");
    }
}

}  // namespace

void check_parsers(std::span<const std::uint8_t> bytes) {
    const std::string text = text_from(bytes);
    check(text, [] { return SwfParser(); });
    check(text, [] {
        return JsonLinesParser({{"n", Type::int64}, {"x", Type::float64}, {"s", Type::string}},
                               1'000'000'000);
    });
}
