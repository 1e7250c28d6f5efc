#include "bind/event.hpp"

namespace twinloop::bind {
namespace {

PyObject* exception(nb::module_& module, const char* name, const char* doc, PyObject* base,
                    nb::handle members = {}) {
    const std::string full = std::string("twinloop._core.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, members.ptr());
    if (!type) throw nb::python_error();
    module.attr(name) = nb::handle(type);
    return type;
}

void bind_exceptions(nb::module_& module) {
    nb::dict members;
    members["cause"] =
        nb::module_::import_("builtins")
            .attr("property")(
                nb::cpp_function([](nb::handle self) { return nb::object(self.attr("args")[0]); }),
                nb::none(), nb::none(), "The argument of `interrupt`.");
    types.interrupt = exception(module, "Interrupt",
                                "Raised in a process that is interrupted; `cause` is the reason.",
                                PyExc_Exception, members);
    types.cancelled = exception(
        module, "Cancelled", "Raised in a process whose activity is cancelled.", PyExc_Exception);
    types.stalled =
        exception(module, "StalledError",
                  "Raised when activities remain that can never end; the message lists them.",
                  PyExc_RuntimeError);
}

}  // namespace
}  // namespace twinloop::bind

NB_MODULE(_core, module) {
    // Objects that a program still references at exit are not leaks; tests check for real leaks.
    nanobind::set_leak_warnings(false);
    module.doc() = "The native engine of Twinloop. Use it through `twinloop.engine`.";
    twinloop::bind::bind_exceptions(module);
    twinloop::bind::bind_events(module);
    twinloop::bind::bind_resources(module);
    twinloop::bind::bind_observers(module);
    twinloop::bind::bind_environment(module);
    twinloop::bind::bind_network(module);
    twinloop::bind::bind_queueing(module);
    twinloop::bind::bind_columns(module);
    twinloop::bind::bind_io(module);
    twinloop::bind::bind_policies(module);
    twinloop::bind::bind_many(module);
    twinloop::bind::bind_scenario(module);
    twinloop::bind::bind_world(module);
    twinloop::bind::bind_sources(module);
    twinloop::bind::bind_dispatching(module);
#ifdef __linux__
    twinloop::bind::bind_host(module);
#endif
}
