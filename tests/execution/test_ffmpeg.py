"""The FFmpeg batch is that of the thesis, at any scale, and its commands work."""

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.execution.child_processes import PATIENCE
from twinloop.description import InputError
from twinloop.execution import execute
from twinloop.execution.videos import main, make_videos
from twinloop.scenario import Scenario
from twinloop.workload.generators import FFmpeg

SEED = 20250901
PATTERNS = ("gradient", "noise", "moving", "mandelbrot", "plasma")
#: Type, lines, codec, preset and cores: Table 5.1 of the thesis.
TYPES = {
    "light1c": (480, "libx264", "veryfast", 1),
    "medium480p": (480, "libx264", "medium", 2),
    "fast1080p": (1080, "libx264", "fast", 2),
    "hevc1080p": (1080, "libx265", "medium", 4),
}
TINY: dict[str, Any] = {"lengths": (0.1,), "height": 64}

needs_ffmpeg = pytest.mark.skipif(
    shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None,
    reason="ffmpeg is not installed here",
)


def video(command: list[str]) -> str:
    return command[command.index("-i") + 1]


def list_values(command: list[str], option: str) -> list[str]:
    """List the values of an option."""
    return [command[at + 1] for at, word in enumerate(command) if word == option]


def test_the_batch_is_the_one_of_the_thesis() -> None:
    """Section 5.1.2 of the thesis: counts, ratio, bursts, cores, presets, and twenty videos."""
    tasks = FFmpeg().generate(SEED).tasks
    assert dict(tasks["kind"].value_counts().rows()) == {
        "light1c": 30, "medium480p": 30, "fast1080p": 20, "hevc1080p": 20,
    }  # fmt: skip
    assert tasks["submit"].to_list() == [300 * burst + i for burst in range(10) for i in range(10)]
    for kind, cores, command in tasks.select("kind", "requested_cores", "command").iter_rows():
        lines, codec, preset, wanted = TYPES[kind]
        assert cores == wanted
        assert list_values(command, "-vf") == [f"scale=-2:{lines}"]
        assert list_values(command, "-c:v") == [codec]
        assert list_values(command, "-preset") == [preset]
        assert list_values(command, "-threads") == [str(wanted)] * 2
    pool = {f"videos/{p}-{s}s.mp4" for p, s in product(PATTERNS, (30, 60, 120, 180))}
    used = pl.Series([video(command) for command in tasks["command"].to_list()]).value_counts()
    assert dict.fromkeys(pool, 5) == dict(used.rows())


@given(
    scale=st.fractions(Fraction(1, 500), 10, max_denominator=500).map(float),
    height=st.integers(16, 2160),
    most=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_scale_and_cores_change_times_and_cores_and_nothing_else(
    scale: float, height: int, most: int, seed: int
) -> None:
    plain = FFmpeg(resolution="exact", height=height).generate(seed)
    batch = FFmpeg(resolution="exact", height=height, scale=scale, most_cores=most).generate(seed)
    one, other = plain.tasks, batch.tasks
    assert one["kind"].equals(other["kind"])
    assert other["submit"].to_list() == pytest.approx((one["submit"] * scale).to_list())
    capped = [min(cores, most) for cores in one["requested_cores"]]
    assert other["requested_cores"].to_list() == capped
    fewer = sum(now < before for now, before in zip(capped, one["requested_cores"], strict=True))
    assert sum(note.count for note in batch.manifest.cleaned) == fewer
    # Work is a constant and a part in proportion to the length, for any number of cores.
    start = 0.2
    work, scaled = ((t["run_time"] * t["requested_cores"]).to_numpy() - start for t in (one, other))
    # The shortest lengths are rounded to a millisecond.
    assert scaled == pytest.approx(work * scale, rel=0.5e-3 / (30 * scale) + 1e-9, abs=1e-9)
    threads = [list_values(command, "-threads") for command in other["command"].to_list()]
    assert threads == [[f"{cores:.0f}"] * 2 for cores in capped]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": 0}, "ffmpeg.scale: 0"),
        ({"lengths": "30,x"}, "ffmpeg.lengths.1: 'x'"),
        ({"lengths": "30,30.0001"}, "equal to a millisecond"),
        ({"lengths": (30.0,), "scale": 1e-6}, "shorter than a frame"),
        ({"most_cores": 0}, "ffmpeg.most_cores: 0"),
        ({"videos": "{output}"}, "braces"),
        ({"bursts": 10**6, "size": 10**6}, "more than 1,000,000 tasks"),
    ],
)
def test_invalid_parameters_are_reported(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        FFmpeg(**parameters)
    assert message in str(error.value)


def probe(file: Path) -> dict[str, Any]:
    """The properties of a video by ffprobe, an independent program."""
    done = subprocess.run(
        ["ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", str(file)],
        capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    (stream,) = json.loads(done.stdout)["streams"]
    return dict(stream)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool") / "videos"
    return make_videos(folder, **TINY)


@needs_ffmpeg
def test_the_videos_have_the_properties_in_their_names(pool: Path) -> None:
    assert sorted(file.name for file in pool.iterdir()) == sorted(f"{p}-0.1s.mp4" for p in PATTERNS)
    assert [entry.name for entry in pool.parent.iterdir()] == ["videos"]
    for file in pool.iterdir():
        found = probe(file)
        assert (found["codec_name"], found["r_frame_rate"]) == ("h264", "30/1")
        assert (found["width"], found["height"]) == (114, 64)
        assert found["nb_read_frames"] == "3"


@needs_ffmpeg
def test_the_patterns_differ_in_the_cost_of_encoding(pool: Path) -> None:
    """Noise cannot be compressed, a gradient can: with the same quality it is much larger."""
    sizes = {}
    for pattern in ("gradient", "noise"):
        command = ["ffmpeg", "-nostdin", "-v", "error", "-i", f"{pool}/{pattern}-0.1s.mp4"]
        done = subprocess.run(
            [*command, "-c:v", "libx264", "-crf", "20", "-f", "h264", "-"],
            capture_output=True, check=True, timeout=PATIENCE,
        )  # fmt: skip
        sizes[pattern] = len(done.stdout)
    assert sizes["noise"] > 3 * sizes["gradient"]


@needs_ffmpeg
def test_every_command_runs_and_leaves_nothing(pool: Path) -> None:
    tasks = FFmpeg(**TINY, size=10, bursts=2).generate(SEED).tasks
    commands = dict(tasks.select("kind", "command").iter_rows())
    assert set(commands) == set(TYPES)
    before = sorted(pool.parent.rglob("*"))
    for command in commands.values():
        done = subprocess.run(
            command, cwd=pool.parent, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(pool.parent.rglob("*")) == before


@needs_ffmpeg
def test_a_command_makes_the_lines_and_the_codec_of_its_type(pool: Path, tmp_path: Path) -> None:
    """The command with a file in place of the null output."""
    tasks = FFmpeg(**TINY).generate(SEED).tasks
    for kind, command in tasks.group_by("kind").agg(pl.col("command").first()).iter_rows():
        assert command[-3:] == ["-f", "null", "-"]
        target = tmp_path / f"{kind}.mp4"
        subprocess.run([*command[:-3], str(target)], cwd=pool.parent, check=True, timeout=PATIENCE)
        lines, codec, _, _ = TYPES[kind]
        found = probe(target)
        assert found["codec_name"] == {"libx264": "h264", "libx265": "hevc"}[codec]
        assert abs(found["height"] - 64 * lines / 1080) <= 1
        assert found["nb_read_frames"] == "3"


@needs_ffmpeg
def test_a_folder_with_other_files_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="contains other files"):
        make_videos(tmp_path, **TINY)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def make_failing_ffmpeg(folder: Path) -> Path:
    """Write a program named ffmpeg that makes two videos and then fails like on a full disk."""
    folder.mkdir()
    program = folder / "ffmpeg"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = -encoders ]; then echo libx264 libx265; exit; fi\n'
        f'echo x >> "{folder}/count"\n'
        f'if [ "$(wc -l < "{folder}/count")" -gt 2 ]; then echo "No space left" >&2; exit 1; fi\n'
        'for last; do :; done; echo video > "$last"\n'
    )
    program.chmod(0o755)
    return folder


