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
                  " cannot be used from inside its own policy (a policy sees what the view shows, "
                  "and returns decisions)"
            : std::string(what_) +
                  " is used by one thread at a time, and another thread uses it now (wait for that "
                  "thread, or give each thread one of its own)";
    const nb::object type = nb::module_::import_("twinloop.description.errors").attr("InUseError");
    PyErr_SetString(type.ptr(), said.c_str());
    throw nb::python_error();
}

}  // namespace twinloop::bind
