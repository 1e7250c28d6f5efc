"""A controller of a cloud that drains the least loaded host, so that it can be switched off.

In a scenario: `consolidation: draining:Drain`, with --allow-code. The example, in this folder:
    python draining.py
"""

import twinloop as tl
from twinloop.policy import Decision, Migrate, Policy, View


class Drain(Policy):
    """After each change, move the instances of the least loaded host if the others have room."""

    decide_when_idle = True

    def decide(self, view: View) -> list[Decision]:
        cores, memory = view.free_cores, view.free_memory
        hosts = sorted(view.task_counts.nonzero()[0].tolist(), key=lambda host: cores[host])
        moves: list[Decision] = []
        for instance in view.running:
            if view.is_starting(instance) or view.is_migrating(instance):
                return []
            if view.placement(instance)[0][0] == hosts[-1]:
                needs = view.cores(instance), view.memory(instance)
                room = [h for h in hosts[:-1] if cores[h] >= needs[0] and memory[h] >= needs[1]]
                if not room:
                    return []
                cores[room[0]] -= needs[0]
                memory[room[0]] -= needs[1]
                moves.append(Migrate(instance, room[0]))
        return moves


SCENARIO = """
platform:
  clusters:
    - hosts:
        - {name: pm, count: 2, cores: 4, memory: 8 GB, ports: 100 MB/s,
           power: {model: linear, idle: 100 W, max: 200 W},
           states: {"off": {power: 10 W}, switching-on: {duration: 20s, power: 150 W},
                    switching-off: {duration: 5s, power: 150 W}}}
  clouds: [{name: east, controllers: {machines: power-saving}}]
workload:
  tasks:
    - {id: a, cores: 3, memory: 1 GB, run_time: 100}
    - {id: b, cores: 1, memory: 1 GB, run_time: 1000}
    - {id: c, cores: 3, memory: 1 GB, run_time: 1000}
policy: one-per-task
"""


def main() -> None:
    scenario = tl.Scenario.from_text(SCENARIO)
    for consolidation in (None, "draining:Drain"):
        field = {"platform.clouds[0].controllers.consolidation": consolidation}
        run = tl.simulate(scenario.replace(**field), allow_code=True)
        figures = tl.metrics.figures(run).to_dict()
        moves, energy = figures["migrations"], figures["energy_j"]
        print(f"{consolidation or 'none':15} {moves} migrations {energy:10,.0f} J")


if __name__ == "__main__":
    main()
