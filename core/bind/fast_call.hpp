// Methods as plain C functions, for the most frequent calls of a simulation in Python: they bypass
// the dispatch of nanobind.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "bind/event.hpp"

namespace twinloop::bind {

// Calls `call(part)` with the C++ part of `self`; exceptions become Python errors, as by nanobind.
template <class Part, class Call>
PyObject* guard_call(PyObject* self, Call&& call) {
    try {
        if (!nb::inst_ready(self)) throw nb::type_error("the object was not initialised");
        return call(part<Part>(self)).release().ptr();
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const nb::builtin_exception& error) {
        PyErr_SetString(
            error.type() == nb::exception_type::value_error ? PyExc_ValueError : PyExc_TypeError,
            error.what());
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

[[nodiscard]] inline double as_real(PyObject* object) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return value;
}

// The arguments of a call, given by position or by name; nullptr where none is given. `usage` is
// the message for any other call.
template <std::size_t size>
[[nodiscard]] std::array<PyObject*, size> read_arguments(const char* usage,
                                                         const std::array<const char*, size>& names,
                                                         std::size_t required,
                                                         PyObject* const* args, Py_ssize_t count,
                                                         PyObject* keywords) {
    std::array<PyObject*, size> given{};
    const Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
    bool fits = count + named <= static_cast<Py_ssize_t>(size);
    if (fits) std::copy_n(args, count, given.begin());
    for (Py_ssize_t i = 0; fits && i < named; ++i) {
        PyObject* name = PyTuple_GetItem(keywords, i);
        const auto found = std::ranges::find_if(names, [&](const char* each) {
            return PyUnicode_CompareWithASCIIString(name, each) == 0;
        });
        const auto place = static_cast<std::size_t>(found - names.begin());
        fits = place < size && !given[place];
        if (fits) given[place] = args[count + i];
    }
    for (std::size_t i = 0; fits && i < required; ++i) fits = given[i] != nullptr;
    if (!fits) throw nb::type_error(usage);
    return given;
}

// A C function through void*, which is what PyMethodDef stores whatever its flags say.
template <class Function>
[[nodiscard]] PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

inline void add_methods(nb::handle type, std::span<PyMethodDef> methods) {
    for (PyMethodDef& each : methods)
        type.attr(each.ml_name) =
            nb::steal(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &each));
}

}  // namespace twinloop::bind
