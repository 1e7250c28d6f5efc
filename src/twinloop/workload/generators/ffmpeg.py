"""A batch of video transcodings with FFmpeg, for execution on real machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field, model_validator

from twinloop.description import Cleaning
from twinloop.trace import Trace
from twinloop.workload.generators.description import parameter
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import Integers
from twinloop.workload.generators.requests import RequestGenerator
from twinloop.workload.generators.shares import apportion

#: Contents of the videos, and their lengths in seconds.
PATTERNS: Final = ("gradient", "noise", "moving", "mandelbrot", "plasma")
LENGTHS: Final = (30.0, 60.0, 120.0, 180.0)
#: Lines of a source video, and of the smaller output.
SOURCE_HEIGHT: Final = 1080
_SMALL_HEIGHT: Final = 480
#: Frames per second.
RATE: Final = 30
#: Limit of the number of tasks of a real run.
_MAX_TASKS: Final = 1_000_000
#: CPU seconds of a transcoding before its first frame.
_STARTUP_CPU: Final = 0.2


@dataclass(frozen=True, slots=True)
class Transcoding:
    """A type of task: its output and its cost.

    >>> TRANSCODINGS["hevc1080p"].cores
    4
    """

    share: int
    cores: int
    height: int
    codec: Literal["libx264", "libx265"]
    preset: str
    #: CPU seconds per second of a video of 1080 lines, for each of `PATTERNS`.
    paces: tuple[float, ...]


#: The types of tasks by name. The paces are rough: they were measured once, on one machine.
TRANSCODINGS: Final[Mapping[str, Transcoding]] = {
    "light1c": Transcoding(3, 1, _SMALL_HEIGHT, "libx264", "veryfast", (0.4, 0.6, 0.5, 0.5, 0.6)),
    "medium480p": Transcoding(3, 2, _SMALL_HEIGHT, "libx264", "medium", (0.5, 1.3, 0.6, 0.9, 0.8)),
    "fast1080p": Transcoding(2, 2, SOURCE_HEIGHT, "libx264", "fast", (1.9, 3.7, 1.9, 3.3, 3.4)),
    "hevc1080p": Transcoding(2, 4, SOURCE_HEIGHT, "libx265", "medium", (3.0, 18.0, 4.0, 4.5, 8.0)),
}


def video_name(pattern: str, seconds: float) -> str:
    """Return the file name of the video with a pattern and a length.

    >>> video_name("noise", 30.0), video_name("plasma", 1.5)
    ('noise-30s.mp4', 'plasma-1.5s.mp4')
    """
    return f"{pattern}-{np.format_float_positional(round(seconds, 3), trim='-')}s.mp4"


def round_to_even(lines: float) -> int:
    """Round to an even number of lines, at least two, as codecs require.

    >>> round_to_even(1080 / 8), round_to_even(480 / 4), round_to_even(0.1)
    (136, 120, 2)
    """
    return max(2, 2 * round(lines / 2))


def split_lengths(value: Any) -> Any:
    """Split lengths that are given as text, separated by commas."""
    return value.split(",") if isinstance(value, str) else value


class FFmpeg(RequestGenerator):
    """Video transcodings in bursts, with their commands.

    The defaults are the batch of a thesis on the fidelity of a simulator: a hundred tasks of four
    types in the ratio 3:3:2:2, ten bursts of ten tasks a second apart, every 300 s, on twenty
    videos of 1080 lines: five patterns in four lengths. The thesis uses the seed 20250901 and does
    not define the video of each task; here, every twenty tasks have each video once.

    `python -m twinloop.execution.videos` creates the videos. The output of a task is discarded.

    >>> tasks = FFmpeg(scale=0.05, height=540).generate(seed=20250901).tasks
    >>> tasks["submit"].to_list()[8:12]
    [0.4, 0.45, 15.0, 15.05]
    >>> tasks["command"][0].to_list()[6:12]
    ['-i', 'videos/plasma-9s.mp4', '-an', '-vf', 'scale=-2:540', '-filter_threads']
    """

    name: ClassVar[str] = "ffmpeg"
    title: ClassVar[str] = "bursts of video transcodings for real machines, with FFmpeg"

    bursts: int = parameter(10, "number of bursts", ge=1, le=_MAX_TASKS)
    size: int = parameter(10, "tasks in a burst", ge=1, le=_MAX_TASKS)
    period: float = parameter(300.0, "time between two bursts", unit="s", gt=0.0, le=1e9)
    interval: float = parameter(1.0, "time between two tasks of a burst", unit="s", ge=0.0, le=1e9)
    lengths: Annotated[
        tuple[Annotated[float, Field(gt=0.0, le=1e6)], ...],
        BeforeValidator(split_lengths),
        Field(min_length=1),
    ] = parameter(LENGTHS, "lengths of the videos", unit="s")
    scale: float = parameter(
        1.0, "factor on the period, the interval and the lengths of the videos", gt=0.0, le=1000.0
    )
    height: int = parameter(
        SOURCE_HEIGHT,
        "lines of the videos; the outputs are scaled with them",
        unit="lines",
        ge=16,
        le=16_384,
    )
    most_cores: int = parameter(
        4,
        "maximum number of cores of a task, for nodes with fewer than four",
        unit="cores",
        ge=1,
        le=1024,
    )
    pace: float = parameter(
        1.0, "factor on the expected run times: 2 for a machine of half the speed", gt=0.0, le=1e6
    )
    videos: str = parameter(
        "videos", "folder of the videos, relative to the working folder of the tasks", min_length=1
    )
    resolution: Literal["s", "ms", "exact"] = parameter(
        "ms",
        "resolution of times: whole seconds (s), whole milliseconds (ms) or not rounded (exact)",
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.bursts * self.size > _MAX_TASKS:
            raise ValueError(f"bursts x size is more than {_MAX_TASKS:,} tasks")
        if min(self.scaled_lengths) * RATE < 1.0:
            raise ValueError(f"a video is shorter than a frame (1/{RATE} s)")
        names = {video_name("", length) for length in self.scaled_lengths}
        if len(names) < len(self.lengths):
            raise ValueError("two lengths of videos are equal to a millisecond")
        if {"{", "}", "\0"} & set(self.videos):
            raise ValueError("the folder of the videos must not contain braces or zero bytes")
        return self

    @property
    def scaled_lengths(self) -> tuple[float, ...]:
        """The lengths of the videos (s).

        >>> FFmpeg(scale=0.05).scaled_lengths
        (1.5, 3.0, 6.0, 9.0)
        """
        return tuple(round(length * self.scale, 3) for length in self.lengths)

    def generate(self, seed: int) -> Trace:
        """Generate the batch of a seed; tasks with fewer cores than their type are counted.

        >>> FFmpeg(most_cores=1).generate(seed=1).manifest.cleaned[0].count
        70
        """
        trace = super().generate(seed)
        cores_by_type = {name: transcoding.cores for name, transcoding in TRANSCODINGS.items()}
        type_cores = trace.tasks["kind"].replace_strict(cores_by_type, return_dtype=pl.Float64)
        capped = trace.tasks.filter(trace.tasks["requested_cores"] < type_cores)["id"]
        if not len(capped):
            return trace
        note = Cleaning(
            kind="noticed",
            what=f"tasks with fewer cores than their type: at most {self.most_cores}",
            count=len(capped),
            examples=tuple(capped[:3]),
        )
        return trace.replace(manifest=trace.manifest.model_copy(update={"cleaned": (note,)}))

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        count = self.bursts * self.size
        slots = np.arange(count)
        planned = (slots // self.size) * self.period + (slots % self.size) * self.interval
        types = list(TRANSCODINGS.values())
        type_index = np.repeat(
            np.arange(len(types)), apportion(count, np.array([kind.share for kind in types]) * 1.0)
        )[self._stream(seed, "kinds").permutation(count)]
        pattern, length = self._draw_videos(seed, count)
        cores = np.array([min(kind.cores, self.most_cores) for kind in types])[type_index] * 1.0
        names = pl.Series(list(TRANSCODINGS)).gather(type_index)
        choice = (type_index * len(PATTERNS) + pattern) * len(self.lengths) + length
        return {
            "name": names,
            "kind": names,
            "submit": planned * self.scale,
            **self._requests(
                seed,
                self._round_lengths(self._compute_work(type_index, pattern, length) / cores),
                cores,
            ),
            "command": pl.Series(self._make_commands(), dtype=pl.List(pl.String)).gather(choice),
        }

    def _draw_videos(self, seed: int, count: int) -> tuple[Integers, Integers]:
        """Draw the pattern and the length of the video of each task, as indices."""
        pool = len(PATTERNS) * len(self.lengths)
        rounds = -(-count // pool)
        drawn = self._stream(seed, "videos").uniform(rounds * pool).reshape(rounds, pool)
        video = np.argsort(drawn, axis=1, kind="stable").ravel()[:count]
        return video // len(self.lengths), video % len(self.lengths)

    def _compute_work(self, type_index: Integers, pattern: Integers, length: Integers) -> Floats:
        """Compute the expected CPU seconds of each task."""
        paces = np.array([kind.paces for kind in TRANSCODINGS.values()])
        area = (self.height / SOURCE_HEIGHT) ** 2
        seconds = np.array(self.scaled_lengths)[length]
        work: Floats = self.pace * (_STARTUP_CPU + area * paces[type_index, pattern] * seconds)
        return work

    def _make_commands(self) -> list[list[str]]:
        """Make the command for each type, pattern and length, in this order."""
        return [
            self._make_command(kind, f"{self.videos}/{video_name(pattern, length)}")
            for kind in TRANSCODINGS.values()
            for pattern in PATTERNS
            for length in self.scaled_lengths
        ]

    def _make_command(self, kind: Transcoding, video: str) -> list[str]:
        threads = str(min(kind.cores, self.most_cores))
        lines = round_to_even(kind.height * self.height / SOURCE_HEIGHT)
        # x265 has its own thread pool and verbose log.
        x265_options = ["-x265-params", f"pools={threads}:log-level=error"]
        return [
            *("ffmpeg", "-nostdin", "-loglevel", "error", "-threads", threads, "-i", video),
            *("-an", "-vf", f"scale=-2:{lines}", "-filter_threads", threads),
            *("-c:v", kind.codec, "-preset", kind.preset, "-threads", threads),
            *(x265_options if kind.codec == "libx265" else []),
            *("-f", "null", "-"),
        ]  # fmt: skip
