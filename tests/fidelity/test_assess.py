"""Complete verdicts: modes, statuses, noise floors, alignments, errors, and their laws."""

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fidelity.runs import run
from twinloop.description import InputError
from twinloop.fidelity import Alignment, Criteria, NoiseFloor, Verdict, assess, fit_alignment
from twinloop.trace import Trace

CORES = [1.0, 2.0, 1.0, 2.0, 4.0] * 4
FAST = Criteria(power={"segment": 10, "lag": 10, "surrogates": 2})


def failing(verdict: Verdict) -> set[str]:
    return {found.name for found in verdict.findings if found.status == "FAIL"}


def queue(length: float, tasks: int = 50, **more: object) -> Trace:
    """Tasks that are submitted at the same time and run one after another."""
    return run(np.arange(tasks) * length, length, **more)  # type: ignore[arg-type]


def whole(seed: int = 0, n: int = 45) -> Trace:
    """A run with data for all criteria."""
    rng = np.random.default_rng(seed)
    return run(
        np.sort(rng.uniform(0, 900, n)),
        20.0,
        usage={str(task): list(rng.uniform(1, 3, 20)) for task in range(n)},
        watts=100 + rng.standard_normal(950),
        users=[f"u{task % 3}" for task in range(n)],
        machines=[f"n{task % 2}" for task in range(n)],
    )


# --- verdicts ------------------------------------------------------------------------------------


def test_a_run_is_its_own_perfect_twin() -> None:
    real = whole()
    verdict = assess(real, real)
    assert verdict.status == "PASS"
    assert verdict.exit_code == 0
    assert set(verdict.metrics.values()) == {"PASS"}
    errors = verdict.errors
    assert set(errors.figures["error"]) == {0.0}
    assert errors.figures["figure"].to_list()[-1] == "energy while both known"
    assert (errors.power_mape, errors.power_bias) == (0.0, 0.0)
    assert (errors.same_machine, errors.placed, errors.matched) == (45, 45, 45)
    assert errors.worst.is_empty()
    assert set(errors.users["turnaround_off"]) == {0.0}


@pytest.mark.parametrize(
    "trace", [Trace(), run([]), run([5.0]), Trace(tasks=pl.DataFrame({"id": ["a"]}))]
)
def test_too_little_data_is_never_passed(trace: Trace) -> None:
    verdict = assess(trace, trace)
    assert (verdict.status, verdict.exit_code) == ("not assessable", 3)
    assert not failing(verdict)
    for text in (str(verdict), verdict.markdown(), verdict._repr_html_()):
        assert "not assessable" in text


@pytest.mark.parametrize("kept", ["tasks", "placements", "usage", "power"])
def test_only_criteria_with_data_are_assessed(kept: str) -> None:
    """Power alone can pass; no other single table is enough; missing data is an error."""
    all_of_it = whole()
    part = Trace(**{kept: all_of_it.tables[kept]})
    alone = "PASS" if kept == "power" else "not assessable"
    for real, twin in ((part, all_of_it), (part, part)):
        assert assess(real, twin, criteria=FAST).status == alone
    lost = assess(all_of_it, part, criteria=FAST)
    assert lost.status == "FAIL"
    assert [finding.status for finding in lost.findings].count("FAIL") == 1


@pytest.mark.parametrize(
    ("facts", "mode", "first"),
    [
        ({"mode": "replay", "injected": ["run times", "latencies"]}, "replay",
         "replay: run times, latencies taken from the real run"),
        ({"mode": "predict", "injected": []}, "predict",
         "predict: nothing taken from the real run"),
        ({"mode": "predict"}, "predict", "predict: nothing taken from the real run"),
        ({"mode": "real"}, "unknown",
         "unknown mode: the manifest of the twin does not list what was taken from the real run"),
    ],
)  # fmt: skip
def test_the_first_line_states_replay_or_predict(
    facts: dict[str, object], mode: str, first: str
) -> None:
    verdict = assess(queue(10), queue(10, facts=facts))
    assert verdict.mode == mode
    assert str(verdict).splitlines()[0] == first
    assert verdict.markdown().splitlines()[0] == first
    assert verdict._repr_html_().startswith(f"<p>{first}</p>")


def test_the_table_is_readable_at_the_prompt() -> None:
    verdict = assess(whole(), whole(1), repeats=[whole(2)], alignment=Alignment(k=1.1))
    lines = str(verdict).splitlines()
    assert max(map(len, lines)) <= 100
    heading = next(line for line in lines if line.startswith("criterion"))
    assert heading.split() == [
        "criterion", "figure", "threshold", "floor", "unaligned", "verdict",
    ]  # fmt: skip
    for found in verdict.findings:
        row = next(line for line in lines if line.startswith(f"  {found.name} "))
        assert row.removesuffix(" (weak)").endswith(found.status)
        assert row.endswith(" (weak)") == found.is_weak
    assert verdict["p50"].figure_text in str(verdict)


