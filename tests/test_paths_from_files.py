"""No name in a file of a folder leads out of the folder.

Every text in the descriptions of the folders is replaced by paths to a folder outside, which has
all files that a reader may open; all files that Python opens are recorded.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.report.sample_results import make_scenario
from tests.test_folder_names import fit
from twinloop.calibration.fit import Fit
from twinloop.campaign.external_simulator import Command
from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.file_names import join_below
from twinloop.exploration.closed_loop.plan import LoopPlan
from twinloop.exploration.closed_loop.result import Loop
from twinloop.exploration.closed_loop.run import loop
from twinloop.exploration.confirmation.bundles import bundle
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.confirmation.run import confirm
from twinloop.exploration.owned_files import list_loop_files
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.study.study import Study
from twinloop.report.view.page_cache import PageCache
from twinloop.trace import Trace

#: The inputs of a scenario may have any path; nothing else in a scenario is a path.
REFERENCES = {"scenario", "carbon", "path"}

#: Paths that were opened, listed or created since the last reset; None: they are not recorded.
watched: list[str] | None = None


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watched is not None and event in ("open", "os.listdir", "os.scandir", "os.mkdir"):
        watched.append(str(arguments[0]))


sys.addaudithook(watch)


def opened(read: Callable[[], object]) -> list[str]:
    """Return the files that a function opens; errors of Twinloop are accepted."""
    global watched
    watched = []
    try:
        read()
    except TwinloopError:
        pass
    finally:
        found, watched = watched, None
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of each kind, written by the code of the kind."""
    there = tmp_path_factory.mktemp("made")
    made = make_scenario()
    plan = LoopPlan.from_dict(
        {
            "scenario": made.to_dict(),
            "probes": {"probe": {"policy": "easy"}},
            "factors": {"policy": ["fifo", "easy"]},
        }
    )
    demo = there / "loop"
    real = tl.simulate(made)
    real.save(demo / "real")
    real.save(demo / "probes" / "probe")
    fit("a").save(demo / "fit")
    tl.explore(made, {"policy": ["fifo", "easy"]}, fit("a"), folder=demo / "study")
    runs = [
        {"candidate": name, "repetition": 1, "order": order, "makespan_s": 1.0 + order}
        | {"trace": f"runs/{name}"}
        for order, name in enumerate(("easy", "fifo"))
    ]
    for name in ("easy", "fifo"):
        real.save(demo / "confirmation" / "runs" / name)
    sides = [Candidate(name, made, {"makespan_s": 1.0}) for name in ("easy", "fifo")]
    Confirmation.of(sides[:1], sides[1], runs, ["makespan_s"]).save(demo / "confirmation")
    kept = {"twinloop": "1", "plan": plan.to_dict(), "offline": True}
    (demo / "loop.json").write_text(json.dumps(kept, default=str))
    easy = Candidate("easy", made.replace(policy="easy"), {"makespan_s": 1.0})
    bundle([easy], there / "bundle", baseline=sides[1], repetitions=1)
    return there


