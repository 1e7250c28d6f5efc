"""Every dependency is locked with hashes and explained; every action is pinned by commit."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {
    name: [Requirement(each) for each in wanted]
    for name, wanted in PROJECT["project"]["optional-dependencies"].items()
    if name != "dev"  # which consists of the others
}
GROUPS = {
    "run": [Requirement(each) for each in PROJECT["project"]["dependencies"]],
    "build": [Requirement(each) for each in PROJECT["build-system"]["requires"]],
    **EXTRAS,
}
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[\w,-]+\])?==(?P<version>\S+)(?: ; [^\\\n]+)? \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+",
    re.M,
)


def locked(path: Path) -> dict[str, list[str]]:
    """Read the versions of each package in a lock file; every line must be valid."""
    text = path.read_text(encoding="utf-8")
    rest = ENTRY.sub("", text)
    assert rest.strip() == "# Written by `make lock`."
    found: dict[str, list[str]] = {}
    for entry in ENTRY.finditer(text):
        found.setdefault(canonicalize_name(entry["name"]), []).append(entry["version"])
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_is_locked_within_its_limits(group: str) -> None:
    versions = locked(ROOT / "requirements" / f"{group}.txt")
    for wanted in GROUPS[group]:
        exact = versions[canonicalize_name(wanted.name)]
        limits: SpecifierSet = wanted.specifier
        assert all(limits.contains(version) for version in exact), f"{wanted}: run `make lock`"


def test_groups_have_equal_versions() -> None:
    assert LOCKS
    together: dict[str, set[str]] = {}
    for path in LOCKS:
        for name, versions in locked(path).items():
            together.setdefault(name, set()).update(versions)
    # Two versions are valid only if a marker chooses between them in one file.
    most = {
        name: max(len(locked(path).get(name, [])) for path in LOCKS)
        for name, versions in together.items()
        if len(versions) > 1
    }
    assert most == {name: len(together[name]) for name in most}


def explained() -> dict[str, tuple[str, str]]:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| ([^|]+) \|$", text, re.M)
    return {
        canonicalize_name(name): (licence.strip(), reason.strip())
        for name, licence, reason in rows
        if name != "dependency"
    }


def test_every_dependency_is_explained_with_its_licence() -> None:
    wanted = {canonicalize_name(each.name) for group in GROUPS.values() for each in group}
    tools = {"cmake", "ninja", "uv", "build", "cibuildwheel"}  # for the Makefile and CI
    assert explained().keys() == wanted | tools
    assert all(licence and reason for licence, reason in explained().values())


def test_every_action_is_pinned_by_commit() -> None:
    used = [
        line
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    pinned = re.compile(r"\s*(- )?uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+(\.\d+)*")
    assert [line for line in used if not pinned.fullmatch(line)] == []
    # One version of each, everywhere.
    assert len({line.split("uses: ")[1] for line in used}) == len(
        {line.split("uses: ")[1].partition("@")[0] for line in used}
    )