def test_ids_that_are_not_unique_are_an_error() -> None:
    twice = Trace(tasks=pl.DataFrame({"id": ["a", "a"]}))
    with pytest.raises(InputError, match="two tasks of the twin have the ID 'a'"):
        assess(queue(10), twice)


def test_the_criteria_are_stated() -> None:
    verdict = assess(queue(10), queue(10.6))
    assert "criteria: the defaults" in str(verdict)
    assert failing(verdict) == {"p50", "makespan"}
    loose = assess(
        queue(10), queue(10.6), criteria=Criteria(waits={"p50": 0.07}, makespan={"absolute": 60})
    )
    assert not failing(loose)
    assert "waits.p50 0.07 (default 0.05), makespan.absolute 60 (default 6)" in " ".join(
        str(loose).split()
    )


# --- known defects -------------------------------------------------------------------------------


def test_waits_that_are_7_per_cent_too_long_fail_the_median_alone() -> None:
    real = queue(10)
    waits = np.arange(50) * 10
    twin = run(1.07 * waits, waits + 10 - 1.07 * waits)
    assert failing(assess(real, twin)) == {"p50"}


def test_a_missing_start_up_of_800_ms_fails_median_and_makespan() -> None:
    """50 tasks of 10.8 s in a row: all waits 7.4 % too short, the makespan 40 of 540 s."""
    verdict = assess(queue(10.8), queue(10.0))
    assert failing(verdict) == {"p50", "makespan"}
    assert verdict["p50"].figure == pytest.approx(0.8 / 10.8)
    assert verdict["makespan"].figure == pytest.approx(40.0)
    figures = {row["figure"]: row for row in verdict.errors.figures.to_dicts()}
    assert figures["mean run time"]["error"] == pytest.approx(-0.8)


def test_a_usage_that_is_off_by_7_per_cent_fails_on_size_alone() -> None:
    """sMAPE 0.14 / 2.07 = 6.8 %; the RMSE is 0.07 sqrt(26 / 5) = 8 % of the median, 2 cores."""
    real = queue(20, usage={"0": CORES})
    twin = queue(20, usage={"0": [1.07 * cores for cores in CORES]})
    assert failing(assess(real, twin)) == {"sMAPE"}


def test_idle_power_is_an_error_in_watts_and_fails_no_criterion() -> None:
    watts = 100 + np.random.default_rng(0).standard_normal(1000)
    verdict = assess(queue(20, watts=watts), queue(20, watts=watts + 25))
    assert not failing(verdict)
    assert verdict.errors.power_bias == pytest.approx(25)
    figures = {row["figure"]: row for row in verdict.errors.figures.to_dicts()}
    assert figures["energy"]["error"] == pytest.approx(25000)


# --- compared tasks ------------------------------------------------------------------------------


def test_tasks_that_failed_in_the_real_run_are_not_compared() -> None:
    real, twin = queue(10), queue(10)
    status = pl.when(pl.col("id").is_in(["3", "4"])).then(pl.lit("failed")).otherwise("status")
    failed = real.replace(tasks=real.tasks.with_columns(status=status))
    verdict = assess(failed, twin)
    assert verdict["curve RMSE"].figure == 0
    assert verdict["KS p"].figures["n_twin"] == 48
    assert "2 tasks completed only in the twin: not compared" in verdict.notes
    # In the other direction the twin lacks two tasks.
    assert assess(twin, failed)["KS p"].figures["n_twin"] == 48
    assert assess(twin, failed).errors.only_real == 2


@pytest.mark.parametrize(("ends", "submits"), [((5.0, 1000.0), 0.0), ((1000.0, 5.0), -300.0)])
def test_the_makespan_is_that_of_the_compared_tasks(
    ends: tuple[float, float], submits: float
) -> None:
    """The last task failed in reality, after 5 or 1000 s; the others are the same in both."""
    first = [0.0] * 6 + [submits]
    lengths = [20.0 * (task + 1) for task in range(6)]
    real, twin = (run([0.0] * 7, [*lengths, end], submits=first) for end in ends)
    failed = pl.when(pl.col("id") == "6").then(pl.lit("failed")).otherwise("status")
    real = real.replace(tasks=real.tasks.with_columns(status=failed))
    verdict = assess(real, twin)
    assert verdict["makespan"].figure == 0
    assert verdict["makespan"].status == verdict["curve RMSE"].status == "PASS"
    row = verdict.errors.figures.row(by_predicate=pl.col("figure") == "makespan", named=True)
    assert (row["real"], row["twin"]) == (120.0, 120.0)


