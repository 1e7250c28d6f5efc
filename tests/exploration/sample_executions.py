"""Made executions of a broker: files with random tasks, and the settings of the broker."""

import random
from pathlib import Path

from tests.platform.test_broker_settings import SETTINGS

_SETTINGS_FILE = "simschlouder.regular.{cloud}.v1.xml"


def write_executions(folder: Path, count: int = 4, tasks: int = 6, *, seed: int = 1) -> Path:
    """Write executions on two clouds, of two strategies, with repetitions; return the folder."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for cloud in ("east", "north"):
        text = SETTINGS.replace('id="east"', f'id="{cloud}"').replace(
            'cloud="east"', f'cloud="{cloud}"'
        )
        (folder / _SETTINGS_FILE.format(cloud=cloud)).write_text(text)
    for number in range(count):
        cloud, case = ("east", "north")[number % 2], ("brs", "2x2")[number // 2 % 2]
        strategy = ("asap", "afap")[number // 4 % 2]
        name = f"v1.standard.{case}.{strategy}.regular.{cloud}.v1.{number // 8}.tasks"
        (folder / name).write_text(_write_execution(draw, tasks))
    return folder


def _write_execution(draw: random.Random, tasks: int) -> str:
    boots = [
        f"{draw.randint(30, 90)} {draw.randint(5, 20)} {draw.randint(0, 3)}" for _ in range(tasks)
    ]
    rows = []
    for number in range(tasks):
        run = draw.randint(20, 400)
        row = f"t{number} 5 {run + draw.randint(0, 60)} ~ {run + 4} {run} 1e6 2e6 1.5"
        rows.append(f"{row} -> t{number - 1}" if number and draw.random() < 0.3 else row)
    return "\n".join(["[boots]", *boots, "[tasks]", *rows, ""])
