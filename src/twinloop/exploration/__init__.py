"""What-if studies: factors, designs, rankings with their uncertainty, and confirmation.

>>> import twinloop as tl
>>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
>>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
>>> study = tl.explore(scenario, {"policy": ["fifo", "fcfs", "easy"]})
>>> study.configurations.select("name", "makespan_s").rows()
[('fifo', 100.0), ('fcfs', 60.0), ('easy', 50.0)]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