def test_ended_tasks_of_unknown_status_count_with_a_note() -> None:
    real = queue(10)
    unknown = real.replace(tasks=real.tasks.with_columns(status=pl.lit(None, dtype=pl.String)))
    verdict = assess(unknown, unknown)
    assert verdict.status == "PASS"
    assert "50 tasks of the real run of unknown status, treated as completed" in verdict.notes


# --- errors --------------------------------------------------------------------------------------


def test_errors_name_the_worst_tasks_users_and_sizes() -> None:
    users, machines = ["ann", "bob", "ann", "bob"], ["n1", "n2", "n1", "n2"]
    real = run([0, 5, 10, 15], [5, 5, 100, 5000], users=users, machines=machines)
    twin = run([0, 9, 10, 15], [5, 5, 107, 5000], users=users, machines=["n1", "n1", "n1", "n2"])
    errors = assess(real, twin).errors
    assert (errors.same_machine, errors.placed) == (3, 4)
    worst = {row["quantity"]: row for row in reversed(errors.worst.to_dicts())}
    assert (worst["wait"]["id"], worst["wait"]["user"], worst["wait"]["error"]) == ("1", "bob", 4)
    assert (worst["wait"]["machine_real"], worst["wait"]["machine_twin"]) == ("n2", "n1")
    assert (worst["run_time"]["id"], worst["run_time"]["error"]) == ("2", 7)
    assert (worst["turnaround"]["real"], worst["turnaround"]["twin"]) == (110, 117)
    by_user = {row["user"]: row for row in errors.users.to_dicts()}
    assert by_user["ann"]["run_time_error"] == 3.5
    assert by_user["bob"]["wait_off"] == 2
    sizes = errors.sizes.select("cores_class", "run_time_class", "tasks").rows()
    assert sizes == [("1", "up to 10 s", 2), ("1", "1 - 10 min", 1), ("1", "1 - 10 h", 1)]
    figures = {row["figure"]: row for row in errors.figures.to_dicts()}
    assert figures["mean wait"]["error"] == 1
    assert figures["mean wait"]["relative"] == pytest.approx(1 / 7.5)
    assert "task 1, user bob, on n2, in the twin n1" in str(errors)


# --- the noise floor -----------------------------------------------------------------------------


def test_the_floor_is_the_median_over_all_pairs_of_real_runs() -> None:
    """Makespans of 500, 505 and 520 s differ by 5, 15 and 20 s, each pair twice: median 15."""
    verdict = assess(queue(10), queue(10.05), repeats=[queue(10.1), queue(10.4)])
    assert verdict["makespan"].figure == pytest.approx(2.5)
    assert verdict["makespan"].floor == pytest.approx(15.0)
    assert "repetitions of the real run fail this too" in verdict["makespan"].note
    assert verdict.repeats == 2
    row = verdict.errors.figures.row(by_predicate=pl.col("figure") == "makespan", named=True)
    middle = np.median([5 / 500, 5 / 505, 20 / 500, 20 / 520, 15 / 505, 15 / 520])
    assert row["floor"] == pytest.approx(middle)


def test_one_repeat_is_a_weak_floor_and_no_repeat_is_noted() -> None:
    one = assess(queue(10), queue(10), repeats=[queue(10.1)])
    assert one["makespan"].floor == pytest.approx(5.0)
    assert "weak: one pair" in str(one)
    none = assess(queue(10), queue(10))
    assert {found.floor for found in none.findings} == {None}
    assert "no repetition of the real run was given" in str(none)


def test_the_floor_does_not_mix_seconds_and_shares() -> None:
    """A makespan of 605 s has a rule in percent, those of 597 and 599 s have one in seconds."""
    runs = [run([0] * 4, [100, 200, 300, last]) for last in (605, 597, 599)]
    floor = NoiseFloor.from_traces(runs)
    verdicts = [assess(real, runs[0], floor=floor) for real in runs]
    assert [verdict["makespan"].unit for verdict in verdicts] == ["share", "s", "s"]
    # As the real run of each pair has it: 8 and 6 of 605 s; 8, 2, 6 and 2 s.
    floors = [verdict["makespan"].floor for verdict in verdicts]
    assert floors == pytest.approx([7 / 605, 4.0, 4.0])


def test_a_given_floor_gives_the_same_verdict_as_the_repeats() -> None:
    runs = [queue(length, facts={"mode": "real"}) for length in (10, 10.1, 10.4)]
    criteria = Criteria(waits={"p50": 0.01})
    floor = NoiseFloor.from_traces(runs, criteria)
    twin = queue(10.05)
    for real in runs:
        others = [other for other in runs if other is not real]
        one = assess(real, twin, floor=floor)
        other = assess(real, twin, criteria=criteria, repeats=others)
        assert one.findings == other.findings
        assert str(one) == str(other)
        assert (one.repeats, one.to_dict()) == (2, other.to_dict())
    alone = assess(runs[0], twin, floor=NoiseFloor.from_traces(runs[:1]))
    assert alone.to_dict() == assess(runs[0], twin).to_dict()


