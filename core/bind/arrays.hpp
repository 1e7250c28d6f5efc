// Columns as NumPy arrays that own their data.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace twinloop::bind {

template <class Value>
nanobind::object as_array(std::vector<Value>&& values) {
    auto* kept = new std::vector<Value>(std::move(values));
    const nanobind::capsule owner(
        kept, [](void* each) noexcept { delete static_cast<std::vector<Value>*>(each); });
    return nanobind::cast(nanobind::ndarray<nanobind::numpy, Value, nanobind::ndim<1>>(
        kept->data(), {kept->size()}, owner));
}

template <class Value>
nanobind::object as_array(const std::vector<Value>& values) {
    return as_array(std::vector<Value>(values));
}

// A column of rows, which `of(row)` returns.
template <class Rows, class Of>
nanobind::object as_array(const Rows& rows, Of&& of) {
    std::vector<std::decay_t<decltype(of(rows[0]))>> values;
    values.reserve(rows.size());
    rows.each([&](const auto& row) { values.push_back(of(row)); });
    return as_array(std::move(values));
}

}  // namespace twinloop::bind
