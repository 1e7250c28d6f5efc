// Requests of clients to the controllers of clouds, and their answers: at once, or as messages over
// the network, which share its bandwidths with all other transfers. A message that was sent
// arrives; what it says about an instance that has ended in the meantime has no effect.
#include <utility>

#include "world/clouds.hpp"

namespace twinloop {

// --- requests -----------------------------------------------------------------------------------

void Clouds::send(MachineId instance, InstanceRequest request) {
    if (!plan(instance).messages.used()) {
        carry_out(instance, request);
        return;
    }
    const RentedInstance& mine = world_.rented[instance];
    CloudMessage message;
    message.instance = instance;
    message.serial = mine.serial;
    message.cloud = mine.rental.cloud;
    message.request = request;
    begin_message(message);
}

const char* Clouds::request(MachineId instance, InstanceRequest request) {
    if (plan(instance).messages.used()) {
        send(instance, request);
        return nullptr;
    }
    switch (request) {
        case InstanceRequest::suspend:
            return suspend(instance);
        case InstanceRequest::resume:
            return resume(instance);
        default:
            return reboot(instance);
    }
}

// The request has reached the controller.
void Clouds::carry_out(MachineId instance, InstanceRequest request) {
    switch (request) {
        case InstanceRequest::run:
            accept(instance);
            break;
        case InstanceRequest::terminate:
            finish(instance, RentalEnd::released);
            break;
        // What is not possible when the request arrives has no effect.
        case InstanceRequest::suspend:
            suspend(instance);
            break;
        case InstanceRequest::resume:
            resume(instance);
            break;
        case InstanceRequest::reboot:
            reboot(instance);
            break;
        // Questions are answered by `answer_description`.
        case InstanceRequest::describe:
            break;
    }
}

// --- answers ------------------------------------------------------------------------------------

void Clouds::answer(MachineId instance, std::uint32_t serial, RentalEvent event) {
    const RentedInstance& mine = world_.rented[instance];
    // The client knows of an end that it has ordered itself.
    if (event == RentalEvent::ended || !plan(instance).messages.has_answers()) {
        inform(instance, event);
        return;
    }
    // The connection to a lost instance is broken at once.
    if (event != RentalEvent::ready && mine.view == ClientView::open)
        world_.scheduler.set_present(instance, false);
    CloudMessage message;
    message.instance = instance;
    message.serial = serial;
    message.cloud = mine.rental.cloud;
    message.answers = true;
    message.event = event;
    begin_message(message);
}

// The answer has reached the client.
void Clouds::inform(MachineId instance, RentalEvent event) {
    RentedInstance& mine = world_.rented[instance];
    if (event != RentalEvent::ready) {
        world_.scheduler.end_rented(instance, event);
        world_.call = true;
    } else if (mine.view == ClientView::waits && mine.stopped) {
        mine.view = ClientView::informed;
    } else if (mine.view == ClientView::waits) {
        open_to_client(instance);
    }
}

void Clouds::open_to_client(MachineId instance) {
    world_.rented[instance].view = ClientView::open;
    world_.scheduler.open_rented(instance);
    world_.call = true;
}

// --- descriptions -------------------------------------------------------------------------------

void Clouds::describe(std::size_t cloud, std::uint32_t serial) {
    CloudMessage message;
    message.serial = serial;
    message.cloud = static_cast<std::uint16_t>(cloud);
    message.request = InstanceRequest::describe;
    message.asked = world_.now();
    if ((*world_.scenario->clouds)[cloud].messages.used()) begin_message(message);
    else answer_description(message);
}

// The answer is the state when the question reaches the controller.
void Clouds::answer_description(CloudMessage message) {
    for (const RentedInstance& each : world_.rented)
        if (each.serial == message.serial) message.state = each.state;
    message.answers = true;
    message.answered = world_.now();
    if ((*world_.scenario->clouds)[message.cloud].messages.has_answers()) begin_message(message);
    else record_description(message);
}

void Clouds::record_description(const CloudMessage& message) {
    world_.records.descriptions.push_back(
        {message.serial, message.state, message.asked, message.answered, world_.now()});
}

// --- messages -----------------------------------------------------------------------------------

void Clouds::begin_message(CloudMessage message) {
    CloudMessages& all = world_.messages;
    if (all.free.empty()) {
        all.free.push_back(static_cast<std::uint32_t>(all.slots.size()));
        all.slots.emplace_back();
    }
    const std::uint32_t id = all.free.back();
    const MessagePlan& plan = (*world_.scenario->clouds)[message.cloud].messages;
    TransferSpec spec;
    spec.from = message.answers ? plan.controller : plan.client;
    spec.to = message.answers ? plan.client : plan.controller;
    spec.bytes = message.answers ? plan.reply : plan.request;
    spec.token = (static_cast<std::uint64_t>(id) << 32 | message_member) + 1;
    message.transfer = world_.staging.transfers.begin(world_.simulation, spec);
    all.slots[id] = message;
    all.free.pop_back();
}

void Clouds::end_message(std::uint32_t id, Ending how) {
    CloudMessages& all = world_.messages;
    const CloudMessage message = std::exchange(all.slots[id], {});
    all.free.push_back(id);
    Transfers& transfers = world_.staging.transfers;
    const Transfers::Transfer transfer = transfers[message.transfer];
    transfers.end(world_.simulation, message.transfer, how);
    if (world_.records.recording.placements)
        world_.records.messages.push_back({message.serial, message.cloud, message.answers,
                                           transfer.spec.bytes, transfer.registered, world_.now()});
    if (message.request == InstanceRequest::describe) {
        if (message.answers) record_description(message);
        else answer_description(message);
        return;
    }
    // The client is informed of a refusal or a loss after the end of the instance.
    const bool is_end = message.answers && message.event != RentalEvent::ready;
    if (!is_end && world_.rented[message.instance].serial != message.serial) return;
    if (message.answers) inform(message.instance, message.event);
    else carry_out(message.instance, message.request);
}

}  // namespace twinloop
