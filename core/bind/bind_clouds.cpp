// Clouds in runs: tables of instances, and orders from outside.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/world_handle.hpp"
#include "world/clouds.hpp"

namespace twinloop::bind {
namespace {

// The rentals of instances: those that have ended, then the others.
nb::dict rentals(const WorldHandle& self) {
    const auto run = self.hold();
    const WorldState& state = run->state();
    std::vector<RentalRow> rows;
    rows.reserve(state.records.rentals.size());
    for (std::size_t i = 0; i < state.records.rentals.size(); ++i)
        rows.push_back(state.records.rentals[i]);
    for (const RentedInstance& each : state.rented)
        if (each.serial != none && state.records.recording.placements)
            rows.push_back({each.serial, each.rental, each.is_reserved, each.host,
                            each.is_later ? unknown : each.requested, each.period,
                            each.is_later ? unknown : each.ready, unknown, RentalEnd::none,
                            RentalTotals::price((*state.scenario->clouds)[each.rental.cloud], each,
                                                run->now())});
    nb::dict columns;
    const auto add = [&](const char* name, auto get) {
        std::vector<decltype(get(rows.front()))> values;
        values.reserve(rows.size());
        for (const RentalRow& row : rows) values.push_back(get(row));
        columns[name] = as_array(std::move(values));
    };
    add("rental", [](const RentalRow& row) { return row.serial; });
    add("cloud", [](const RentalRow& row) { return row.rental.cloud; });
    add("type", [](const RentalRow& row) { return row.rental.type; });
    add("image", [](const RentalRow& row) { return row.rental.image; });
    add("user", [](const RentalRow& row) { return row.rental.user; });
    add("cores", [](const RentalRow& row) { return row.rental.cores; });
    add("memory", [](const RentalRow& row) { return row.rental.memory; });
    add("bid", [](const RentalRow& row) { return row.rental.bid; });
    add("reserved", [](const RentalRow& row) { return std::uint8_t{row.is_reserved}; });
    add("host", [](const RentalRow& row) { return row.host; });
    add("requested", [](const RentalRow& row) { return row.requested; });
    add("placed", [](const RentalRow& row) { return row.placed; });
    add("ready", [](const RentalRow& row) { return row.ready; });
    add("ended", [](const RentalRow& row) { return row.ended; });
    add("reason", [](const RentalRow& row) { return code(row.reason); });
    add("price", [](const RentalRow& row) { return row.price; });
    return columns;
}

nb::dict migrations(const WorldHandle& self) {
    const auto run = self.hold();
    const SharedRows<MigrationRow>& log = run->state().records.migrations;
    nb::dict columns;
    columns["rental"] = as_array(log, [](const auto& row) { return row.serial; });
    columns["from"] = as_array(log, [](const auto& row) { return row.from; });
    columns["to"] = as_array(log, [](const auto& row) { return row.to; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.finish; });
    columns["bytes"] = as_array(log, [](const auto& row) { return row.bytes; });
    columns["downtime"] = as_array(log, [](const auto& row) { return row.downtime; });
    columns["rounds"] = as_array(log, [](const auto& row) { return row.rounds; });
    columns["completed"] =
        as_array(log, [](const auto& row) { return std::uint8_t{row.completed}; });
    return columns;
}

// Messages between the clients and the controllers of clouds that have arrived.
nb::dict messages(const WorldHandle& self) {
    const auto run = self.hold();
    const SharedRows<MessageRow>& log = run->state().records.messages;
    nb::dict columns;
    columns["rental"] = as_array(log, [](const auto& row) { return row.serial; });
    columns["cloud"] = as_array(log, [](const auto& row) { return row.cloud; });
    columns["answers"] = as_array(log, [](const auto& row) { return std::uint8_t{row.answers}; });
    columns["bytes"] = as_array(log, [](const auto& row) { return row.bytes; });
    columns["start"] = as_array(log, [](const auto& row) { return row.start; });
    columns["end"] = as_array(log, [](const auto& row) { return row.finish; });
    return columns;
}

void describe_instance(WorldHandle& self, std::int64_t cloud, std::int64_t rental) {
    const auto run = self.hold();
    const WorldState& state = run->state();
    if (cloud < 0 || std::cmp_greater_equal(cloud, state.clouds.size()))
        throw nb::index_error("there is no such cloud");
    if (rental < 0 || std::cmp_greater_equal(rental, state.scheduler.rental_count()))
        throw nb::index_error("there is no such instance");
    run->describe_instance(static_cast<std::size_t>(cloud), static_cast<std::uint32_t>(rental));
}

// The answers to `describe_instance` that the client has.
nb::dict descriptions(const WorldHandle& self) {
    const auto run = self.hold();
    const SharedRows<DescriptionRow>& log = run->state().records.descriptions;
    nb::dict columns;
    columns["rental"] = as_array(log, [](const auto& row) { return row.serial; });
    columns["state"] = as_array(log, [](const auto& row) { return code(row.state); });
    columns["asked"] = as_array(log, [](const auto& row) { return row.asked; });
    columns["answered"] = as_array(log, [](const auto& row) { return row.answered; });
    columns["received"] = as_array(log, [](const auto& row) { return row.received; });
    return columns;
}

// The states of rented instances: those that have ended, then the present ones.
nb::dict rental_states(const WorldHandle& self) {
    const auto run = self.hold();
    const WorldState& state = run->state();
    std::vector<InstanceStateRow> rows;
    rows.reserve(state.records.instance_states.size());
    for (std::size_t i = 0; i < state.records.instance_states.size(); ++i)
        rows.push_back(state.records.instance_states[i]);
    for (const RentedInstance& each : state.rented)
        if (each.serial != none && state.records.recording.placements)
            rows.push_back({each.serial, each.state, each.since, unknown});
    nb::dict columns;
    const auto add = [&](const char* name, auto get) {
        std::vector<decltype(get(rows.front()))> values;
        values.reserve(rows.size());
        for (const InstanceStateRow& row : rows) values.push_back(get(row));
        columns[name] = as_array(std::move(values));
    };
    add("rental", [](const InstanceStateRow& row) { return row.serial; });
    add("state", [](const InstanceStateRow& row) { return code(row.state); });
    add("start", [](const InstanceStateRow& row) { return row.start; });
    add("end", [](const InstanceStateRow& row) { return row.finish; });
    return columns;
}

// The instances that are rented now, by column.
nb::dict present_instances(const WorldHandle& self) {
    const auto run = self.hold();
    const WorldState& state = run->state();
    std::vector<MachineId> rows;
    for (MachineId m = 0; m < state.rented.size(); ++m)
        if (state.rented[m].serial != none) rows.push_back(m);
    nb::dict columns;
    const auto add = [&](const char* name, auto get) {
        std::vector<decltype(get(state.rented.front()))> values;
        values.reserve(rows.size());
        for (const MachineId m : rows) values.push_back(get(state.rented[m]));
        columns[name] = as_array(std::move(values));
    };
    const auto machine = [](MachineId id) { return id == no_machine ? -1 : std::int64_t{id}; };
    add("rental", [](const RentedInstance& each) { return each.serial; });
    add("cloud", [](const RentedInstance& each) { return each.rental.cloud; });
    add("type", [](const RentedInstance& each) { return each.rental.type; });
    add("image", [](const RentedInstance& each) { return each.rental.image; });
    add("user", [](const RentedInstance& each) { return each.rental.user; });
    add("cores", [](const RentedInstance& each) { return each.rental.cores; });
    add("memory", [](const RentedInstance& each) { return each.rental.memory; });
    add("state", [](const RentedInstance& each) { return code(each.state); });
    add("since", [](const RentedInstance& each) { return each.since; });
    add("requested", [](const RentedInstance& each) { return each.requested; });
    add("ready", [](const RentedInstance& each) { return each.ready; });
    add("host", [&](const RentedInstance& each) { return machine(each.host); });
    add("target", [&](const RentedInstance& each) {
        const bool moves =
            each.state == InstanceState::migrating || each.state == InstanceState::stopped;
        return machine(moves ? each.target : no_machine);
    });
    columns["machine"] = as_array(std::move(rows));
    return columns;
}

// The hosts of a cloud, by column, and the length of its queue.
nb::dict cloud_hosts(const WorldHandle& self, std::size_t at) {
    const auto run = self.hold();
    const CloudState& cloud = run->state().clouds.at(at);
    const SchedulerState& scheduler = cloud.scheduler;
    std::vector<std::int64_t> machine;
    std::vector<double> cores, memory, free_cores, free_memory;
    std::vector<std::uint32_t> instances;
    std::vector<std::uint8_t> running;
    for (MachineId number = 0; number < cloud.hosts.size(); ++number) {
        const Machine& host = run->state().fleet[cloud.hosts[number]];
        // A host that has left the cloud, or has come back with another number.
        if (host.cloud != at || host.number != number || host.removed) continue;
        machine.push_back(cloud.hosts[number]);
        cores.push_back(scheduler.machines()[number].cores);
        memory.push_back(scheduler.machines()[number].memory);
        free_cores.push_back(scheduler.space().cores(number));
        free_memory.push_back(scheduler.space().memory(number));
        instances.push_back(static_cast<std::uint32_t>(scheduler.space().occupants(number)));
        running.push_back(host.running() ? 1 : 0);
    }
    nb::dict columns;
    columns["machine"] = as_array(std::move(machine));
    columns["cores"] = as_array(std::move(cores));
    columns["memory"] = as_array(std::move(memory));
    columns["free_cores"] = as_array(std::move(free_cores));
    columns["free_memory"] = as_array(std::move(free_memory));
    columns["instances"] = as_array(std::move(instances));
    columns["running"] = as_array(std::move(running));
    columns["queued"] = scheduler.waiting_count();
    return columns;
}

MachineId instance_at(const Held<World>& run, std::int64_t machine) {
    const auto& rented = run->state().rented;
    if (machine < 0 || static_cast<std::size_t>(machine) >= rented.size() ||
        rented[static_cast<std::size_t>(machine)].serial == none)
        throw nb::index_error("there is no such instance");
    return static_cast<MachineId>(machine);
}

void require_done(const char* why) {
    if (why != nullptr) throw nb::value_error(why);
}

Rental rental_from(const Held<World>& run, std::uint16_t cloud, std::uint16_t type,
                   std::uint16_t image, double cores, double memory, std::int32_t user,
                   double bid) {
    if (cloud >= run->state().clouds.size()) throw nb::index_error("there is no such cloud");
    Rental rental;
    rental.cloud = cloud;
    rental.type = type;
    rental.image = image;
    rental.cores = cores;
    rental.memory = memory;
    rental.user = user;
    rental.bid = bid;
    return rental;
}

template <InstanceRequest wanted>
void request(WorldHandle& self, std::int64_t instance) {
    const auto run = self.hold();
    require_done(run->clouds().request(instance_at(run, instance), wanted));
}

using InstanceOrder = const char* (Clouds::*)(MachineId);

template <InstanceOrder order>
void carry_out(WorldHandle& self, std::int64_t instance) {
    const auto run = self.hold();
    Clouds clouds = run->clouds();
    require_done((clouds.*order)(instance_at(run, instance)));
}

std::vector<std::tuple<std::uint8_t, std::uint32_t, double, double>> take_notices(
    WorldHandle& self) {
    std::vector<std::tuple<std::uint8_t, std::uint32_t, double, double>> rows;
    for (const Notice& each : self.hold()->take_notices())
        rows.emplace_back(code(each.kind), each.subject, each.time, each.value);
    return rows;
}

void bind_orders(nb::class_<WorldHandle>& run) {
    run.def(
           "rent",
           [](WorldHandle& self, std::uint16_t cloud, std::uint16_t type, std::uint16_t image,
              double cores, double memory, std::int32_t user, double validity, double bid) {
               const auto held = self.hold();
               const MachineId instance = held->rent(
                   rental_from(held, cloud, type, image, cores, memory, user, bid), validity);
               return std::make_tuple(instance, held->scheduler().rental_number(instance));
           },
           nb::arg("cloud"), nb::arg("type"), nb::arg("image"), nb::arg("cores"), nb::arg("memory"),
           nb::arg("user") = -1, nb::arg("validity") = unknown, nb::arg("bid") = unknown,
           "Rent an instance and return its machine and its rental; with a validity (s), only an "
           "allocation that expires unless it is used.")
        .def("use_allocation", &carry_out<&Clouds::use>, nb::arg("instance"))
        .def("suspend", &request<InstanceRequest::suspend>, nb::arg("instance"))
        .def("resume", &request<InstanceRequest::resume>, nb::arg("instance"))
        .def("reboot", &request<InstanceRequest::reboot>, nb::arg("instance"))
        .def("shut_down", &carry_out<&Clouds::shut_down>, nb::arg("instance"))
        .def(
            "terminate",
            [](WorldHandle& self, std::int64_t instance, bool violent) {
                const auto held = self.hold();
                require_done(held->clouds().terminate(instance_at(held, instance), violent));
            },
            nb::arg("instance"), nb::arg("violent") = false)
        .def(
            "migrate",
            [](WorldHandle& self, std::int64_t instance, std::int64_t host) {
                const auto held = self.hold();
                require_done(held->clouds().migrate_to(instance_at(held, instance),
                                                       machine_at(held->scheduler(), host)));
            },
            nb::arg("instance"), nb::arg("host"))
        .def(
            "resize",
            [](WorldHandle& self, std::int64_t instance, double cores) {
                const auto held = self.hold();
                require_done(held->clouds().resize_to(instance_at(held, instance), cores));
            },
            nb::arg("instance"), nb::arg("cores"))
        .def(
            "leave_cloud",
            [](WorldHandle& self, std::int64_t instance, std::uint16_t cloud, std::uint16_t type,
               std::uint16_t image) {
                const auto held = self.hold();
                const MachineId machine = instance_at(held, instance);
                const Rental& now = held->state().rented[machine].rental;
                require_done(held->clouds().leave_cloud(
                    machine, rental_from(held, cloud, type, image, now.cores, now.memory, now.user,
                                         unknown)));
            },
            nb::arg("instance"), nb::arg("cloud"), nb::arg("type"), nb::arg("image"))
        .def(
            "rent_together",
            [](WorldHandle& self, std::uint32_t count, std::uint16_t cloud, std::uint16_t type,
               std::uint16_t image, double cores, double memory, std::int32_t user, double bid) {
                const auto held = self.hold();
                const std::uint32_t first = held->scheduler().rental_count();
                (void)held->rent_together(
                    rental_from(held, cloud, type, image, cores, memory, user, bid), count);
                return first;
            },
            nb::arg("count"), nb::arg("cloud"), nb::arg("type"), nb::arg("image"), nb::arg("cores"),
            nb::arg("memory"), nb::arg("user") = -1, nb::arg("bid") = unknown,
            "Rent equal instances that start together and return the first of their rentals, which "
            "are consecutive.")
        .def(
            "register_host",
            [](WorldHandle& self, std::int64_t host, std::size_t cloud) {
                const auto held = self.hold();
                if (cloud >= held->state().clouds.size())
                    throw nb::index_error("there is no such cloud");
                require_done(
                    held->clouds().register_host(machine_at(held->scheduler(), host), cloud));
            },
            nb::arg("host"), nb::arg("cloud"))
        .def(
            "deregister_host",
            [](WorldHandle& self, std::int64_t host, bool violent) {
                const auto held = self.hold();
                require_done(
                    held->clouds().deregister_host(machine_at(held->scheduler(), host), violent));
            },
            nb::arg("host"), nb::arg("violent") = false);
}

void bind_notices(nb::class_<WorldHandle>& run) {
    run.def(
           "watch", [](WorldHandle& self, bool watched) { self.hold()->watch(watched); },
           nb::arg("watched"), "Set whether changes of instances, machines and clouds are noted.")
        .def("take_notices", &take_notices,
             nb::sig("def take_notices(self) -> list[tuple[int, int, float, float]]"),
             "The changes since the last call: kind, subject, time, value.")
        .def(
            "run_until_notice",
            [](WorldHandle& self, double time) { return self.hold()->run_until_notice(time); },
            nb::arg("time"));
}

}  // namespace

void bind_clouds(nb::class_<WorldHandle>& run) {
    run.def("rentals", &rentals,
            nb::sig("def rentals(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("migrations", &migrations,
             nb::sig("def migrations(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("messages", &messages,
             nb::sig("def messages(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("describe_instance", &describe_instance, nb::arg("cloud"), nb::arg("rental"),
             "Ask the controller of a cloud for the state of an instance, by the number of its "
             "rental.")
        .def("descriptions", &descriptions,
             nb::sig("def descriptions(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
             "The answers that the client has received.")
        .def("rental_states", &rental_states,
             nb::sig("def rental_states(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
        .def("present_instances", &present_instances,
             nb::sig("def present_instances(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
             "The instances that are rented now.")
        .def("cloud_hosts", &cloud_hosts, nb::arg("cloud"),
             nb::sig("def cloud_hosts(self, cloud: int) -> dict[str, typing.Any]"),
             "The hosts of a cloud, and the number of instances in its queue.");
    bind_orders(run);
    bind_notices(run);
}

}  // namespace twinloop::bind
