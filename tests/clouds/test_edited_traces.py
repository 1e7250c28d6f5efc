"""Operations on the traces of clouds: windows, selections and merges keep their instances."""

from __future__ import annotations

import twinloop as tl
from twinloop.trace import Trace, edit


def make_cloud_run() -> Trace:
    """Three instances of one task each, with an image and a boot; the last one is refused."""
    platform = {
        "clusters": [{"name": "rack", "hosts": [{"name": "pm", "cores": 2, "ports": "100 MB/s"}]}],
        "stores": [{"name": "images", "ports": "100 MB/s"}],
        "clouds": [
            {
                "name": "east",
                "images": [{"name": "base", "size": "100 MB", "boot": {"delay": 4}}],
                "controllers": {"placement": {"name": "first-fit", "options": {"queue": "refuse"}}},
            }
        ],
    }
    tasks = [
        {"id": "a", "submit": 0, "run_time": 20, "user": "ann"},
        {"id": "b", "submit": 100, "run_time": 20, "user": "bob"},
        {"id": "c", "submit": 110, "run_time": 20, "cores": 2, "user": "bob"},
    ]
    return tl.simulate(
        tl.Scenario(platform=platform, workload={"tasks": tasks}, policy="one-per-task")
    )


def test_a_window_has_the_instances_of_its_tasks_at_its_times() -> None:
    run = make_cloud_run()
    later = edit.window(run, 100, 200)
    columns = ["instance", "requested", "ready", "end", "reason"]
    assert later.instances.select(columns).rows() == [
        ("instance-2", 0.0, 5.0, 25.0, "released"),
        ("instance-3", 10.0, None, 10.0, "refused"),
    ]
    assert set(later.instance_states["instance"]) == {"instance-2"}
    assert later.transfers.select("subject", "start", "end").rows() == [("instance-2", 0.0, 1.0)]
    earlier = edit.window(run, 0, 100)
    assert earlier.instances["instance"].to_list() == ["instance-1"]


def test_selected_tasks_keep_their_instances() -> None:
    chosen = edit.select(make_cloud_run(), users=["ann"])
    # An instance without a task may be of anyone.
    assert chosen.instances["instance"].to_list() == ["instance-1", "instance-3"]
    assert chosen.transfers["subject"].to_list() == ["instance-1"]


def test_merged_runs_have_the_instances_of_both() -> None:
    run = make_cloud_run()
    both = edit.merge([run, run], names=["x", "y"], same_site=False)
    assert both.instances["instance"].n_unique() == 6
    placed = both.placements.join(both.instances, left_on="machine", right_on="instance")
    assert placed.select("task", "host", "cloud").rows() == [
        (f"{name}/{task}", f"{name}/rack-pm-001", f"{name}/east") for name in "xy" for task in "ab"
    ]
    assert set(both.transfers["subject"]) == {f"{name}/instance-{i}" for name in "xy" for i in "12"}
    assert set(both.transfers["from"]) == {"images"}


def test_windows_of_a_run_make_the_run_again() -> None:
    run = make_cloud_run()
    parts = [edit.window(run, 100 * i, 100 * (i + 1), rebase=False) for i in range(2)]
    both = edit.merge(parts, same_site=True)
    for table in ("instances", "instance_states", "transfers"):
        assert both.tables[table].equals(run.tables[table])
