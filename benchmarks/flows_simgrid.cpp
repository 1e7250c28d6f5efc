// The one-star flow benchmark for SimGrid: reads the hosts, the bandwidth, the number of concurrent
// transfers, the ends to warm up and to time, then the transfers. Prints the CPU seconds for the
// timed ends and the simulated time at the last of them.

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Transfer {
    int source, target;
    std::uint64_t size;
};

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    // Plain max-min sharing: no TCP window bound, no share lost to acknowledgements, no factors.
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/bandwidth-factor:1");
    sg4::Engine::set_config("network/latency-factor:1");
    sg4::Engine::set_config("network/weight-S:0");
    sg4::Engine::set_config("contexts/stack-size:64");

    int hosts = 0;
    double bandwidth = 0.0;
    long concurrent = 0, warm = 0, timed = 0;
    std::cin >> hosts >> bandwidth >> concurrent >> warm >> timed;
    std::vector<Transfer> transfers;
    for (Transfer one{}; std::cin >> one.source >> one.target >> one.size;)
        transfers.push_back(one);

    sg4::NetZone* zone = sg4::create_star_zone("star");
    std::vector<sg4::Host*> host;
    for (int i = 0; i < hosts; ++i) {
        const std::string name = std::to_string(i);
        host.push_back(zone->create_host("host" + name, 1e9));
        const sg4::Link* up = zone->create_link("up" + name, bandwidth)->set_latency(0)->seal();
        const sg4::Link* down = zone->create_link("down" + name, bandwidth)->set_latency(0)->seal();
        zone->add_route(host[i]->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(up)},
                        false);
        zone->add_route(nullptr, host[i]->get_netpoint(), nullptr, nullptr,
                        {sg4::LinkInRoute(down)}, false);
    }
    zone->seal();

    std::size_t next = 0;
    long ended = 0;
    std::clock_t begin = 0;
    for (long i = 0; i < concurrent; ++i) {
        sg4::Actor::create("sender", host[0], [&] {
            while (next < transfers.size()) {
                const Transfer& one = transfers[next++];
                sg4::Comm::sendto(host[one.source], host[one.target], one.size);
                ++ended;
                if (ended == warm) begin = std::clock();
                if (ended == warm + timed) {
                    const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
                    std::cout << std::setprecision(12) << spent << ' ' << sg4::Engine::get_clock()
                              << std::endl;
                    std::_Exit(0);  // the remaining transfers are not needed
                }
            }
        });
    }
    engine.run();
    return 1;
}
