"""Tables and figures of the article on DISSECT-CF, simulated: published values and values here.

G. Kecskemeti, "DISSECT-CF: a simulator to foster energy-aware scheduling in infrastructure clouds",
Simulation Modelling Practice and Theory 58 (2015).
"""

from dataclasses import dataclass

import twinloop as tl

#: A machine with the powers and durations of Table 1, and a task that uses all of it for 100 s.
TABLE_1 = """
platform:
  clusters:
    - hosts:
        - names: [pm]
          cores: 80
          power: {model: linear, idle: 368.8 W, max: 722.7 W}      # while it is running
          states:
            off: {power: 36.4 W}
            switching-on: {power: 483.1 W, duration: 200s}
            switching-off: {power: 409.2 W, duration: 12s}
workload: {tasks: [{id: full, cores: 80, run_time: 100}]}
policy: fcfs
"""
#: Equations 12 to 14, for Table 2: work and limit as shares of the machine.
SWITCHING_OFF = {
    "tasks": [
        {"work": 0.275, "limit": 0.11},
        {"after": "2.5s", "work": 0.855, "limit": 0.19},
        {"after": "1s", "work": 0.228, "limit": 0.15},
    ]
}
#: Eight tasks of 2, 4, ... 16 core-seconds at once. The policy places them all on the machine.
FIGURE_7 = """
platform: {clusters: [{hosts: [{cores: 4}]}]}
workload: {tasks: [{id: a, run_time: 1}]}
policy: {name: pack-ic, options: {overcommit: 4}}
"""
#: Each task writes 768 MB to the store of another node; first fit places them on n0, n1, n2, n2.
FIGURE_9 = """
platform:
  clusters:
    - hosts:
        - {names: [n0], cores: 1, ports: {in: 128 MB/s, out: 51.2 MB/s}, store: {capacity: 1 TB}}
        - {names: [n1], cores: 1, ports: {in: 128 MB/s, out: 128 MB/s}, store: {capacity: 1 TB}}
        - {names: [n2], cores: 2, ports: {in: 128 MB/s, out: 25.6 MB/s}, store: {capacity: 1 TB}}
        - {names: [n3], cores: 1, ports: {in: 38.4 MB/s, out: 128 MB/s}, store: {capacity: 1 TB}}
workload:
  files:
    - {name: image1, size: 768 MB, store: n1}
    - {name: image2, size: 768 MB, store: n0}
    - {name: image3, size: 768 MB, store: n3}
    - {name: image4, size: 768 MB, store: n3}
  tasks:
    - {id: t1, run_time: 0, writes: [image1]}
    - {id: t4, run_time: 0, writes: [image4]}
    - {id: t2, run_time: 0, writes: [image2]}
    - {id: t3, run_time: 0, writes: [image3]}
policy: first-fit
"""
#: A cloud with one host of eight cores. Each task has an instance of one core, whose boot takes
#: 30 s and no work.
FIGURE_10 = """
platform:
  clusters:
    - hosts: [{names: [pm], cores: 8, power: {model: linear, idle: 368.8 W, max: 722.7 W}}]
  clouds: [{name: cloud, images: [{name: base, boot: {delay: 30s}}]}]
workload: {tasks: [{id: a, run_time: 1}]}
policy: one-per-task
"""


@dataclass(frozen=True)
class Comparison:
    """A published result and the same one here; `by_hand`: it follows from published values."""

    name: str
    published: tuple[float, ...]
    here: tuple[float, ...]
    digits: int = 1
    by_hand: bool = False


def read_energy(sim: tl.Simulation) -> float:
    """Read the energy of the first machine so far, in joules."""
    return float(sim.machines["energy"][0])


def measure_power(sim: tl.Simulation) -> float:
    """Go on for one second and return the mean power, in watts."""
    before = read_energy(sim)
    sim.run_until(sim.now + 1)
    return read_energy(sim) - before


def reproduce_table_1() -> list[Comparison]:
    """Switch a machine through its states; measure the power in each and the durations."""
    sim = tl.Simulation(tl.Scenario.from_text(TABLE_1))
    full = measure_power(sim)
    sim.run_until(100)
    idle = measure_power(sim)
    sim.set_state("pm", "off")
    switching_off = measure_power(sim)
    sim.run_until(200)
    off = measure_power(sim)
    sim.set_state("pm", "on")
    switching_on = measure_power(sim)
    sim.run_until(1000)
    periods = sim.trace().node_states.select("state", "start", "end").rows()
    durations = {state: end - start for state, start, end in periods}
    return [
        Comparison("off (W)", (36.4,), (off,)),
        Comparison("switching on (W, s)", (483.1, 200), (switching_on, durations["switching-on"])),
        Comparison("running, idle and full (W)", (368.8, 722.7), (idle, full)),
        Comparison(
            "switching off (W, s)", (409.2, 12), (switching_off, durations["switching-off"])
        ),
        Comparison("switching off pays after (s)", (282.2,), (find_break_even(),), by_hand=True),
    ]


