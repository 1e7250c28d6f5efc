"""libFuzzer drives the kernel's public operations under the sanitizers, looking for a broken law.

Ten minutes by default; TWINLOOP_FUZZ_SECONDS sets another time.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = int(os.environ.get("TWINLOOP_FUZZ_SECONDS", "600"))
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
HOW_TO_INSTALL = "install clang with its run-time libraries (Debian: clang, libclang-rt-14-dev)"


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clang = shutil.which("clang++")
    if clang is None:
        pytest.skip(f"libFuzzer needs clang: {HOW_TO_INSTALL}")
    folder = tmp_path_factory.mktemp("fuzz")
    probe = folder / "probe.cpp"
    probe.write_text(
        '#include <cstddef>\nextern "C" int LLVMFuzzerTestOneInput(const unsigned char*, '
        "std::size_t) { return 0; }\n"
    )
    if subprocess.run([clang, SANITIZERS, probe, "-o", folder / "probe"], check=False).returncode:
        pytest.skip(f"this clang has no libFuzzer: {HOW_TO_INSTALL}")
    sources = [*(ROOT / "core/kernel").glob("*.cpp")]
    sources += [ROOT / "core/tests" / name for name in ("program.cpp", "fuzz_kernel.cpp")]
    command = [clang, "-std=c++20", "-O1", "-g", "-ffp-contract=off", SANITIZERS]
    command += ["-fno-sanitize-recover=undefined", f"-I{ROOT / 'core'}", f"-I{ROOT / 'core/tests'}"]
    subprocess.run([*command, *sources, "-o", folder / "fuzz_kernel"], check=True)
    return folder / "fuzz_kernel"


def test_no_input_breaks_the_kernel(fuzzer: Path) -> None:
    corpus = fuzzer.parent / "corpus"
    corpus.mkdir()
    options = [f"-max_total_time={SECONDS}", "-max_len=600", "-timeout=25", "-print_final_stats=1"]
    done = subprocess.run(
        [fuzzer, *options, corpus], cwd=fuzzer.parent, capture_output=True, text=True, check=False
    )
    print(done.stderr[-1500:])
    assert done.returncode == 0, f"libFuzzer has found something, in {fuzzer.parent}"
