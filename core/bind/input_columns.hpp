// Columns of dictionaries, as NumPy arrays, copied into vectors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <vector>

namespace twinloop::bind {

template <class T>
using Column =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class To, class From = To>
std::vector<To> column(const nanobind::dict& from, const char* key) {
    const auto values = nanobind::cast<Column<From>>(from[key]);
    std::vector<To> list(values.shape(0));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<To>(values.data()[i]);
    return list;
}

inline std::vector<double> reals(const nanobind::dict& from, const char* key) {
    return column<double>(from, key);
}

}  // namespace twinloop::bind
