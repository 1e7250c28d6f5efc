"""A user-defined policy: WFP3 on a generated week, compared with three built-in policies.

WFP3 starts the task first that has waited longest for its length, times its cores. It is from Tang,
Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems" (CLUSTER
2009). Tasks that do not fit are skipped.

At the terminal, in this folder:
    python -m twinloop simulate scenario.yaml --policy policy:Wfp3 --allow-code
"""

from collections.abc import Iterator

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.policy import Place, Policy, View


class Wfp3(Policy):
    """Highest (wait / requested time)^power x cores first; tasks that do not fit are skipped."""

    def __init__(self, power: float = 3.0) -> None:
        self.power = power

    def score(self, view: View, task: int) -> float:
        patience = max(view.requested_time(task), 1.0)
        waited = view.now - view.submit(task)
        return float((waited / patience) ** self.power * view.cores(task))

    def decide(self, view: View) -> Iterator[Place]:
        free = view.free_cores.copy()
        for task in sorted(view.waiting, key=lambda each: -self.score(view, each)):
            missing = view.cores(task)
            if free.sum() < missing:
                continue
            parts = []
            for machine in free.nonzero()[0]:
                taken = min(free[machine], missing)
                free[machine] -= taken
                missing -= taken
                parts.append((int(machine), float(taken)))
                if not missing:
                    break
            machines, cores = zip(*parts, strict=True)
            yield Place(task, machines, cores)


def main() -> None:
    log = tl.generate("sessions", seed=1, tasks=2000, users=40, mean_length=3600)
    print(f"{'':12} {'mean wait':>10} {'longest':>10} {'bounded slowdown':>18}")
    for policy in ("fcfs", "sjf", "easy", Wfp3()):
        found = CompiledScenario(tl.Scenario(platform="4x8", workload=log, policy=policy)).run()
        name = policy if isinstance(policy, str) else "Wfp3"
        waits = f"{found['wait_mean_s'] / 60:6.1f} min {found['wait_max_s'] / 3600:8.1f} h"
        print(f"{name:12} {waits} {found['bounded_slowdown_mean']:18.2f}")


if __name__ == "__main__":
    main()
