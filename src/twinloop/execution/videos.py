"""Input videos for the transcodings of `generate ffmpeg`, made by FFmpeg.

    python -m twinloop.execution.videos --folder videos --scale 0.05 --height 540

makes twenty videos: five patterns in four lengths.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from twinloop.description.errors import InputError
from twinloop.description.files import write_folder_atomically
from twinloop.description.replacement import OwnedFiles
from twinloop.workload.generators.ffmpeg import (
    LENGTHS,
    PATTERNS,
    RATE,
    SOURCE_HEIGHT,
    TRANSCODINGS,
    FFmpeg,
    round_to_even,
    video_name,
)

#: Bit rate of a video of 1080 lines (bit/s).
BIT_RATE: Final = 8_000_000
#: Size of the squares of one colour in a plasma (pixels): it is computed at a lower resolution and
#: scaled up, because the sines of every pixel would take longer than the encoding.
_GRAIN: Final = 8

_PLASMA: Final = (
    "lum='128+42*(sin(X/16+T)+sin(Y/12-1.3*T)+sin((X+Y)/20+0.7*T))'"
    ":cb='128+90*sin(X/24+T)':cr='128+90*cos(Y/24-T)'"
)


def _find_ffmpeg() -> str:
    """Find FFmpeg; an InputError if it is not installed or lacks a codec."""
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise InputError(
            "ffmpeg is not installed",
            kind="missing-program",
            remedy="on Debian and Ubuntu: apt-get install ffmpeg",
        )
    encoders = _run([ffmpeg, "-hide_banner", "-encoders"]).split()
    for codec in sorted({kind.codec for kind in TRANSCODINGS.values()} - set(encoders)):
        raise InputError(
            f"{ffmpeg} was built without {codec}",
            kind="missing-program",
            remedy="install a build of ffmpeg that has it",
        )
    return ffmpeg


def make_videos(
    folder: str | Path,
    *,
    lengths: Sequence[float] = LENGTHS,
    scale: float = 1.0,
    height: int = SOURCE_HEIGHT,
    on_video: Callable[[str], None] = lambda _: None,
) -> Path:
    """Make the videos of all patterns and lengths; the folder appears complete or not at all.

    Args:
        folder: Folder of the videos. A folder that has only such videos is replaced.
        lengths: Lengths of the videos (s).
        scale: Factor on the lengths.
        height: Number of lines; the format is 16:9, with 30 frames per second and about 8 Mbit/s at
            1080 lines, and fewer bits in proportion to the area.
        on_video: Called with the name of each video before it is made.

    >>> make_videos("videos", lengths=[0.0])
    Traceback (most recent call last):
    twinloop.InputError: ffmpeg.lengths.0: 0.0: input should be greater than 0 [TL0206]
    """
    folder = Path(folder)
    settings = FFmpeg(lengths=tuple(lengths), scale=scale, height=height)
    videos = {
        video_name(pattern, length): (pattern, length)
        for pattern in PATTERNS
        for length in settings.scaled_lengths
    }
    ffmpeg = _find_ffmpeg()
    with write_folder_atomically(folder, lambda path: OwnedFiles.of(videos)) as new_folder:
        for name, (pattern, length) in videos.items():
            on_video(name)
            _run([ffmpeg, *_build_arguments(pattern, length, height), str(new_folder / name)])
    return folder


def make_filter_graphs(height: int) -> Mapping[str, str]:
    """Make the FFmpeg filter graph that draws each pattern.

    >>> make_filter_graphs(1080)["moving"]
    'testsrc2=size=1920x1080:rate=30'
    """
    lines = round_to_even(height)
    wide = round_to_even(lines * 16 / 9)
    usual = f"size={wide}x{lines}:rate={RATE}"
    coarse = f"size={round_to_even(wide / _GRAIN)}x{round_to_even(lines / _GRAIN)}:rate={RATE}"
    return {
        "gradient": f"gradients={usual}:seed=1:speed=0.02",
        "noise": f"color=gray:{usual},noise=alls=60:allf=t:all_seed=1",
        "moving": f"testsrc2={usual}",
        "mandelbrot": f"mandelbrot={usual}",
        "plasma": f"nullsrc={coarse},geq={_PLASMA},scale={wide}:{lines}:flags=bicubic",
    }


def _build_arguments(pattern: str, length: float, height: int) -> list[str]:
    bits = round(BIT_RATE * (height / SOURCE_HEIGHT) ** 2)
    return [
        *("-nostdin", "-loglevel", "error"),
        *("-f", "lavfi", "-i", make_filter_graphs(height)[pattern]),
        *("-frames:v", str(round(length * RATE)), "-pix_fmt", "yuv420p"),
        # The output of x264 depends on its number of threads.
        *("-c:v", "libx264", "-preset", "veryfast", "-b:v", str(bits), "-threads", "2"),
        *("-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1"),
    ]  # fmt: skip


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise InputError(f"{' '.join(command)}: {lines[-1]}", kind="command-failed")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of this module; returns its exit status.

    >>> main(["--folder", "videos", "--height", "4"])
    2
    """
    parser = argparse.ArgumentParser(
        prog="python -m twinloop.execution.videos",
        description="Make the videos that the tasks of `twinloop generate ffmpeg` work on.",
    )
    parser.add_argument("--folder", default="videos", help="folder of the videos (%(default)s)")
    parser.add_argument(
        "--lengths",
        default=",".join(f"{length:g}" for length in LENGTHS),
        help="lengths in seconds, separated by commas (%(default)s)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor on the lengths, as for the tasks (%(default)s)",
    )
    parser.add_argument(
        "--height", type=int, default=SOURCE_HEIGHT, help="number of lines (%(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        folder = make_videos(
            options.folder,
            lengths=options.lengths.split(","),
            scale=options.scale,
            height=options.height,
            on_video=lambda name: print(f"making {options.folder}/{name}", file=sys.stderr),
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
