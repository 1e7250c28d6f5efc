#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/event.hpp"
#include "host/counters.hpp"
#include "host/spawn.hpp"

namespace twinloop::bind {
namespace {

// Raises OSError for a refused system call, with its subject in place of the file name.
[[noreturn]] void raise(const StartError& error, const Start& start) {
    const std::string what = error.step;
    const std::string subject = what == "program"  ? start.program
                                : what == "folder" ? start.folder
                                                   : what;
    const nb::object made =
        nb::module_::import_("builtins")
            .attr("OSError")(error.number, std::strerror(error.number), subject);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    throw nb::python_error();
}

// Encodes strings as the bytes that system calls take: file names need not be valid text.
class Encoder {
  public:
    std::string operator()(const nb::object& given) const {
        const auto bytes = nb::cast<nb::bytes>(fsencode_(given));
        std::string found(bytes.c_str(), bytes.size());
        if (found.find('\0') != std::string::npos)
            throw nb::value_error("a string passed to a program must not contain a zero byte");
        return found;
    }
    std::vector<std::string> operator()(const std::vector<nb::object>& given) const {
        std::vector<std::string> found;
        found.reserve(given.size());
        for (const nb::object& each : given) found.push_back((*this)(each));
        return found;
    }

  private:
    nb::object fsencode_ = nb::module_::import_("os").attr("fsencode");
};

std::pair<int, int> spawn_process(const nb::object& program,
                                  const std::vector<nb::object>& arguments,
                                  const std::vector<nb::object>& environment,
                                  const nb::object& folder, int input, int output, int errors,
                                  const std::vector<int>& join, const std::vector<int>& cpus,
                                  std::uint64_t files) {
    const Encoder text;
    const Start start{text(program),
                      text(arguments),
                      text(environment),
                      text(folder),
                      input,
                      output,
                      errors,
                      join,
                      cpus,
                      files};
    try {
        const nb::gil_scoped_release released;
        const Started made = spawn(start);
        return {made.process, made.handle};
    } catch (const StartError& error) {
        raise(error, start);
    }
}

}  // namespace

void bind_host(nb::module_& module) {
    module.def(
        "spawn", &spawn_process, nb::arg("program"), nb::arg("argv"), nb::arg("environment"),
        nb::arg("folder"), nb::kw_only(), nb::arg("stdin"), nb::arg("stdout"), nb::arg("stderr"),
        nb::arg("join"), nb::arg("cpus"), nb::arg("files") = 0,
        nb::sig("def spawn(program: str | bytes, argv: list[str | bytes], environment: "
                "list[str | bytes], folder: str | bytes, *, stdin: int, stdout: int, stderr: "
                "int, join: list[int], cpus: list[int], files: int = 0) -> tuple[int, int]"),
        "Start a program; return its process ID and a file descriptor that becomes readable when "
        "it ends. The process joins its control groups and CPUs before its first instruction, "
        "leads a new session, and is killed when the thread that started it ends.");
    module.def(
        "set_subreaper", &set_subreaper, nb::arg("on"),
        "Set whether orphaned descendants become children of this process; return the previous "
        "setting.");
    module.def("open_counters", &open_counters, nb::arg("pid"),
               "Open the performance counters of a process and of its future children: (name, file "
               "descriptor) of each counter that the kernel allows.");
    module.def("read_counter", &read_counter, nb::arg("file"),
               "Read the value of a counter; None if it could not count.");
}

}  // namespace twinloop::bind
