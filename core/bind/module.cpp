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
                nb::none(), nb::none(), "What `interrupt` was given.");
    types.interrupt = exception(module, "Interrupt",
                                "Thrown into a process that is interrupted; `cause` says why.",
                                PyExc_Exception, members);
    types.cancelled = exception(
        module, "Cancelled", "Thrown into a process whose activity is cancelled.", PyExc_Exception);
    types.stalled =
        exception(module, "StalledError",
                  "Activities are left that can never end; the message says which and why.",
                  PyExc_RuntimeError);
}

}  // namespace
}  // namespace twinloop::bind

NB_MODULE(_core, module) {
    // What a user's program still holds when the interpreter ends is not a leak; that nothing else
    // stays behind is tested.
    nanobind::set_leak_warnings(false);
    module.doc() = "The native engine of Twinloop. Use it through `twinloop.engine`.";
    twinloop::bind::bind_exceptions(module);
    twinloop::bind::bind_events(module);
    twinloop::bind::bind_resources(module);
    twinloop::bind::bind_observers(module);
    twinloop::bind::bind_environment(module);
    twinloop::bind::bind_columns(module);
    twinloop::bind::bind_io(module);
    twinloop::bind::bind_policies(module);
    twinloop::bind::bind_many(module);
    twinloop::bind::bind_cluster(module);
#ifdef __linux__
    twinloop::bind::bind_host(module);
#endif
}
