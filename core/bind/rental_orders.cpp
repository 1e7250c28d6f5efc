#include "bind/rental_orders.hpp"

#include <nanobind/stl/string.h>

#include <limits>

namespace twinloop::bind {
namespace {

std::string show(nb::handle value) { return nb::cast<std::string>(nb::repr(value)); }

// The position of a part of a cloud that is given by its name or its number. A number that does not
// exist is refused with the order.
std::uint16_t position(nb::handle given, nb::handle parts, const char* what) {
    if (PyIndex_Check(given.ptr())) {
        std::uint16_t number = 0;
        return nb::try_cast(given, number) ? number : std::numeric_limits<std::uint16_t>::max();
    }
    std::string known;
    std::uint16_t at = 0;
    for (const nb::handle each : parts) {
        const nb::object name = nb::getattr(each, "name");
        if (name.equal(given)) return at;
        known += (known.empty() ? "" : ", ") + nb::cast<std::string>(name);
        ++at;
    }
    throw nb::value_error(
        ("unknown " + std::string(what) + " " + show(given) + ": one of " + known).c_str());
}

std::int32_t user_from(nb::handle given, const nb::object& names) {
    if (given.is_none()) return -1;
    std::int32_t at = 0;
    for (const nb::handle each : nb::object(names.attr("users"))) {
        if (nb::borrow(each).equal(given)) return at;
        ++at;
    }
    throw nb::value_error(("no task of the workload has the user " + show(given)).c_str());
}

double amount(nb::handle decision, const char* field, double otherwise) {
    const nb::object given = decision.attr(field);
    if (given.is_none()) return otherwise;
    double value = 0.0;
    if (!nb::try_cast(given, value))
        throw nb::type_error(
            (std::string("the ") + field + " must be a number or None: " + show(decision)).c_str());
    return value;
}

}  // namespace

Rental rental_from(const SchedulerState& scheduler, nb::handle decision, const nb::object& names) {
    Rental rental;
    const nb::object clouds = nb::getattr(names, "clouds", nb::tuple());
    rental.cloud = position(nb::object(decision.attr("cloud")), clouds, "cloud");
    if (rental.cloud >= scheduler.clouds().size()) return rental;
    const nb::object cloud = clouds[rental.cloud];
    rental.type = position(nb::object(decision.attr("type")), nb::object(cloud.attr("types")),
                           "type of instances");
    rental.image =
        position(nb::object(decision.attr("image")), nb::object(cloud.attr("images")), "image");
    const auto& types = scheduler.clouds()[rental.cloud].types;
    // A type that fits the task has no size of its own: without cores the order is refused.
    const InstanceType type =
        rental.type < types.size() ? types[rental.type] : InstanceType{true, 0.0, 0.0};
    rental.cores = amount(decision, "cores", type.fits_task ? 0.0 : type.cores);
    rental.memory = amount(decision, "memory", type.fits_task ? 0.0 : type.memory);
    rental.seconds = amount(decision, "time", never);
    rental.bid = amount(decision, "bid", rental.bid);
    rental.user = user_from(nb::object(decision.attr("user")), names);
    return rental;
}

std::string instance_name(std::uint32_t rental) {
    return "instance-" + std::to_string(rental + std::size_t{1});
}

const char* event_name(RentalEvent event) {
    constexpr const char* names[] = {"ready", "refused", "lost",       "ended",
                                     "found", "outbid",  "interrupted"};
    return names[static_cast<std::size_t>(event)];
}

}  // namespace twinloop::bind
