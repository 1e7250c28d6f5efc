#include "bind/in_use.hpp"

#include <nanobind/nanobind.h>

#include <string>

namespace nb = nanobind;

namespace twinloop::bind {

void InUse::take() {
    std::thread::id holder;
    const std::thread::id me = std::this_thread::get_id();
    if (!owner_.compare_exchange_strong(holder, me)) refuse(holder == me);
}

void InUse::check_thread() const {
    const std::thread::id holder = owner_.load();
    if (holder != std::thread::id() && holder != std::this_thread::get_id()) refuse(false);
}

void InUse::refuse(bool own_policy) const {
    const std::string said =
        own_policy
            ? std::string(what_) +
                  " cannot be used from inside its own policy or source (read the view, and return "
                  "decisions)"
            : std::string(what_) +
                  " can be used by one thread at a time, and another thread is using it (wait for "
                  "that "
                  "thread, or create one per thread)";
    const nb::object type = nb::module_::import_("twinloop.description.errors").attr("InUseError");
    PyErr_SetString(type.ptr(), said.c_str());
    throw nb::python_error();
}

}  // namespace twinloop::bind