@pytest.mark.real
def test_all_videos_are_made_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PATH", f"{make_failing_ffmpeg(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    )
    with pytest.raises(InputError, match="No space left"):
        make_videos(tmp_path / "videos", **TINY)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bin"]


def test_the_error_without_ffmpeg_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--folder", str(tmp_path / "videos")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "error: ffmpeg is not installed (on Debian and Ubuntu: apt-get install ffmpeg) [TL0601]\n"
    )
    assert not (tmp_path / "videos").exists()


@needs_ffmpeg
def test_the_batch_is_executed_at_a_tiny_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--lengths", "0.1,0.2", "--height", "64"]
    parameters = {
        "lengths": [0.1, 0.2], "height": 64, "most_cores": 1, "bursts": 2, "size": 5,
        "period": 0.2, "interval": 0.01,
    }  # fmt: skip
    scenario = Scenario(
        platform="1x1",
        policy="fifo",
        seed=SEED,
        workload={
            "generate": {"name": "ffmpeg", "parameters": parameters},
            "prepare": [
                {
                    "command": [sys.executable, "-m", "twinloop.execution.videos", *small],
                    "creates": "videos",
                }
            ],
        },
    )
    trace = execute(scenario, tmp_path / "run", period=0.1, task_limit=120.0)
    assert trace.tasks["status"].to_list() == ["completed"] * 10
    # FIFO on one core: in the order of submission, one after the other.
    ran = trace.placements.sort("start")
    assert ran["task"].to_list() == [str(number) for number in range(1, 11)]
    assert (ran["start"][1:] >= ran["end"][:-1]).all()
    used = trace.usage.group_by("task").agg(pl.col("cpu").sum())
    assert used.height == 10
    assert (used["cpu"] > 0).all()
    assert len(list((tmp_path / "videos").iterdir())) == 10


def test_the_example_its_videos_and_its_page_agree() -> None:
    root = Path(__file__).resolve().parents[2]
    path = root / "examples" / "ffmpeg.yaml"
    assert path.read_text(encoding="utf-8") in (root / "docs" / "ffmpeg.md").read_text("utf-8")
    scenario = Scenario.load(path)
    made = scenario.workload.generate
    assert made is not None
    (step,) = scenario.workload.prepare
    options = dict(zip(step.command[3::2], step.command[4::2], strict=True))
    assert float(options["--scale"]) == made.parameters["scale"]
    assert float(options["--height"]) == made.parameters["height"]
    assert Path(step.creates or "") == Path(scenario.workload.folder or "") / options["--folder"]
    assert scenario.workload.resolve(scenario.seed).tasks.height == 100
