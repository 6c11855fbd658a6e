"""`make quick`: within a minute, the unit tests of what has changed in the working tree, or else in the last commit.

Tests are chosen by imports: those of the fewest steps from a changed file come first, and of these the ones beside its
own tests. A plugin of pytest begins no test after the time is over, so nobody has to know how long tests take.

After them come, without a limit, the slow tests that alone find what a small change breaks in some areas (`SLOW`).
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("beehive", "protos", "metamanager", "edgehub", "edged", "modules", "edgecore_mapper", "tests")
SECONDS: Final = 45.0
"""Tests begin within this time, ruff and the imports included; the last tests may end after it."""
MOST_FILES: Final = 40
_MOST_NAMES: Final = 5
_NO_UNITS: Final = (
    "bench", "chaos", "cri_contract", "documentation", "end_to_end", "fuzz", "interop", "lives", "packaging",
    "pictures", "replay", "simulation",
)  # fmt: skip
"""Directories of tests that start processes or take long."""
SLOW: Final[Mapping[str, tuple[str, ...]]] = {
    "edged/cri": ("tests/edged/cri",),
    "modules/runtimes/engine": ("tests/modules/runtimes/oci/test_survival.py",),
    "modules/runtimes/oci": (
        "tests/modules/runtimes/oci/test_survival.py",
        "tests/modules/runtimes/oci/test_conmon.py",
        "tests/modules/runtimes/oci/network/test_firewall_reload.py",
    ),
    "modules/runtimes/docker": ("tests/modules/runtimes/docker/test_survival.py",),
    "modules/lab/doubles": ("tests/edged/cri/test_contract.py",),
    "modules/lab/replay": ("tests/replay/test_simulated.py", "tests/replay/test_late.py"),
    "modules/lab/simulate": ("tests/simulation/test_found.py",),
    "modules/cloud/controllers": ("tests/modules/cloud/controllers/test_lives.py",),
    "modules/cloud/identities": ("tests/modules/cloud/identities/test_lives.py",),
    "modules/cloud/journal": ("tests/modules/cloud/journal/test_lives.py",),
    "modules/kubectl": ("tests/modules/kubectl/test_against_kubectl.py",),
    "modules/apimachinery/printing": ("tests/modules/kubectl/test_against_kubectl.py",),
}
"""Files and directories of tests that are slow, by the directory whose changes they are for: a kill at each step of
a container's life, the plans that find planted bugs, replays of whole nodes, and edged's client on containerd.
"""


def changed() -> list[str]:
    """Return the paths that differ from the last commit, or else the ones of that commit."""
    now = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    found = now or _git("diff", "--name-only", "HEAD~1", "HEAD")
    return sorted({path for path in found if (ROOT / path).is_file()})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments, "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path]


def module_of(path: str) -> str:
    """Return the name of a module: `edged/volumes/__init__.py` is `edged.volumes`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def steps(begin: Iterable[str], importers: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return how many imports lead from each module to the nearest of some; 0 for these themselves."""
    found = dict.fromkeys(begin, 0)
    waiting = list(found)
    for module in waiting:
        for importer in importers.get(module, ()):
            if importer not in found:
                found[importer] = found[module] + 1
                waiting.append(importer)
    return found


def chosen(paths: Sequence[str], importers: Mapping[str, Iterable[str]], tests: Iterable[str]) -> list[str]:
    """Return the test files that reach changed files, the nearest first.

    Args:
        paths: of the changed files.
        importers: modules that import a module, by its name.
        tests: paths of all test files.
    """
    near = steps((module_of(path) for path in paths if path.endswith(".py")), importers)
    fixtures = [PurePath(path).parent for path in paths if path.endswith("/conftest.py")]
    places = [PurePath("tests", path).parent.parts for path in paths if not path.startswith("tests/")]

    def rank(test: str) -> tuple[int, int, str]:
        in_common = max((_in_common(PurePath(test).parts, place) for place in places), default=0)
        return near.get(module_of(test), 1), -in_common, test

    reached = [
        test
        for test in tests
        if PurePath(test).parts[1] not in _NO_UNITS
        and (module_of(test) in near or any(PurePath(test).is_relative_to(directory) for directory in fixtures))
    ]
    return sorted(reached, key=rank)


def slow_of(paths: Iterable[str]) -> list[str]:
    """Return the files of slow tests for changed files."""
    changed_paths = [PurePath(path) for path in paths]
    found = (files for area, files in SLOW.items() if any(path.is_relative_to(area) for path in changed_paths))
    return list(dict.fromkeys(file for files in found for file in files))


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def _importers() -> dict[str, set[str]]:
    import grimp  # noqa: PLC0415 - the plugin does without

    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    return {module: set(graph.find_modules_that_directly_import(module)) for module in graph.modules}


def main() -> int:
    """Run ruff on the changed files, then the tests; return pytest's status."""
    began = time.monotonic()
    paths = changed()
    python = [path for path in paths if path.endswith(".py")]
    for command in (["check"], ["format", "--check"]):
        if python and (
            status := subprocess.run(["ruff", *command, "--quiet", *python], cwd=ROOT, check=False).returncode
        ):
            return status
    tests = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    found = chosen(paths, _importers() if python else {}, tests)
    sys.stdout.write(f"{len(paths)} files have changed, {len(found)} files of unit tests reach them\n")
    until = ["-p", __spec__.name, "--until", str(began + SECONDS)]
    slow = slow_of(paths)
    if slow:
        sys.stdout.write(f"after them the slow tests of these areas: {', '.join(slow)}\n")
    if beyond := found[MOST_FILES:]:
        sys.stdout.write(f"left out, as they are further away: {few(beyond)}\n")
    return _pytest(["-m", "not slow", *until], found[:MOST_FILES]) or _pytest(["-m", "slow"], slow)


def few(files: Sequence[str]) -> str:
    """Return the first files by name, and how many more there are."""
    more = f" and {len(files) - _MOST_NAMES} more files" if len(files) > _MOST_NAMES else ""
    return f"{', '.join(files[:_MOST_NAMES])}{more}"


def _pytest(options: Sequence[str], files: Sequence[str]) -> int:
    """Run tests, if there are any, and return pytest's status; 0 if none was chosen."""
    if not files:
        return 0
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "logical", "-p", "no:randomly", *options]
    status = subprocess.run([*command, *sys.argv[1:], *files], cwd=ROOT, check=False).returncode
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--until", type=float, help="begin no test after this time of the monotonic clock, in seconds")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out a test whose turn comes too late; pytest does not report it."""
    until = item.config.getoption("--until")
    return True if until is not None and time.monotonic() > until else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, as a run without it looks complete."""
    until = config.getoption("--until")
    if until is None or time.monotonic() <= until:
        return
    reports = [each for found in terminalreporter.stats.values() for each in found if hasattr(each, "nodeid")]
    begun = {each.nodeid.partition("::")[0] for each in reports}
    missing = [each for each in config.args if each not in begun]
    files = f"all of {few(missing)}" if missing else "the last tests"
    terminalreporter.write_line(f"time is over, and what had not begun was left out: {files}; `make test` runs them")


if __name__ == "__main__":
    sys.exit(main())
