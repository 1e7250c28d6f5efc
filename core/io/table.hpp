// Columns with null values, filled row by row, and their export as Arrow data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/arrow.hpp"
#include "io/bytes.hpp"

namespace twinloop::io {

enum class Type : std::uint8_t { int64, float64, uint32, string };

// A column stores no validity bits while all values are known or all are null, and no values while
// all are null: most logs never fill some of their fields.
class Column {
  public:
    Column(std::string name, Type type) : name_(std::move(name)), type_(type) { spread(); }

    // The value must have the type of the column.
    template <class T>
    void add(T value) {
        prepare_known();
        values_.push(value);
        ++rows_;
    }
    void add(std::string_view text) {
        prepare_known();
        values_.append(text);
        offsets_.push(static_cast<std::int64_t>(values_.size()));
        ++rows_;
    }
    void add_unknown() {
        if (unknown_ != rows_) {
            if (unknown_ == 0) {
                valid_.append(rows_ / 8, 0xFF);
                if (rows_ % 8) valid_.push(static_cast<unsigned char>((1U << (rows_ % 8)) - 1));
            }
            push_bit(false);
            if (type_ == Type::string) offsets_.push(static_cast<std::int64_t>(values_.size()));
            else if (type_ == Type::uint32) values_.push(std::uint32_t{0});
            else values_.push(std::int64_t{0});
        }
        ++unknown_;
        ++rows_;
    }
    // No more rows are added.
    void finish() {
        if (unknown_ == rows_) spread();
    }

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] std::size_t rows() const { return rows_; }
    [[nodiscard]] std::size_t unknown() const { return unknown_; }
    [[nodiscard]] const Bytes& values() const { return values_; }
    [[nodiscard]] const Bytes& offsets() const { return offsets_; }
    [[nodiscard]] const Bytes& valid() const { return valid_; }

  private:
    // Stores the null values added so far.
    void spread() {
        const bool text = type_ == Type::string;
        if (text) offsets_ = Bytes::zeros((rows_ + 1) * sizeof(std::int64_t));
        if (!text) values_ = Bytes::zeros(rows_ * (type_ == Type::uint32 ? 4 : 8));
        valid_ = Bytes::zeros((rows_ + 7) / 8);
    }
    void prepare_known() {
        if (unknown_ == 0) return;
        if (unknown_ == rows_) spread();
        push_bit(true);
    }
    void push_bit(bool bit) {
        if (rows_ % 8 == 0) valid_.push('\0');
        if (bit) valid_.back() = static_cast<char>(valid_.back() | (1 << (rows_ % 8)));
    }

    std::string name_;
    Type type_;
    std::size_t rows_ = 0;
    std::size_t unknown_ = 0;
    Bytes values_;
    Bytes offsets_;
    Bytes valid_;  // a bit per row
};

struct Table {
    std::vector<Column> columns;
    void finish() {
        for (Column& column : columns) column.finish();
    }
    [[nodiscard]] std::size_t rows() const { return columns.empty() ? 0 : columns[0].rows(); }
};

// A stream of one batch that keeps the table alive while its columns are referenced.
void export_stream(std::shared_ptr<const Table> table, ArrowArrayStream* out);

}  // namespace twinloop::io