def find_break_even() -> float:
    """Find the idle time for which a machine that is switched off uses as much energy."""
    short, long = 250.0, 350.0
    # The difference is linear in the idle time.
    at_short, at_long = compute_loss(short), compute_loss(long)
    return short + (long - short) * at_short / (at_short - at_long)


def compute_loss(gap: float) -> float:
    """Compute what it costs to switch a machine off in an idle time, and on again (J)."""
    used = []
    for switched in (True, False):
        sim = tl.Simulation(tl.Scenario.from_text(TABLE_1))
        sim.run()
        before = read_energy(sim)
        if switched:
            sim.set_state("pm", "off")
            sim.run_until(100 + gap - 200)
            sim.set_state("pm", "on")
        sim.run_until(100 + gap)
        used.append(read_energy(sim) - before)
    return used[0] - used[1]


def reproduce_table_2() -> list[Comparison]:
    """Switch off a machine that executes hidden tasks meanwhile."""
    path = "platform.clusters[0].hosts[0].states.switching-off"
    scenario = tl.Scenario.from_text(TABLE_1).replace(**{path: SWITCHING_OFF})
    sim = tl.Simulation(scenario)
    sim.run()
    before = read_energy(sim)
    sim.set_state("pm", "off")
    sim.run_until(200)
    row = sim.trace().node_states.filter(state="switching-off")
    duration = float(row["end"][0] - row["start"][0])
    energy = read_energy(sim) - before - (200 - row["end"][0]) * 36.4
    return [
        Comparison("switching off (s)", (12.02,), (duration,), digits=2, by_hand=True),
        Comparison("its energy (J)", (4913.6,), (energy,), by_hand=True),
        Comparison("its mean power (W)", (408.8,), (energy / duration,), by_hand=True),
    ]


def reproduce_figure_7() -> list[Comparison]:
    """Share cores among eight tasks that start at once."""
    ends = {
        (4, 1.0): (4, 7.5, 10.5, 13, 15, 17, 19, 21),
        (2, 1.0): (8, 15, 21, 26, 30, 33, 35, 37),
        (4, 0.896): (4, 7.5, 10.5, 13, 15.232, 17.464, 19.696, 21.929),
    }
    results = []
    for (cores, limit), published in ends.items():
        # A task with the limit of 0.896 cores has the same work, and alone takes longer.
        tasks = [{"id": f"t{i}", "cores": limit, "run_time": 2 * i / limit} for i in range(1, 9)]
        scenario = tl.Scenario.from_text(FIGURE_7).replace(
            workload={"tasks": tasks}, **{"platform.clusters[0].hosts[0].cores": cores}
        )
        here = tuple(tl.simulate(scenario).placements.sort("task")["end"])
        name = f"{cores} cores, limit {limit:g} (s)"
        results.append(Comparison(name, published, here, digits=3, by_hand=True))
    return results


def reproduce_figure_9() -> list[Comparison]:
    """Transfer four images between nodes whose ports differ."""
    transfers = tl.simulate(tl.Scenario.from_text(FIGURE_9)).transfers.sort("subject")
    return [Comparison("t1, t2, t3, t4 (s)", (15, 60, 60, 30), tuple(transfers["end"]))]


def reproduce_figure_10() -> list[Comparison]:
    """Use one more core of a host every 30 s, and measure its mean power."""
    tasks = [{"id": f"t{i}", "submit": 30 * i, "run_time": 600} for i in range(8)]
    scenario = tl.Scenario.from_text(FIGURE_10).replace(workload={"tasks": tasks})
    # Each row is the mean of 30 s, exact at any step.
    levels = tl.simulate(scenario, power_step=30).power["watts"].head(9)
    published = tuple(368.8 + (722.7 - 368.8) / 8 * level for level in range(9))
    return [Comparison("0 to 8 cores (W)", published, tuple(levels), by_hand=True)]


PARTS = {
    "Table 1: states of a machine": reproduce_table_1,
    "Table 2: switching off by hidden tasks": reproduce_table_2,
    "Figure 7: ends of eight tasks": reproduce_figure_7,
    "Figure 9: four transfers": reproduce_figure_9,
    "Figure 10: levels of power": reproduce_figure_10,
}


def format_values(values: tuple[float, ...], digits: int) -> str:
    """Format numbers with at most so many digits behind the point.

    >>> format_values((4, 15.23214), 3)
    '4 15.232'
    """
    return " ".join(f"{value:.{digits}f}".rstrip("0").rstrip(".") for value in values)


def main() -> None:
    """Print a table for each part."""
    for title, reproduce in PARTS.items():
        print(title)
        for row in reproduce():
            published, here = (format_values(v, row.digits) for v in (row.published, row.here))
            mark = "*" if row.by_hand else ""
            # A long list has lines of its own.
            if len(row.published) > 4:
                print(f"  {row.name}\n      published{mark:1} {published}\n      here       {here}")
            else:
                print(f"  {row.name:30} | {published + mark:>14} | {here:>14}")
        print()
    print("* computed by hand from published values; the others are in the text of the article")


if __name__ == "__main__":
    main()
