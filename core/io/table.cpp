#include "io/table.hpp"

#include <cerrno>
#include <new>

namespace twinloop::io {
namespace {

const char* format(Type type) {
    switch (type) {
        case Type::int64:
            return "l";
        case Type::float64:
            return "g";
        case Type::uint32:
            return "I";
        case Type::string:
            return "U";
    }
    return "";
}

// Owner of the data of an exported structure. Each child has its own, because a consumer may move
// it out of its parent and release the two in any order.
template <class Exported>
struct Held {
    std::shared_ptr<const Table> table;
    const void* buffers[3] = {};
    std::vector<Exported> children;
    std::vector<Exported*> pointers;
};

template <class Exported>
void release(Exported* exported) {
    auto* held = static_cast<Held<Exported>*>(exported->private_data);
    for (Exported& child : held->children)
        if (child.release) child.release(&child);
    delete held;
    exported->release = nullptr;
}

template <class Exported>
Held<Exported>& hold(Exported& out, const std::shared_ptr<const Table>& table) {
    auto* held = new Held<Exported>{.table = table, .children = {}, .pointers = {}};
    out = Exported{};
    out.release = release<Exported>;
    out.private_data = held;
    return *held;
}

template <class Exported>
void adopt_children(Exported& out, Held<Exported>& held) {
    for (Exported& child : held.children) held.pointers.push_back(&child);
    out.n_children = static_cast<std::int64_t>(held.children.size());
    out.children = held.pointers.data();
}

void export_schema(const std::shared_ptr<const Table>& table, ArrowSchema& out) {
    Held<ArrowSchema>& held = hold(out, table);
    held.children.resize(table->columns.size());
    for (std::size_t i = 0; i < table->columns.size(); ++i) {
        ArrowSchema& child = held.children[i];
        hold(child, table);
        child.format = format(table->columns[i].type());
        child.name = table->columns[i].name().c_str();
        child.flags = 2;  // nullable
    }
    out.format = "+s";
    out.name = "";
    adopt_children(out, held);
}

void export_column(const std::shared_ptr<const Table>& table, const Column& column,
                   ArrowArray& out) {
    Held<ArrowArray>& held = hold(out, table);
    const bool text = column.type() == Type::string;
    held.buffers[0] = column.unknown() == 0 ? nullptr : column.valid().data();
    held.buffers[1] = text ? column.offsets().data() : column.values().data();
    held.buffers[2] = text ? column.values().data() : nullptr;
    out.buffers = held.buffers;
    out.n_buffers = text ? 3 : 2;
    out.length = static_cast<std::int64_t>(column.rows());
    out.null_count = static_cast<std::int64_t>(column.unknown());
}

void export_rows(const std::shared_ptr<const Table>& table, ArrowArray& out) {
    Held<ArrowArray>& held = hold(out, table);
    held.children.resize(table->columns.size());
    for (std::size_t i = 0; i < table->columns.size(); ++i)
        export_column(table, table->columns[i], held.children[i]);
    out.length = static_cast<std::int64_t>(table->rows());
    out.buffers = held.buffers;
    out.n_buffers = 1;
    adopt_children(out, held);
}

struct Stream {
    std::shared_ptr<const Table> table;
    bool done = false;
};

Stream& state(const ArrowArrayStream* stream) {
    return *static_cast<Stream*>(stream->private_data);
}

template <class Exported, class Export>
int attempt(Exported* out, Export&& fill) {
    *out = Exported{};
    try {
        fill(*out);
    } catch (const std::bad_alloc&) {
        if (out->release) out->release(out);
        return ENOMEM;
    }
    return 0;
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    return attempt(out, [&](ArrowSchema& schema) { export_schema(state(stream).table, schema); });
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    return attempt(out, [&](ArrowArray& array) {
        if (!state(stream).done) export_rows(state(stream).table, array);
        state(stream).done = true;
    });
}

const char* get_last_error(ArrowArrayStream* /*stream*/) { return "out of memory"; }

void release_stream(ArrowArrayStream* stream) {
    delete static_cast<Stream*>(stream->private_data);
    stream->release = nullptr;
}

}  // namespace

void export_stream(std::shared_ptr<const Table> table, ArrowArrayStream* out) {
    *out = {.get_schema = get_schema,
            .get_next = get_next,
            .get_last_error = get_last_error,
            .release = release_stream,
            .private_data = new Stream{std::move(table)}};
}

}  // namespace twinloop::io
