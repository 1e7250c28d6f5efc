"""The programs of the workflow: split a file, compress its parts, merge the results."""

import sys
import zlib
from pathlib import Path


def split(data: str, *parts: str) -> None:
    """Split a file into parts of equal size; the last one has what is left."""
    content = Path(data).read_bytes()
    size = len(content) // len(parts)
    for number, part in enumerate(parts):
        end = None if number == len(parts) - 1 else (number + 1) * size
        Path(part).write_bytes(content[number * size : end])


def compress(passes: str, part: str, result: str) -> None:
    """Compress the hexadecimal text of a part, as often as given, and keep the first result."""
    text = Path(part).read_bytes().hex().encode()
    results = [zlib.compress(text, 6) for _ in range(int(passes))]
    Path(result).write_bytes(results[0])


def merge(*names: str) -> None:
    """Write all files but the last one to the last one."""
    with Path(names[-1]).open("wb") as archive:
        for name in names[:-1]:
            archive.write(Path(name).read_bytes())


if __name__ == "__main__":
    {"split": split, "compress": compress, "merge": merge}[sys.argv[1]](*sys.argv[2:])
