"""libFuzzer under the sanitizers: operations of the kernel and of worlds, and the parsers of text.

Five minutes each by default; TWINLOOP_FUZZ_SECONDS sets another time.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = int(os.environ.get("TWINLOOP_FUZZ_SECONDS", "300"))
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
HOW_TO_INSTALL = "install clang with its run-time libraries (Debian: clang, libclang-rt-14-dev)"

WORLD = ("kernel", "platform", "work", "control", "control/policies", "record", "world")

# The linked sources: folders of the core, and files of core/tests.
TARGETS = {
    "kernel": (("kernel",), ("program.cpp", "fuzz_kernel.cpp")),
    "world": (
        WORLD,
        ("random_scenario.cpp", "world_laws.cpp", "world_program.cpp", "fuzz_world.cpp"),
    ),
    "parsers": (("io",), ("texts.cpp", "fuzz_parsers.cpp")),
}


@pytest.fixture(scope="module")
def clang(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = shutil.which("clang++")
    if found is None:
        pytest.skip(f"libFuzzer needs clang: {HOW_TO_INSTALL}")
    folder = tmp_path_factory.mktemp("probe")
    probe = folder / "probe.cpp"
    probe.write_text(
        '#include <cstddef>\nextern "C" int LLVMFuzzerTestOneInput(const unsigned char*, '
        "std::size_t) { return 0; }\n"
    )
    if subprocess.run([found, SANITIZERS, probe, "-o", folder / "probe"], check=False).returncode:
        pytest.skip(f"this clang has no libFuzzer: {HOW_TO_INSTALL}")
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_fails(clang: str, target: str, tmp_path: Path) -> None:
    folders, drivers = TARGETS[target]
    sources = [path for folder in folders for path in (ROOT / "core" / folder).glob("*.cpp")]
    sources += [ROOT / "core/tests" / name for name in drivers]
    command = [clang, "-std=c++20", "-O1", "-g", "-ffp-contract=off", SANITIZERS]
    command += ["-fno-sanitize-recover=undefined", f"-I{ROOT / 'core'}", f"-I{ROOT / 'core/tests'}"]
    subprocess.run([*command, *sources, "-o", tmp_path / "fuzz"], check=True)
    (tmp_path / "corpus").mkdir()
    options = [f"-max_total_time={SECONDS}", "-max_len=1000", "-timeout=25", "-print_final_stats=1"]
    done = subprocess.run(
        [tmp_path / "fuzz", *options, tmp_path / "corpus"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[-1500:])
    assert done.returncode == 0, f"libFuzzer has found a failing input, in {tmp_path}"