def test_a_floor_that_does_not_fit_the_assessment_is_refused() -> None:
    floor = NoiseFloor.from_traces([queue(10), queue(11)])
    with pytest.raises(InputError, match="floor: does not contain the real run"):
        assess(queue(12), queue(10), floor=floor)
    with pytest.raises(InputError, match="floor: was computed with other criteria"):
        assess(queue(10), queue(10), floor=floor, criteria=Criteria(waits={"p50": 0.01}))
    with pytest.raises(InputError, match="give one of the two"):
        assess(queue(10), queue(10), floor=floor, repeats=[queue(11)])
    with pytest.raises(InputError, match="run 2 is identical to run 1"):
        NoiseFloor.from_traces([queue(10), queue(10)])


def test_the_same_run_is_no_repetition() -> None:
    with pytest.raises(InputError, match="repeat 1 is identical to the real run"):
        assess(queue(10), queue(10), repeats=[queue(10)])
    with pytest.raises(InputError, match="repeat 2 is identical to repeat 1"):
        assess(queue(10), queue(10), repeats=[queue(11), queue(11)])


# --- alignment -----------------------------------------------------------------------------------


def test_k_and_offset_are_recovered_from_training_runs() -> None:
    training, test = (
        (
            run(waits, 20.0, usage={"0": CORES}),
            run(waits + 3.0, 20.0, usage={"0": [1.07 * cores for cores in CORES]}),
        )
        for waits in (np.arange(50) * 20.0, np.arange(50) * 21.0)
    )
    alignment = fit_alignment([training])
    assert alignment.k == pytest.approx(1.07)
    assert alignment.offset == pytest.approx(3.0)
    verdict = assess(*test, alignment=alignment)
    assert verdict["sMAPE"].figure == pytest.approx(0, abs=1e-9)
    assert verdict["sMAPE"].unaligned == pytest.approx(0.14 / 2.07)
    assert "FAIL without the alignment" in verdict["sMAPE"].note
    assert verdict["curve RMSE"].figures["without_lag"] == 0
    assert assess(*test)["curve RMSE"].figures["without_lag"] > 0
    # A wait or a makespan is a length: an offset changes none.
    assert verdict["makespan"].figure == verdict["makespan"].unaligned
    assert "fitted on 1 training run" in str(verdict)


def test_a_run_of_the_fitted_alignment_cannot_be_assessed() -> None:
    real, twin = queue(10), queue(11)
    alignment = fit_alignment([(real, twin)])
    with pytest.raises(InputError, match="fitted on this run"):
        assess(real, twin, alignment=alignment)
    with pytest.raises(InputError, match="at least one pair of runs"):
        fit_alignment([])
    with pytest.raises(InputError, match=r"alignment\.k"):
        Alignment(k=0)


# --- laws ----------------------------------------------------------------------------------------

tenths = st.integers(0, 5000).map(lambda n: n / 10)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, object]:
    tasks = draw(st.integers(0, 12))
    many = st.lists(tenths, min_size=tasks, max_size=tasks)
    cores = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=30)
    made: dict[str, object] = {"waits": draw(many), "lengths": draw(many), "submits": draw(many)}
    if tasks and draw(st.booleans()):
        made["usage"] = {"0": draw(cores)}
    if draw(st.booleans()):
        made["watts"] = draw(st.lists(st.integers(0, 300), min_size=1, max_size=60))
    return made


@given(runs())
@examples(12)
def test_no_run_fails_against_itself(made: dict[str, object]) -> None:
    trace = run(**made)  # type: ignore[arg-type]
    verdict = assess(trace, trace, criteria=FAST)
    assert verdict.status in ("PASS", "not assessable")
    assert str(verdict)


@given(runs(), runs(), st.integers(-1000, 100_000), st.booleans())
@examples(12)
def test_results_do_not_depend_on_the_start_of_the_runs(
    one: dict[str, object], other: dict[str, object], shift: int, both: bool
) -> None:
    a, b = run(**one), run(**other)  # type: ignore[arg-type]
    moved = run(**one, shift=shift)  # type: ignore[arg-type]
    twin = run(**other, shift=shift) if both else b  # type: ignore[arg-type]
    # Without submissions on both sides, times are relative to t = 0.
    assume(both or (one["waits"] and other["waits"]))
    before, after = assess(a, b, criteria=FAST), assess(moved, twin, criteria=FAST)
    assert [f.status for f in before.findings] == [f.status for f in after.findings]
    for old, new in zip(before.findings, after.findings, strict=True):
        assert old.figure == pytest.approx(new.figure, abs=1e-6)
