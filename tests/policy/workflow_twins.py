"""The policies of workflows written plainly in Python, and random workflows to run them on."""

from __future__ import annotations

import math

from hypothesis import strategies as st

import twinloop as tl
from twinloop.policy import Place, Policy


class ListTwin(Policy):
    """List scheduling: everything is sorted and counted anew for every task."""

    def __init__(self, scenario, options):
        tasks = scenario.workload.tasks
        files = {each.name: each for each in scenario.workload.files}
        self.options = options
        self.times = {task.id: task.requested_time or task.run_time for task in tasks}
        self.rows = {task.id: row for row, task in enumerate(tasks)}
        self.platform = scenario.platform
        self.home = {each.name: each.cluster for each in self.platform.stores}
        self.inputs = {
            task.id: [(files[name].store, files[name].size) for name in task.reads]
            for task in tasks
        }
        self.outputs = {task.id: sum(files[name].size for name in task.writes) for task in tasks}
        self.children = {task.id: [] for task in tasks}
        for task in tasks:
            for parent in task.parents:
                self.children[parent].append(task.id)
        self.cluster_of = [
            number
            for number, cluster in enumerate(self.platform.clusters)
            for host in cluster.hosts
            for _ in range(host.count)
        ]
        self.speed = [
            max(host.speed or 1.0 for host in each.hosts) for each in self.platform.clusters
        ]

    def start(self, view, rng):
        return self

    def work(self, view, name):
        task = self.rows[name]
        scale = view.speedup(task, view.cores(task)) or view.cores(task)
        return self.times[name] * scale

    def level(self, view, name):
        below = [self.level(view, child) for child in self.children[name]]
        return self.work(view, name) + max(below, default=0.0)

    def key(self, view, name):
        order = self.options.order
        if order == "bottom-level":
            return self.level(view, name)
        if order == "children":
            return len(self.children[name])
        if order == "work":
            return self.work(view, name)
        read = sum(size for _, size in self.inputs[name])
        return read + (self.outputs[name] if self.options.data == "input+output" else 0)

    def value(self, view, free, name, cluster):
        idle = sum(max(0.0, f) for f, c in zip(free, self.cluster_of, strict=True) if c == cluster)
        if self.options.cluster == "fastest":
            return self.speed[cluster]
        if self.options.cluster == "most-idle":
            return idle
        if self.options.cluster == "most-idle-speed":
            return idle * self.speed[cluster]
        here = self.platform.clusters[cluster].name
        return sum(size for store, size in self.inputs[name] if self.home[store] == here)

    def choose_cores(self, view, task, room):
        if view.speedup(task, 1) is None:
            return view.cores(task)
        most = min(view.max_cores(task), self.options.cap or math.inf, room)
        wanted = 0.0 if self.options.cores == "max" else self.options.cores
        for cores in range(int(most), 1, -1):
            if cores > view.min_cores(task) and view.efficiency(task, cores) >= wanted:
                return float(cores)
        return view.min_cores(task)

    def decide(self, view):
        free = view.free_cores.copy()
        memory = view.free_memory.copy()
        tasks = sorted(view.waiting, key=lambda t: (-self.key(view, view.id(t)), view.id(t)))
        for task in tasks:
            name = view.id(task)
            fits = [
                (memory[m] >= view.memory(task)) and free[m] >= view.min_cores(task)
                for m in range(view.machines)
            ]
            clusters = sorted({c for c, fit in zip(self.cluster_of, fits, strict=True) if fit})
            if not clusters:
                continue
            values = [self.value(view, free, name, cluster) for cluster in clusters]
            best = [c for c, v in zip(clusters, values, strict=True) if v == max(values)]
            chosen = best[-1 if self.options.ties == "last" else 0]
            nodes = [m for m in range(view.machines) if fits[m] and self.cluster_of[m] == chosen]
            cores = self.choose_cores(view, task, max(free[m] for m in nodes))
            machine = next(m for m in nodes if free[m] >= cores)
            free[machine] -= cores
            memory[machine] -= view.memory(task)
            yield Place(task, machine, cores=cores)


PORTS = st.sampled_from([{}, {"ports": "128 B/s"}])


