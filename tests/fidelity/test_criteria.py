"""Criteria files: published defaults, errors by path, changed values."""

import hashlib
from pathlib import Path

import pytest

from tests.fidelity.runs import run
from twinloop.description import InputError, TwinloopError
from twinloop.fidelity import Criteria, assess


def test_the_defaults_equal_those_of_the_thesis() -> None:
    """Xie, section 4.4.3: the thresholds of the four metrics."""
    asked = Criteria()
    assert (asked.waits.ks_p, asked.waits.p50, asked.waits.p95, asked.waits.p99) == (
        0.05, 0.05, 0.10, 0.20,
    )  # fmt: skip
    assert (asked.completions.rmse, asked.completions.bin) == (0.03, 60)
    assert (asked.makespan.absolute, asked.makespan.relative, asked.makespan.short_below) == (
        6, 0.01, 600,
    )  # fmt: skip
    assert (asked.usage.pearson, asked.usage.smape, asked.usage.rmse) == (0.95, 0.05, 0.10)
    assert (asked.power.correlation, asked.power.segment, asked.power.lag) == (0.90, 300, 600)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("waits: {p51: 0.1}", r"c\.yaml:1: waits\.p51: is not a field"),
        ("wait: {}", r"c\.yaml:1: wait: is not a field of the criteria \(did you mean 'waits'"),
        ("waits:\n  p50: -0.1", r"c\.yaml:2: waits\.p50"),
        ("power: {segment: 0s}", r"power\.segment: must be positive"),
        ("usage: {pearson: 1.5}", r"usage\.pearson"),
        ("power: {lag: soon}", r"power\.lag: must be a duration"),
        ("- 3", "c.yaml"),
    ],
)
def test_errors_name_their_field(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(TwinloopError, match=message):
        Criteria.load(tmp_path / "c.yaml")


def test_printed_criteria_with_comments_are_readable(tmp_path: Path) -> None:
    asked = Criteria(waits={"p50": 0.02}, power={"lag": "5min"})
    (tmp_path / "c.yaml").write_text(asked.to_commented_yaml())
    assert Criteria.load(tmp_path / "c.yaml") == asked
    assert asked.changed_values == {"waits.p50": (0.02, 0.05), "power.lag": (300, 600)}


def test_a_verdict_names_the_file_and_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "strict.yaml"
    path.write_text("waits: {p50: 1%}".replace("1%", "0.01"))
    verdict = assess(run([1.0] * 5), run([1.0] * 5), criteria=path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert verdict.criteria.sha256 == digest
    assert f"strict.yaml (sha256 {digest[:12]}...)" in str(verdict)
    assert verdict.to_dict()["criteria"]["other_than_default"] == {"waits.p50": 0.01}


def test_an_unknown_finding_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="p95"):
        assess(run([1.0]), run([1.0]))["p96"]
