#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "bind/event.hpp"
#include "io/json_lines.hpp"
#include "io/swf.hpp"
#include "kernel/busy.hpp"

namespace twinloop::bind {
namespace {

// A parser in the Python interface: fed without the interpreter lock, by one thread at a time.
template <class Parser>
class Fed {
  public:
    template <class... Arguments>
    explicit Fed(Arguments&&... arguments) : parser_(std::forward<Arguments>(arguments)...) {}
    Fed(const Fed&) = delete;
    Fed& operator=(const Fed&) = delete;
    Fed(Fed&&) = delete;
    Fed& operator=(Fed&&) = delete;
    ~Fed() = default;

    void feed(const nb::bytes& data) {
        alone([&] { parser_.feed({static_cast<const char*>(data.data()), data.size()}); });
    }
    std::shared_ptr<const io::Table> finish() {
        std::shared_ptr<const io::Table> table;
        alone([&] { table = std::make_shared<const io::Table>(parser_.finish()); });
        finished_ = true;
        return table;
    }
    // The parser for reading, while no other thread feeds it.
    [[nodiscard]] const Parser& look() const {
        if (busy_) throw std::runtime_error("another thread is feeding this parser");
        return parser_;
    }

  private:
    template <class Work>
    void alone(Work&& work) {
        if (busy_) throw std::runtime_error("another thread is feeding this parser");
        if (finished_) throw nb::value_error("this parser has finished");
        const Busy busy(busy_);
        const nb::gil_scoped_release released;
        work();
    }

    Parser parser_;
    bool busy_ = false;
    bool finished_ = false;
};

using Swf = Fed<io::SwfParser>;
using JsonLines = Fed<io::JsonLinesParser>;

struct TableHandle {
    std::shared_ptr<const io::Table> table;
};

nb::capsule stream(const TableHandle& self, nb::handle /*requested_schema*/) {
    auto out = std::make_unique<ArrowArrayStream>();
    io::export_stream(self.table, out.get());
    return {out.release(), "arrow_array_stream", [](void* pointer) noexcept {
                auto* exported = static_cast<ArrowArrayStream*>(pointer);
                if (exported->release) exported->release(exported);
                delete exported;
            }};
}

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

template <class Parser>
nb::list problems(const Fed<Parser>& self) {
    nb::list list;
    for (const io::Problem& each : self.look().problems().all()) list.append(nb::cast(each));
    return list;
}

nb::list places(const io::Problem& self) {
    nb::list list;
    for (const io::Place& place : self.first)
        list.append(nb::make_tuple(place.line, place.found, as_bytes(place.text)));
    return list;
}

io::Type type_named(const std::string& name) {
    if (name == "int64") return io::Type::int64;
    if (name == "float64") return io::Type::float64;
    if (name == "string") return io::Type::string;
    throw nb::value_error(
        ("unknown column type '" + name + "': use int64, float64 or string").c_str());
}

template <class Parser>
void bind_parser(nb::class_<Fed<Parser>>& type) {
    type.def("feed", &Fed<Parser>::feed, nb::arg("data"), "Parse the next bytes.")
        .def(
            "finish", [](Fed<Parser>& self) { return TableHandle{self.finish()}; },
            "Finish parsing and return the table.")
        .def_prop_ro("problems", &problems<Parser>,
                     nb::sig("def problems(self) -> list[LineProblem]"),
                     "The problems found so far.");
}

}  // namespace

void bind_io(nb::module_& module) {
    nb::class_<TableHandle>(module, "ParsedTable", nb::is_final(),
                            "Columns exported through the Arrow C stream interface without a copy.")
        .def("__len__", [](const TableHandle& self) { return self.table->rows(); })
        .def("__arrow_c_stream__", &stream, nb::arg("requested_schema").none() = nb::none(),
             nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None) -> "
                     "object"));

    nb::class_<io::Problem>(
        module, "LineProblem", nb::is_final(),
        "A kind of problem with a field: number of occurrences and first examples.")
        .def_prop_ro("kind", [](const io::Problem& self) { return io::name(self.kind); })
        .def_ro("field", &io::Problem::field, "Index of the field from 0; -1 for the whole line.")
        .def_ro("count", &io::Problem::count)
        .def_prop_ro(
            "places", &places, nb::sig("def places(self) -> list[tuple[int, int, bytes]]"),
            "Line number, number of fields, and beginning of the text of the first examples.");

    nb::class_<Swf> swf(module, "SwfParser", nb::is_final(),
                        "Parser of the Standard Workload Format, fed in pieces of any size.");
    swf.def(nb::init<>());
    bind_parser(swf);
    swf.def_prop_ro(
        "header",
        [](const Swf& self) {
            nb::list list;
            for (const std::string& line : self.look().header()) list.append(as_bytes(line));
            return list;
        },
        nb::sig("def header(self) -> list[bytes]"),
        "The comment lines before the first record, without the semicolon.");

    nb::class_<JsonLines> json(
        module, "JsonLinesParser", nb::is_final(),
        "Parser of flat JSON objects, one per line, fed in pieces of any size.");
    json.def(
        "__init__",
        [](JsonLines* self, const std::vector<std::pair<std::string, std::string>>& columns,
           std::int64_t integer_limit) {
            std::vector<io::JsonLinesParser::Field> fields;
            fields.reserve(columns.size());
            for (const auto& [name, type] : columns) fields.push_back({name, type_named(type)});
            new (self) JsonLines(std::move(fields), integer_limit);
        },
        nb::arg("columns"), nb::arg("integer_limit") = std::numeric_limits<std::int64_t>::max(),
        "Columns are pairs of a name and `int64`, `float64` or `string`.");
    bind_parser(json);
    json.def_prop_ro(
        "others",
        [](const JsonLines& self) {
            nb::dict names;
            for (const auto& [name, count] : self.look().others())
                names[nb::str(name.data(), name.size())] = count;
            return names;
        },
        nb::sig("def others(self) -> dict[str, int]"),
        "Number of occurrences of each field that is no column; '' counts those beyond the first "
        "256.");
}

}  // namespace twinloop::bind