@pytest.fixture(scope="module")
def outside(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside, with every file that a reader may open."""
    place = tmp_path_factory.mktemp("outside") / "precious"
    place.mkdir()
    for part in ("real", "fit", "study", "confirmation"):
        for file in (folders / "loop" / part).iterdir():
            if file.is_file():
                (place / file.name).write_bytes(file.read_bytes())
    return place


def all_of(made: Confirmation | None) -> None:
    assert made is None or made.traces is not None


def whole_loop(folder: Path) -> None:
    assert Loop.load(folder).probes


#: Descriptions: a file below the folders, the folder to read, and the function that reads it.
READ: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "loop": ("loop/loop.json", "loop", whole_loop),
    "owned": ("loop/loop.json", "loop", list_loop_files),
    "study": ("loop/study/study.json", "loop/study", Study.load),
    "fit": ("loop/fit/fit.json", "loop/fit", Fit.load),
    "confirmation": (
        "loop/confirmation/confirmation.json",
        "loop/confirmation",
        lambda path: all_of(Confirmation.load(path)),
    ),
    "trace": ("loop/real/manifest.json", "loop/real", Trace.load),
    "view": ("loop/study/study.json", "loop", lambda path: PageCache(path).make_report("study")),
}


def texts(value: Any, address: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the addresses of texts and keys in a document; only in the first entry of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in REFERENCES:
                yield (*address, f"key {key}")
                yield from texts(inner, (*address, key))
    elif isinstance(value, list) and value:
        yield from texts(value[0], (*address, 0))
    elif isinstance(value, str):
        yield address


def changed(document: Any, address: tuple[Any, ...], text: str) -> Any:
    """Copy a document and replace the text at one address."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in address[:-1]:
        inner = inner[step]
    last = address[-1]
    if isinstance(last, str) and last.startswith("key "):
        inner[text] = inner.pop(last[4:])
    else:
        inner[last] = text
    return copy


@pytest.mark.parametrize("kind", READ)
def test_no_text_of_a_description_leaves_its_folder(
    kind: str, folders: Path, outside: Path
) -> None:
    name, place, read = READ[kind]
    file = folders / name
    before = file.read_bytes()
    document = json.loads(before)
    climbing = "../" * 30 + str(outside).lstrip("/")
    addresses = [a for a in texts(document) if kind != "view" or a == ("fit",)]
    assert addresses
    try:
        for number, address in enumerate(addresses):
            hostile = climbing if number % 2 else str(outside)
            file.write_text(json.dumps(changed(document, address, hostile)))
            found = opened(lambda: read(folders / place))
            assert not [path for path in found if "precious" in path], address
    finally:
        file.write_bytes(before)
    # The unchanged description is readable, so the test is not empty.
    assert opened(lambda: read(folders / place))


def test_no_path_in_the_table_of_a_confirmation_leaves_its_folder(
    folders: Path, outside: Path
) -> None:
    folder = folders / "loop" / "confirmation"
    table = folder / "runs.parquet"
    before = table.read_bytes()
    try:
        for hostile in (str(outside), "../" * 30 + str(outside).lstrip("/"), "..", "runs/../.."):
            frame = pl.read_parquet(before).with_columns(trace=pl.lit(hostile))
            frame.write_parquet(table)
            with pytest.raises(InputError, match="is not a valid name inside this folder"):
                assert Confirmation.load(folder).traces
    finally:
        table.write_bytes(before)


def test_a_confirmation_stores_returned_traces_in_its_folder(folders: Path, tmp_path: Path) -> None:
    """Otherwise it could name runs elsewhere, which an attacker may have written."""
    made = make_scenario()
    base = Candidate("fifo", made, {"makespan_s": 2.0})
    easy = Candidate("easy", made.replace(policy="easy"), {"makespan_s": 1.0})
    for run in json.loads((folders / "bundle" / "plan.json").read_text())["runs"]:
        side = easy if run["configuration"] == "easy" else base
        place = folders / "bundle" / "runs" / run["name"]
        if not place.exists():
            tl.simulate(side.scenario).save(place)
    for _ in range(2):  # a repetition gives the same result
        kept = confirm(
            [easy], baseline=base, traces=folders / "bundle", folder=tmp_path / "kept",
            diagnose=False, announce=lambda text: None,
        )  # fmt: skip
    assert all(path.startswith("runs/") for path in kept.runs["trace"])
    assert Confirmation.load(tmp_path / "kept").traces == kept.traces
    # Runs of another confirmation under these names are not replaced.
    first = tmp_path / "kept" / kept.runs["trace"][0]
    tl.simulate(made.replace(seed=9)).save(first, overwrite=True)
    with pytest.raises(InputError, match="contains another run named"):
        confirm([easy], baseline=base, traces=folders / "bundle", folder=tmp_path / "kept",
                announce=lambda text: None)  # fmt: skip


@pytest.mark.parametrize("name", ["../../important", "/tmp/important", "a/b", "..", "", "a\0b"])
def test_the_name_of_a_probe_is_no_path(name: str, tmp_path: Path) -> None:
    plan = {
        "scenario": make_scenario().to_dict(),
        "probes": {name: {"policy": "easy"}},
        "factors": {"policy": ["fifo"]},
    }
    with pytest.raises(InputError, match="is not a valid name inside this folder"):
        LoopPlan.from_dict(plan)
    # Also for a plan that was not checked.
    sound = LoopPlan.from_dict(plan | {"probes": {"a": {"policy": "easy"}}})
    odd = sound.model_copy(update={"probes": {name: {"policy": "easy"}}})
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "manifest.json").touch()
    with pytest.raises(InputError, match="is not a valid name inside this folder"):
        loop(odd, tmp_path / "out", traces=tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.real
def test_a_black_box_writes_and_reads_in_its_scratch_folder_only(tmp_path: Path) -> None:
    target = tmp_path / "important"
    target.write_text("7")
    for name in (str(target), "../" * 30 + str(target).lstrip("/")):
        with pytest.raises(InputError, match="must be a name in the scratch folder"):
            Command(command=["true"], files={name: "text"})
        # A value of a case may be part of a name.
        with pytest.raises(InputError, match="is not a valid name inside this folder"):
            Command(command=["true"], reads="{case.file}")({}, {"file": name})


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a subfolder, and links that stay inside and that lead out."""
    there = tmp_path_factory.mktemp("names")
    (there / "folder" / "in").mkdir(parents=True)
    (there / "precious").mkdir()
    (there / "folder" / "link").symlink_to("in")
    (there / "folder" / "out").symlink_to(there / "precious")
    return there / "folder"


PARTS = ["..", ".", "", "a", "in", "out", "link", "\\", "\0", "/"]


@given(
    st.one_of(
        st.text(max_size=12),
        st.lists(st.sampled_from(PARTS)).map("/".join),
        st.integers(),
        st.none(),
    )
)
def test_a_name_becomes_a_path_below_the_folder_or_is_refused(tree: Path, name: Any) -> None:
    for deep in (False, True):
        try:
            path = join_below(tree, name, deep=deep)
        except InputError:
            continue
        assert path.resolve().is_relative_to(tree.resolve())
        assert path.resolve() != tree.resolve()
        assert deep or path.parent == tree
        assert "precious" not in str(path.resolve())


def test_paths_of_documents_are_joined_in_one_place_only() -> None:
    """`folder / kept["fit"]` is a path that another user chose: `join_below` makes such paths."""
    joined = re.compile(
        r"\b(folder|path|root|where|place|kept|traces|there|parent)\)? / (str\()?\w+(\[|\.get\()"
        r"|(?<!resources\.files\(package\))(?<!files\(__package__\))\.joinpath\("
    )
    source = Path(tl.__file__).parent
    found = [
        f"{file.relative_to(source)}:{number}: {line.strip()}"
        for file in sorted(source.rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if joined.search(line)
    ]
    assert not found
