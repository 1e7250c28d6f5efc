"""A complete study: generate a log, check it, simulate it with three policies, and compare.

The commands of a user are printed and run; the comparisons are made in Python.
"""

import argparse
from contextlib import chdir
from pathlib import Path

from rich.console import Console
from rich.table import Table

import twinloop as tl
from twinloop import metrics
from twinloop.cli import app
from twinloop.report import render_run_svg
from twinloop.report.quantity_text import format_duration

HERE = Path(__file__).resolve().parent
LOG = "--tasks 4000 --users 60 --mean-length 1500 --cores 1:3,4:3,16:3,32:2,128:1 --seed 7"
POLICIES = ("fcfs", "sjf", "easy")

console = Console(highlight=False)


def step(command: str) -> None:
    """Show a command of the terminal, and run it."""
    console.print(f"\n[bold green]$[/] [bold]{command}[/]", soft_wrap=True)
    app(command.split()[1:], standalone_mode=False)


def compare(scenario: tl.Scenario) -> None:
    """The same week under three policies, and under the last with one node in four switched off."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "mean wait", "95 %", "slowdown", "in use", "energy", "per task"):
        table.add_column(name, justify="right" if name else "left")
    smaller = scenario.replace(**{"platform.clusters[0].hosts[0].count": 12})
    runs = {name: scenario.replace(policy=name) for name in POLICIES}
    for name, each in {**runs, "easy, 4 nodes fewer": smaller}.items():
        run = tl.simulate(each)
        run.save(f"runs/{name.replace(', ', '-').replace(' ', '-')}", overwrite=True)
        found = metrics.figures(run).to_dict()
        table.add_row(
            name,
            format_duration(found["wait_mean_s"]),
            format_duration(found["wait_p95_s"]),
            f"{found['bounded_slowdown_mean']:.3g}",
            f"{found['utilisation']:.0%}",
            f"{found['energy_j'] / 3.6e6:,.0f} kWh",
            f"{found['energy_per_task_j'] / 3600:,.0f} Wh",
        )
    console.print("\n[bold]The same users under three policies, and with fewer nodes[/]\n")
    console.print(table)


def pictures(folder: Path) -> None:
    """The pictures of the documentation: a day on four nodes, and the sessions of a user."""
    nodes = {"cores": 8, "names": ["node 1", "node 2", "node 3", "node 4"]}
    day = tl.generate("sessions", seed=6, tasks=140, users=7, days=1, mean_length=3000,
                      activity=0.5, session_size=8)  # fmt: skip
    platform = tl.Platform(clusters=[{"hosts": [nodes]}])
    run = tl.simulate(tl.Scenario(platform=platform, workload=day, policy="easy"))
    (folder / "run.svg").write_text(render_run_svg(run), encoding="utf-8")

    log = tl.generate("sessions", seed=1, tasks=3000, users=25)
    graphs = tl.workload.SessionGraphs.from_log(log, by="arrival", threshold=600)
    branchy = max(graphs.users, key=lambda user: graphs[user].arity())
    (folder / "sessions.svg").write_text(graphs[branchy].to_svg(), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/week"), help="for what is made")
    parser.add_argument("--pictures", type=Path, help="only draw those of the documentation, there")
    wanted = parser.parse_args()
    if wanted.pictures:
        pictures(wanted.pictures)
        return
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with chdir(wanted.folder):
        step(f"twinloop generate sessions week.swf {LOG} --overwrite")
        step("twinloop check week.swf")
        scenario = tl.load(HERE / "scenario.yaml").replace(workload="week.swf")
        scenario.save("scenario.yaml")
        step("twinloop simulate scenario.yaml -o runs/week --picture run.html --overwrite")
        compare(scenario)
    console.print("\n[bold]Go on[/]  (`. .venv/bin/activate` puts `twinloop` on the path)\n")
    console.print(f"  open {wanted.folder}/run.html in a browser")
    console.print(f"  twinloop diff {wanted.folder}/runs/fcfs {wanted.folder}/runs/easy")


if __name__ == "__main__":
    main()
