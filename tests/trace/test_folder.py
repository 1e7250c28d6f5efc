"""Law: a trace folder is complete or absent, and a loaded trace equals the saved trace."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.broken import sign
from twinloop.description import Cleaning, DamagedTraceError, InputError, TwinloopError
from twinloop.description.files import write_folder_atomically
from twinloop.trace import Manifest, Trace, read, write
from twinloop.trace.folder import make_ownership_rule

TIMES = st.floats(-1e15, 1e15) | st.none()
TASKS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text(max_size=8),
            "submit": TIMES,
            "user": st.text(max_size=3) | st.none(),
            "parents": st.lists(st.text(max_size=3), max_size=3) | st.none(),
            "resources": st.lists(
                st.fixed_dictionaries({"name": st.text(max_size=4), "amount": TIMES}), max_size=2
            ),
        }
    ),
    min_size=1,
    max_size=8,
)


def small() -> Trace:
    return Trace(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.5]}),
        power=pl.DataFrame({"t": [1.0], "dt": [1.0], "watts": [90.0]}),
        manifest=Manifest(
            epoch_ms=1_726_128_005_000,
            seed=7,
            cleaned=(Cleaning(kind="skipped", what="a line", count=1, examples=("x:1",)),),
        ),
    )


@given(rows=TASKS, epoch=st.integers(-(2**62), 2**62))
def test_a_loaded_trace_equals_the_saved_trace(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], epoch: int
) -> None:
    trace = Trace(tasks=pl.DataFrame(rows, infer_schema_length=None), manifest=Manifest(seed=epoch))
    path = trace.save(tmp_path_factory.mktemp("t") / "run")
    assert Trace.load(path) == trace


def test_an_existing_folder_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    path = small().save(tmp_path / "run")
    with pytest.raises(InputError, match="exists already"):
        Trace(tasks=pl.DataFrame({"id": ["z"]})).save(path)
    assert Trace.load(path) == small()
    Trace(tasks=pl.DataFrame({"id": ["z"]})).save(path, overwrite=True)
    assert Trace.load(path).tasks["id"].to_list() == ["z"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("form", ["trace", "cts", "opendc"])
@pytest.mark.parametrize("beside", ["manifest.json", "invocations.jsonl", "tasks.parquet"])
def test_a_folder_with_other_files_is_never_replaced(
    tmp_path: Path, form: str, beside: str
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / beside).write_text("{}")
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(InputError, match="thesis: exists and contains other files"):
        write(small(), tmp_path / "thesis", form, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def written(run: Path, in_the_meantime: Callable[[], object]) -> None:
    with write_folder_atomically(run, make_ownership_rule(Trace().manifest.kind)) as new:
        (new / "manifest.json").write_text("{}")
        in_the_meantime()


@pytest.mark.parametrize("there", [False, True])
def test_files_of_concurrent_writers_are_never_replaced(tmp_path: Path, there: bool) -> None:
    run = tmp_path / "run"
    if there:
        Trace().save(run)

    def other_process() -> None:
        run.mkdir(exist_ok=True)
        (run / "thesis.tex").write_text("three years of work")

    with pytest.raises(InputError, match=r"run: .*so it is not replaced"):
        written(run, other_process)
    assert (run / "thesis.tex").read_text() == "three years of work"
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_of_two_concurrent_writers_of_a_folder_the_first_wins(
    tmp_path: Path,
) -> None:
    first, run = Trace(tasks=pl.DataFrame({"id": ["a"]})), tmp_path / "run"
    with pytest.raises(InputError, match="another process in the meantime"):
        written(run, lambda: first.save(run))
    assert Trace.load(run) == first


@pytest.mark.parametrize("form", ["trace", "cts", "opendc", "swf"])
def test_an_impossible_path_is_an_input_error(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="below: cannot be written"):
        write(small(), tmp_path / "file" / "below", form)


def test_an_unknown_option_of_a_format_is_an_error_that_lists_its_options(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="'swf' has no option 'missing'"):
        write(small(), tmp_path / "log.swf", missing="drop")
    path = small().save(tmp_path / "run")
    with pytest.raises(InputError, match=r"'trace' has no option 'units' \(it has: strict\)"):
        read(path, units={})


def test_a_save_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small().save(tmp_path / "run")

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(InputError, match="run: cannot be written: no space"):
        small().save(path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert Trace.load(path) == small()


def remove_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def remove_table(path: Path) -> None:
    (path / "tasks.parquet").unlink()


def change_table(path: Path) -> None:
    data = bytearray((path / "power.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "power.parquet").write_bytes(data)


def cut_manifest(path: Path) -> None:
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text[: len(text) // 2])


def change_manifest(**changes: object) -> object:
    """Change a value, with the matching hash that another program would have written."""

    def change(path: Path) -> None:
        document = json.loads((path / "manifest.json").read_text()) | changes
        rest = {key: value for key, value in document.items() if key != "sha256"}
        document["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
        (path / "manifest.json").write_text(json.dumps(document))

    return change


def edit_by_hand(path: Path) -> None:
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace("1726128005000", "1726128005001"))


def forget_a_table(path: Path) -> None:
    document = json.loads((path / "manifest.json").read_text())
    del document["tables"]["power.parquet"]
    change_manifest(tables=document["tables"])(path)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_manifest, "no manifest.json"),
        (remove_table, "tasks.parquet: is missing"),
        (change_table, "power.parquet: has changed since it was saved"),
        (cut_manifest, "manifest.json:.*is not valid JSON"),
        (edit_by_hand, "manifest.json: has changed since it was saved"),
        (forget_a_table, "power.parquet: exists, but the manifest does not list it"),
        (change_manifest(schema_version=99), "schema version 99.*update twinloop"),
        (change_manifest(seed="seven"), "manifest.json: seed"),
        (change_manifest(tables=[]), "not the manifest of a trace"),
        (change_manifest(colour="red"), "colour"),
    ],
)
def test_a_damaged_folder_is_an_error_that_names_the_file(
    tmp_path: Path, damage: object, message: str
) -> None:
    path = small().save(tmp_path / "run")
    damage(path)  # type: ignore[operator]
    with pytest.raises(DamagedTraceError, match=message) as caught:
        Trace.load(path)
    assert "run" in str(caught.value)


def test_a_trace_does_not_change() -> None:
    trace = small()
    trace.tasks.insert_column(0, pl.Series("colour", ["red", "blue"]))
    frame = trace.tasks
    frame[0, "submit"] = 99.0
    assert trace == small()


def test_unknown_tables_and_columns_and_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TwinloopError, match="no table 'jobs'"):
        Trace(jobs=pl.DataFrame())
    with pytest.raises(TwinloopError, match="no column 'colour'"):
        Trace(tasks=pl.DataFrame({"id": ["a"], "colour": ["red"]}))
    with pytest.raises(TwinloopError, match="tasks"):
        Trace(tasks=pl.DataFrame({"id": ["a"], "submit": ["soon"]}))


@pytest.mark.parametrize(
    ("table", "column", "unit"), [("tasks", "submit", "s"), ("power", "watts", "W")]
)
def test_times_and_powers_beyond_all_bounds_are_refused(
    tmp_path: Path, table: str, column: str, unit: str
) -> None:
    trace = small()
    large = trace.replace(**{table: trace.tables[table].with_columns(pl.lit(-1e16).alias(column))})
    path = large.save(tmp_path / "run")
    message = rf"{table}.parquet: {column} in row 1: -1e\+16 {unit} is beyond 1e\+15 {unit}"
    with pytest.raises(DamagedTraceError, match=message):
        Trace.load(path)


def test_a_column_of_structures_is_no_column_of_names(tmp_path: Path) -> None:
    path = small().save(tmp_path / "run")
    pl.DataFrame({"id": [{"a": 1}]}).write_parquet(path / "tasks.parquet")
    sign(path)
    with pytest.raises(DamagedTraceError, match=r"tasks.parquet: .*'id' is Struct.*, not String"):
        Trace.load(path)
