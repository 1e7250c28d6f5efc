#include "world/parameters.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "world/values_draft.hpp"

namespace twinloop {
namespace {

using Index = std::size_t;

template <double ModelValues::* Member>
void of_run(ValuesDraft& draft, Index, Index, double value) {
    draft.values().*Member = value;
}

template <double PowerModel::* Member>
void of_all_powers(ValuesDraft& draft, Index, Index, double value) {
    draft.common_power().*Member = value;
}

template <double PowerModel::* Member>
void of_power(ValuesDraft& draft, Index group, Index, double value) {
    draft.power(group).*Member = value;
}

template <double MachineSpec::* Member>
void of_machines(ValuesDraft& draft, Index group, Index, double value) {
    draft.set_machines(group, Member, value);
}

void set_service_factor(ValuesDraft& draft, Index kind, Index, double value) {
    draft.values().service_factors.at(kind) = value;
}

void set_slope(ValuesDraft& draft, Index, Index, double value) { draft.contention().slope = value; }

template <std::vector<double> ContentionRule::* Member>
void of_contention(ValuesDraft& draft, Index index, Index, double value) {
    (draft.contention().*Member).at(index) = value;
}

void set_watts_of_point(ValuesDraft& draft, Index group, Index point, double value) {
    draft.power(group).watts.at(point) = value;
}

void set_state_duration(ValuesDraft& draft, Index group, Index state, double value) {
    draft.state_table(group).set_duration(static_cast<StateId>(state), value);
}

void set_state_watts(ValuesDraft& draft, Index group, Index state, double value) {
    draft.state_table(group).set_watts(static_cast<StateId>(state), value);
}

// Without files there is no network, and its numbers have no effect.
template <class Edit>
void edit_network(ValuesDraft& draft, Edit edit) {
    if (NetworkPlan* plan = draft.network()) edit(*plan);
}

void set_network_latency(ValuesDraft& draft, Index, Index, double value) {
    edit_network(draft, [&](NetworkPlan& plan) { plan.latency = value; });
}

template <double NetworkPlan::PlannedLink::* Member>
void of_link(ValuesDraft& draft, Index link, Index, double value) {
    edit_network(draft, [&](NetworkPlan& plan) {
        for (NetworkPlan::PlannedLink& each : plan.links)
            if (each.described == link) each.*Member = value;
    });
}

void set_route_latency(ValuesDraft& draft, Index route, Index, double value) {
    edit_network(draft, [&](NetworkPlan& plan) {
        for (NetworkPlan::PlannedRoute& each : plan.routes)
            if (each.described == route) each.latency = value;
    });
}

template <double NetworkPlan::Node::* Member>
void of_ports(ValuesDraft& draft, Index group, Index, double value) {
    const std::vector<std::uint32_t>& groups = draft.scenario().groups;
    edit_network(draft, [&](NetworkPlan& plan) {
        for (std::size_t m = 0; m < groups.size(); ++m)
            if (groups[m] == group) plan.nodes.at(m).*Member = value;
    });
}

template <double NetworkPlan::Node::* Member>
void of_store_ports(ValuesDraft& draft, Index store, Index, double value) {
    edit_network(draft, [&](NetworkPlan& plan) {
        plan.nodes.at(plan.stores.at(store).node).*Member = value;
    });
}

template <auto Member>
void set_number(NetworkPlan::PlannedStore& store, double value) {
    using Number = std::remove_reference_t<decltype(store.*Member)>;
    store.*Member = static_cast<Number>(value);
}

template <auto Member>
void of_store(ValuesDraft& draft, Index store, Index, double value) {
    edit_network(draft,
                 [&](NetworkPlan& plan) { set_number<Member>(plan.stores.at(store), value); });
}

template <auto Member>
void of_local_stores(ValuesDraft& draft, Index group, Index, double value) {
    const std::vector<std::uint32_t>& groups = draft.scenario().groups;
    edit_network(draft, [&](NetworkPlan& plan) {
        for (std::size_t m = 0; m < groups.size(); ++m)
            if (const StoreId store = plan.local_store(m); groups[m] == group && store != none)
                set_number<Member>(plan.stores[store], value);
    });
}

}  // namespace

const std::vector<ModelParameter>& model_parameters() {
    static const std::vector<ModelParameter> all = {
        {"speed_factor", of_run<&ModelValues::speed_factor>},
        {"service_factor", of_run<&ModelValues::service_factor>},
        {"startup_overhead", of_run<&ModelValues::startup_overhead>},
        {"effective_capacity", of_run<&ModelValues::effective_capacity>},
        {"dispatch_latency", of_run<&ModelValues::dispatch_latency>},
        {"release_latency", of_run<&ModelValues::release_latency>},
        {"decision_interval", of_run<&ModelValues::decision_interval>},
        {"submission.cycle", of_run<&ModelValues::submission_cycle>},
        {"submission.before", of_run<&ModelValues::submission_before>},
        {"submission.after", of_run<&ModelValues::submission_after>},
        {"submission.interval", of_run<&ModelValues::submission_interval>},
        {"service_factors.<kind>", set_service_factor},
        {"contention.linear.slope", set_slope},
        {"contention.table[<i>]", of_contention<&ContentionRule::inflations>},
        {"contention.kinds.<kind>.pressure", of_contention<&ContentionRule::pressures>},
        {"contention.kinds.<kind>.sensitivity", of_contention<&ContentionRule::sensitivities>},
        {"power.idle", of_all_powers<&PowerModel::idle>},
        {"power.max", of_all_powers<&PowerModel::max>},
        {"power.parameter", of_all_powers<&PowerModel::parameter>},
        {"platform.clusters[<c>].hosts[<h>].mhz", of_machines<&MachineSpec::mhz>},
        {"platform.clusters[<c>].hosts[<h>].speed", of_machines<&MachineSpec::speed>},
        {"platform.clusters[<c>].hosts[<h>].power.power", of_power<&PowerModel::idle>},
        {"platform.clusters[<c>].hosts[<h>].power.idle", of_power<&PowerModel::idle>},
        {"platform.clusters[<c>].hosts[<h>].power.max", of_power<&PowerModel::max>},
        {"platform.clusters[<c>].hosts[<h>].power.r", of_power<&PowerModel::parameter>},
        {"platform.clusters[<c>].hosts[<h>].power.a", of_power<&PowerModel::parameter>},
        {"platform.clusters[<c>].hosts[<h>].power.points[<i>][1]", set_watts_of_point},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.duration", set_state_duration},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.power.power", set_state_watts},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.enter.duration", set_state_duration},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.enter.power.power", set_state_watts},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.leave.duration", set_state_duration},
        {"platform.clusters[<c>].hosts[<h>].states.<state>.leave.power.power", set_state_watts},
        {"platform.clusters[<c>].hosts[<h>].ports.in", of_ports<&NetworkPlan::Node::in>},
        {"platform.clusters[<c>].hosts[<h>].ports.out", of_ports<&NetworkPlan::Node::out>},
        {"platform.clusters[<c>].hosts[<h>].store.read",
         of_local_stores<&NetworkPlan::PlannedStore::read>},
        {"platform.clusters[<c>].hosts[<h>].store.write",
         of_local_stores<&NetworkPlan::PlannedStore::write>},
        {"platform.clusters[<c>].hosts[<h>].store.streams",
         of_local_stores<&NetworkPlan::PlannedStore::streams>},
        {"platform.clusters[<c>].hosts[<h>].store.page_cache.read",
         of_local_stores<&NetworkPlan::PlannedStore::cache_read>},
        {"platform.clusters[<c>].hosts[<h>].store.page_cache.size",
         of_local_stores<&NetworkPlan::PlannedStore::cache_size>},
        {"platform.network.latency", set_network_latency},
        {"platform.network.links[<i>].bandwidth", of_link<&NetworkPlan::PlannedLink::bandwidth>},
        {"platform.network.links[<i>].latency", of_link<&NetworkPlan::PlannedLink::latency>},
        {"platform.network.routes[<i>].latency", set_route_latency},
        {"platform.stores[<i>].read", of_store<&NetworkPlan::PlannedStore::read>},
        {"platform.stores[<i>].write", of_store<&NetworkPlan::PlannedStore::write>},
        {"platform.stores[<i>].streams", of_store<&NetworkPlan::PlannedStore::streams>},
        {"platform.stores[<i>].page_cache.read", of_store<&NetworkPlan::PlannedStore::cache_read>},
        {"platform.stores[<i>].page_cache.size", of_store<&NetworkPlan::PlannedStore::cache_size>},
        {"platform.stores[<i>].ports.in", of_store_ports<&NetworkPlan::Node::in>},
        {"platform.stores[<i>].ports.out", of_store_ports<&NetworkPlan::Node::out>},
    };
    return all;
}

void ValueColumns::add(std::string_view name, std::size_t index, std::size_t item) {
    const auto& all = model_parameters();
    const auto found = std::ranges::find(all, name, &ModelParameter::name);
    if (found == all.end())
        throw std::invalid_argument("no model parameter is called " + std::string(name));
    columns_.push_back({&*found, index, item});
}

}  // namespace twinloop
