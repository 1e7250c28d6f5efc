"""What is sent to workers can be used where modules of one's own are not installed."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import twinloop as tl
from twinloop.campaign import worker
from twinloop.campaign.main_module import HiddenMain
from twinloop.campaign.serialisation import serialise
from twinloop.exploration.factors.design import read_design
from twinloop.exploration.study.plan import plan_runs
from twinloop.exploration.study.runner import Runner

HELPER = "def limit(most):\n    return most\n"
MINE = """
from twinloop.policy import Place, Policy
import helper_of_mine

class Mine(Policy):
    def __init__(self, most):
        self.most = most

    def decide(self, view):
        room = min(helper_of_mine.limit(self.most) - len(view.running), int(view.free_cores[0]))
        return [Place(task, 0) for task in list(view.waiting)[:max(0, room)]]
"""
TASKS = {"tasks": [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(12)]}
BASE = tl.Scenario(platform="1x8", policy="fifo", workload=TASKS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a policy and what it needs; only while `sys.path` has it can it be imported."""
    (tmp_path / "policy_of_mine.py").write_text(MINE)
    (tmp_path / "helper_of_mine.py").write_text(HELPER)
    return tmp_path


def forget() -> None:
    for name in ("policy_of_mine", "helper_of_mine"):
        sys.modules.pop(name, None)


def test_a_policy_travels_with_the_modules_that_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an object and by its name, to a worker that has neither module."""
    named = {"name": "policy_of_mine:Mine", "options": {"most": 8}}
    with monkeypatch.context() as here:
        here.syspath_prepend(folder)
        forget()
        mine = __import__("policy_of_mine").Mine
        plan = plan_runs(BASE, read_design({"policy": [mine(1), named]}), {}, allow_code=True)
        items: list[Any] = [run.changes for run in plan.runs]
        runner = Runner(BASE, allow_code=True, code=plan.code)
        parcels = [serialise(thing, include_user_modules=True) for thing in (runner, *items)]
        assert cloudpickle.list_registry_pickle_by_value() == set()
    forget()
    sent, *found = map(pickle.loads, parcels)
    assert [sent(each)["kpis"]["makespan_s"] for each in found] == [120.0, 20.0]
    assert "policy_of_mine" not in sys.modules


def test_what_cannot_go_by_value_goes_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import threading\nlock = threading.Lock()\ndef held():\n    return lock.locked()\n"
    (folder / "helper_of_mine.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    forget()
    held = __import__("helper_of_mine").held
    assert pickle.loads(serialise(held, include_user_modules=True)) is held
    forget()


def test_the_script_is_hidden_from_child_processes_and_seen_again() -> None:
    script = sys.modules["__main__"]
    first, second = HiddenMain(), HiddenMain()
    assert sys.modules["__main__"] is not script
    first.close()
    first.close()
    assert sys.modules["__main__"] is not script
    second.close()
    assert sys.modules["__main__"] is script


SCRIPT = textwrap.dedent("""
    import twinloop as tl
    from policy_of_mine import Mine

    class Here(Mine):
        pass

    print("began", flush=True)
    tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(12)]
    base = tl.Scenario(platform="1x8", policy="fifo", workload={"tasks": tasks})
    study = tl.explore(base, {"policy": [Mine(1), Here(8)]}, on="dask", workers=1)
    print(study.runs["makespan_s"].to_list())
""")


@pytest.mark.real
def test_a_script_without_a_guard_can_use_dask(folder: Path) -> None:
    pytest.importorskip("distributed")
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.splitlines() == ["began", "[120.0, 20.0]"], done.stderr
    assert done.returncode == 0


def test_a_worker_says_what_to_do_about_a_module_that_it_lacks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:
        here.syspath_prepend(folder)
        forget()
        parcel = serialise(__import__("helper_of_mine").limit)
    forget()
    found = worker.evaluate_bytes(abs, parcel).error or ""
    assert "No module named 'helper_of_mine'" in found
    assert "install 'helper_of_mine' where the workers run" in found