@st.composite
def workflows(draw, laws=True, memory=True, files=True, most_cores=3):
    """A scenario without a policy: up to 12 tasks with files, on up to three clusters.

    Without speed-up laws, all times are exact: other ties would be resolved by rounding.
    """
    count = draw(st.integers(1, 12))
    clusters = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.integers(1, 5), st.sampled_from([1.0, 2.0, 4.0])),
            min_size=1,
            max_size=3,
        )
    )
    limited = memory and draw(st.booleans())
    names = [f"C{i + 1:02d}" for i in range(len(clusters))]
    platform = {
        "clusters": [
            {"hosts": [{"count": n, "cores": cores, "speed": speed}
                       | ({"memory": 4000} if limited else {}) | draw(PORTS)]}
            for n, cores, speed in clusters
        ],
        "network": {"latency": draw(st.sampled_from([0.0, 0.5]))},
        "stores": [{"name": f"s{i}", "cluster": name, "read": 1024 << i, "write": 512}
                   for i, name in enumerate(names)],
    }  # fmt: skip
    largest = max(cores for _, cores, _ in clusters)
    # Ids are not in the order of the rows.
    ids = draw(st.permutations([f"t{i}" for i in range(count)]))
    stores = st.integers(0, len(clusters) - 1).map(lambda i: f"s{i}")
    given, tasks = [], []
    for row in range(count):
        parents = draw(st.lists(st.sampled_from(ids[:row]), unique=True, max_size=3)) if row else []
        cores = draw(st.integers(1, min(most_cores, largest)))
        task = {"id": ids[row], "cores": cores, "run_time": draw(st.integers(1, 20)),
                "submit": draw(st.sampled_from([0, 0, 0, 5])), "parents": parents}  # fmt: skip
        if limited:
            task["memory"] = draw(st.sampled_from([1000, 2000, 3000]))
        if laws and draw(st.booleans()):
            law = st.just("linear") | st.sampled_from([0.0, 0.5, 0.9]).map(lambda a: {"amdahl": a})
            table = st.just({"table": [[1, 1], [2, 1.8], [4, 3.1]]})
            task |= {"speedup": draw(law | table), "max_cores": cores + draw(st.integers(0, 4))}
        if files:
            written = f"f{row}"
            given.append({"name": written, "size": draw(st.integers(1, 9)) * 128.0,
                          "store": draw(stores)})  # fmt: skip
            given.append({"name": f"i{row}", "size": draw(st.integers(1, 9)) * 128.0,
                          "store": draw(stores)})  # fmt: skip
            task |= {"writes": [written],
                     "reads": [f"i{row}", *(f"f{ids.index(p)}" for p in parents)]}  # fmt: skip
        tasks.append(task)
    workload = {"tasks": tasks} | ({"files": given} if files else {})
    return tl.Scenario(platform=platform, workload=workload, policy="fcfs")


def list_placements(scenario):
    """The placements of a run, by task; times without the last digits."""
    rows = tl.simulate(scenario).placements.sort("task")
    times = [rows[name].round(6) for name in ("start", "end")]
    return list(zip(*(rows[name] for name in ("task", "machine", "cores")), *times, strict=True))


class CompletionTwin(Policy):
    """Min-min or max-min: the completion of every task on every host, anew after each placement."""

    def __init__(self, scenario, largest):
        tasks = scenario.workload.tasks
        self.files = {each.name: each for each in scenario.workload.files}
        self.stores = {each.name: each for each in scenario.platform.stores}
        self.platform = scenario.platform
        self.tasks = {task.id: task for task in tasks}
        self.largest = largest
        self.hosts = [
            host
            for cluster in self.platform.clusters
            for host in cluster.hosts
            for _ in range(host.count)
        ]

    def start(self, view, rng):
        return self

    def seconds(self, view, task, machine):
        """Transfers in a star, alone and one after the other, and the declared run time."""
        given, host = self.tasks[view.id(task)], self.hosts[machine]
        ports = host.ports.receive if host.ports else math.inf
        latency = self.platform.network.latency if self.platform.network else 0.0
        total = 0.0
        for names, end in ((given.reads, "read"), (given.writes, "write")):
            for name in names:
                file = self.files[name]
                bandwidth = min(ports, getattr(self.stores[file.store], end))
                total += latency + file.size / bandwidth
        return total + (given.requested_time or given.run_time) / (host.speed or 1.0)

    def decide(self, view):
        free = view.free_cores.copy()
        memory = view.free_memory.copy()
        slots = [[view.now] * int(each) for each in free]
        for task in view.running:
            for machine, cores in view.placement(task):
                end = view.started(task) + self.seconds(view, task, machine)
                # The end of a task that takes longer than expected is not known.
                if end > view.now:
                    slots[machine] += [end] * int(cores)
        left = sorted(view.waiting, key=view.id)
        while left and sum(free) > 0:
            best = {}
            for task in left:
                cores = int(view.cores(task))
                for machine, each in enumerate(slots):
                    if len(each) < cores or view.memory(task) > self.memory(machine):
                        continue
                    start = sorted(each)[cores - 1]
                    if start <= view.now and memory[machine] < view.memory(task):
                        continue
                    end = start + self.seconds(view, task, machine)
                    if task not in best or end < best[task][0]:
                        best[task] = (end, start, machine)
            if not best:
                return
            ends = {task: end for task, (end, _, _) in best.items()}
            wanted = max(ends.values()) if self.largest else min(ends.values())
            task = next(task for task in left if ends.get(task) == wanted)
            end, start, machine = best[task]
            cores = int(view.cores(task))
            # A task without work, placed before it in this decision, still has its cores.
            if start <= view.now and free[machine] >= cores:
                free[machine] -= cores
                memory[machine] -= view.memory(task)
                yield Place(task, machine)
            slots[machine] = [end] * cores + sorted(slots[machine])[cores:]
            left.remove(task)

    def memory(self, machine):
        return self.hosts[machine].memory or math.inf
