"""Describe the workflow for a size of its data and an amount of work.

`python describe.py 24 2 scenario.yaml` writes the scenario with 24 MB of data, whose parts are
compressed twice.
"""

import sys
from pathlib import Path

import twinloop as tl

#: Number of parts that are compressed in parallel.
PARTS = 6
#: Seconds per MB of reading and of compression, guessed: a calibration corrects them.
READING, COMPRESSION = 0.003, 0.1
#: Compressed bytes per byte: hexadecimal text has twice the bytes, and zlib saves 43 % of them.
RATIO = 1.139

PLATFORM = {
    "clusters": [{"name": "node", "hosts": [{"name": "n", "count": 2, "cores": 1}]}],
    "stores": [{"name": "disk", "ports": {"in": "16 MB/s", "out": "24 MB/s"}}],
}


def describe(megabytes: float, passes: int) -> tl.Scenario:
    """Return the scenario: split the data, compress the parts, merge the results."""
    parts = [f"part-{number}" for number in range(1, PARTS + 1)]
    results = [f"{part}.z" for part in parts]
    part = megabytes / PARTS
    sizes = {"data": megabytes, **dict.fromkeys(parts, part)}
    sizes |= {**dict.fromkeys(results, RATIO * part), "archive": RATIO * megabytes}
    tasks = [
        make_task("split", ["split"], READING * megabytes, ["data"], parts),
        *(
            make_task(
                name.replace("part", "compress"),
                ["compress", passes],
                COMPRESSION * part * passes,
                [name],
                [result],
                parents=["split"],
            )
            for name, result in zip(parts, results, strict=True)
        ),
    ]
    compressed = [task["id"] for task in tasks[1:]]
    tasks.append(
        make_task("merge", ["merge"], READING * megabytes, results, ["archive"], compressed)
    )
    files = [{"name": name, "size": f"{1e3 * size:.0f} kB"} for name, size in sizes.items()]
    return tl.Scenario(
        name=f"{megabytes:g} MB, {passes} passes",
        platform=PLATFORM,
        workload={"folder": str(Path(__file__).parent), "files": files, "tasks": tasks},
        policy="fcfs",
    )


def make_task(name, step, seconds, reads, writes, parents=()):
    """Return a task that runs a step of `steps.py` on its files."""
    program = ["python3", "{folder}/steps.py", *step, "{reads}", "{writes}"]
    return {
        "id": name,
        "command": program,
        "run_time": round(seconds, 3),
        "reads": reads,
        "writes": writes,
        "parents": parents,
    }


if __name__ == "__main__":
    describe(float(sys.argv[1]), int(sys.argv[2])).save(sys.argv[3])
