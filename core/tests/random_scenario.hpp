// Small random scenarios from bytes: machines, tasks, files and their network, sources, failures,
// policies, model values.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>

#include "bytes.hpp"
#include "world/world.hpp"

struct RandomScenario {
    std::shared_ptr<twinloop::Scenario> scenario;
    std::shared_ptr<const twinloop::Outages> known;  // those before a horizon
    std::shared_ptr<const twinloop::Outages> all;
    twinloop::ModelValues values;
    twinloop::Recording recording;
    std::unique_ptr<twinloop::Controller> controller;
    bool batch = true;  // a batch policy or one of workflows, which never overcommits

    explicit RandomScenario(Bytes& bytes);
    [[nodiscard]] twinloop::World start() const {
        return {scenario, known, values, controller->clone(), recording};
    }
};

double pick(Bytes& bytes, std::initializer_list<double> values);
std::shared_ptr<const twinloop::PowerModel> pick_power(Bytes& bytes);
twinloop::MachineSpec pick_machine(Bytes& bytes, bool limited);
// The request and the constant demand of a task.
twinloop::Task pick_task(Bytes& bytes);
