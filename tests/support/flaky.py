"""`make flaky`: runs tests many times, each time under conditions that one run on one machine does not have.

    python -m tests.support.flaky [FILE …] [--all] [--since REV] [--times 20] [--conditions quiet,busy] [--seconds 240]

Without files it runs the tests that a change touches: what differs from `--since`, or else from the branch that this
one follows, or else the commits of six hours. With `--all` each of `--times` is a run of the
whole suite with a seed of its own. The table at the end counts the failures of each test; each run's output is kept.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from beehive.files.removal import remove_tree

ROOT: Final = Path(__file__).parents[2]
TICKS: Final = Path(__file__).with_name("coarse_clock.c")
BUSY: Final = 6
"""Processes that compute for nothing, beside the tests."""
_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_STEP: Final = "__pytest_repeat_step_number"
_ONCE: Final = ("tests/end_to_end/crowd/",)
"""Tests that change the pods of a node which they share: once in a run of pytest."""
_RECENT: Final = 6 * 3600
"""Seconds before the last commit whose commits are one change, where no other branch says what the change is."""
_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-m", "not slow")


class Round(NamedTuple):
    """What the runs of one condition came to.

    Attributes:
        runs: of pytest.
        passed: tests, each as often as it ran.
        failed: how often each test failed.
        others: runs that failed without a failed test, such as for what they left on the machine.
        seconds: all runs took.
    """

    runs: int
    passed: int
    failed: Counter[str]
    others: int
    seconds: float


class Condition(NamedTuple):
    """How tests are run.

    Attributes:
        name: for the command line and the table.
        what: it is, in words.
        options: of pytest.
        busy: whether processes compute beside the tests.
        cores: how many processors the tests get; 0 for all.
        coarse: whether clocks advance in steps of 10 ms.
        seeds: whether each run has its own order and its own hashes.
        alone: whether each file has a process of pytest of its own.
    """

    name: str
    what: str
    options: tuple[str, ...] = ("-n", "logical")
    busy: bool = False
    cores: int = 0
    coarse: bool = False
    seeds: bool = False
    alone: bool = False


CONDITIONS: Final = (
    Condition("quiet", "as `make test` does"),
    Condition("busy", "beside processes that compute", busy=True),
    Condition("ticks", "with clocks that advance in steps of 10 ms", coarse=True),
    Condition("one-core", "on one processor", cores=1),
    Condition("order", "in an order of its own each time", seeds=True),
    Condition("alone", "each file by itself", ("-n", "0"), alone=True),
)


def changed_lines(diff: str) -> list[range]:
    """Return the lines that a file has after a change, from a diff without context."""
    found = [_HUNK.match(line) for line in diff.splitlines()]
    hunks = [(int(match[1]), int(match[2] or 1)) for match in found if match]
    return [range(first, first + max(1, count)) for first, count in hunks]


def tests_at(source: str, lines: Iterable[range]) -> list[str] | None:
    """Return the tests, `name` or `Class::name`, that have some of the lines; None if a line is outside of all tests,
    as in a fixture: then each test of the file may be another. Imports and empty lines count as outside of everything.
    """
    tree = ast.parse(source)
    touched = {number for each in lines for number in each}
    found = []
    for name, node in _tests(tree.body):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        own = set(range(first, (node.end_lineno or first) + 1))
        if own & touched:
            found.append(name)
        touched -= own
    for statement in tree.body:
        own = set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        if own & touched and not isinstance(statement, ast.Import | ast.ImportFrom):
            return None
    return found


def _tests(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}{node.name}", node


def touched_tests(since: str) -> list[str]:
    """Return the node ids of the tests that are new or changed since a commit, or the paths of whole files."""
    changed = _git("diff", "--name-status", "--find-renames", "--diff-filter=AMR", since, "--", "tests").splitlines()
    new = _git("ls-files", "--others", "--exclude-standard", "--", "tests").splitlines()
    found = [path for path in new if _has_tests(path)]
    for status, before, *moved in (line.split("\t") for line in changed):
        path = moved[0] if moved else before
        if not _has_tests(path):
            continue
        compared = (f"{since}:{before}", path) if moved else (since, "--", path)  # else a moved file is new as a whole
        names = tests_at((ROOT / path).read_text(), changed_lines(_git("diff", "-U0", *compared)))
        found += [path] if names is None and status != "R100" else [f"{path}::{name}" for name in names or ()]
    return sorted(found)


def _has_tests(path: str) -> bool:
    return Path(path).name.startswith("test_") and path.endswith(".py")


def base() -> str:
    """Return the commit before the change: where this branch leaves the one that it follows, or hours before HEAD."""
    head = _git("rev-parse", "HEAD").strip()
    upstream = _git("merge-base", "HEAD", "@{upstream}", check=False).strip()
    if upstream and upstream != head:
        return upstream
    until = int(_git("show", "--no-patch", "--format=%ct", "HEAD")) - _RECENT
    return _git("rev-list", "-1", f"--before={until}", "HEAD").strip() or head


def _git(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=check).stdout


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that compute until the block ends."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def coarse_clock(directory: Path) -> dict[str, str]:
    """Return the environment whose processes have clocks that advance in steps of 10 ms.

    Raises:
        CalledProcessError: there is a C compiler, but it does not make the library.
        FileNotFoundError: there is no C compiler.
    """
    library = directory / "coarse_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(TICKS), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


def commands(
    condition: Condition, tests: Sequence[str], times: int, *, is_whole: bool, seed: int
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the runs of a condition: options and tests of pytest, and what is set in the environment.

    Chosen tests are repeated within a run; the whole suite, and an order of their own, need one run each.
    """
    many = times if is_whole or condition.seeds else 1
    repeated = [] if many > 1 or times == 1 else [f"--count={times}", "--repeat-scope=session"]
    parts = list(_by_file(tests).values()) if condition.alone else [list(tests)]
    for number in range(many):
        drawn = seed + number if condition.seeds or is_whole else 1
        for part in parts:
            yield [*condition.options, f"--randomly-seed={drawn}", *repeated, *part], {"PYTHONHASHSEED": str(drawn - 1)}


def _by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for test in tests:
        found.setdefault(test.partition("::")[0], []).append(test)
    return found


def run(
    condition: Condition,
    tests: Sequence[str],
    times: int,
    directory: Path,
    *,
    is_whole: bool,
    seed: int,
    busy: int,
    until: float | None,
) -> Round:
    """Run tests under a condition, as often as is asked for, but begin none after a time of the monotonic clock."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if condition.coarse:
        environment |= coarse_clock(directory)
    processors = os.sched_getaffinity(0)
    failed: Counter[str] = Counter()
    runs = passed = others = 0
    began = time.monotonic()
    with busy_processes(busy if condition.busy else 0):
        try:
            if condition.cores:
                os.sched_setaffinity(0, sorted(processors)[: condition.cores])
            for options, variables in commands(condition, tests, times, is_whole=is_whole, seed=seed):
                runs += 1
                place = directory / f"{condition.name}-{runs}"
                counted = _run(options, environment | variables, place, until)
                passed += counted["passed"]
                failed.update(counted["failed"])
                others += counted["status"] != 0 and not counted["failed"]
                if until is not None and time.monotonic() > until:
                    break
        finally:
            os.sched_setaffinity(0, processors)
    return Round(runs, passed, failed, others, time.monotonic() - began)


def _run(options: Sequence[str], environment: Mapping[str, str], place: Path, until: float | None) -> dict[str, Any]:
    """Run pytest; its output is in `place.log`."""
    limit = [] if until is None else ["-p", "tests.support.quick", f"--until={until}"]
    outcome = place.with_suffix(".json")
    command = [*_PYTEST, "-p", __spec__.name, f"--outcome={outcome}", *limit, *options]
    with place.with_suffix(".log").open("wb") as log:
        status = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False).returncode
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        status = pytest.ExitCode.OK
    counted: dict[str, Any] = json.loads(outcome.read_text()) if outcome.exists() else {"passed": 0, "failed": {}}
    return counted | {"status": status}


def table(rounds: Mapping[str, Round]) -> str:
    """Return what all conditions came to, as a table in Markdown, with the tests that failed below it."""
    lines = ["| condition | runs | passed | failed | seconds |", "|---|--:|--:|--:|--:|"]
    for name, each in rounds.items():
        total = each.failed.total() + each.others
        lines.append(f"| {name} | {each.runs} | {each.passed:,} | {total} | {each.seconds:.0f} |")
    for name, each in rounds.items():
        lines += [f"{name}: {count} × {test}" for test, count in each.failed.most_common()]
        lines += [f"{name}: {each.others} × a run that failed without a failed test"] if each.others else []
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the conditions, print the table, and return 1 if anything failed."""
    names = [condition.name for condition in CONDITIONS]
    parser = argparse.ArgumentParser(prog="make flaky", description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("tests", nargs="*", metavar="FILE", help="files, directories or node ids of tests")
    parser.add_argument("--all", action="store_true", help="the whole suite, in as many runs as --times")
    parser.add_argument("--since", metavar="REV", help="the tests that are new or changed since this commit")
    parser.add_argument("--times", type=int, default=20, help="each test runs so often (%(default)s)")
    parser.add_argument("--seconds", type=float, help="begin no test after so many seconds of one condition")
    parser.add_argument("--busy", type=int, default=BUSY, help="processes that compute beside it (%(default)s)")
    parser.add_argument("--seed", type=int, default=2, help="the first of the seeds (%(default)s)")
    parser.add_argument("--conditions", default=",".join(names), help="some of %(default)s")
    given = parser.parse_args(arguments)
    wanted = given.conditions.split(",")
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"--conditions: unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    tests = given.tests or (["tests"] if given.all else touched_tests(given.since or base()))
    if not tests:
        sys.stdout.write("no test is new or changed\n")
        return 0
    directory = Path(tempfile.mkdtemp(prefix="flaky-"))
    sys.stdout.write(
        f"{len(tests)} tests and files, {given.times} times; the output of failures stays in {directory}\n"
    )
    rounds = {}
    for condition in (each for each in CONDITIONS if each.name in wanted):
        sys.stdout.write(f"{condition.name}: {condition.what} …\n")
        sys.stdout.flush()
        until = None if given.seconds is None else time.monotonic() + given.seconds
        rounds[condition.name] = run(
            condition, tests, given.times, directory, is_whole=given.all, seed=given.seed, busy=given.busy, until=until
        )
    sys.stdout.write(f"{table(rounds)}\n")
    has_failed = any(each.failed or each.others for each in rounds.values())
    if not has_failed:
        remove_tree(directory)
    return int(has_failed)


class Outcome:
    """Counts the tests of a run for `make flaky`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed = 0
        self._failed: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test; what pytest-repeat has added to its name goes."""
        self._passed += report.passed and report.when == "call"
        self._failed[without_step(report.nodeid)] += report.failed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be collected."""
        self._failed[report.nodeid] += report.failed

    def pytest_unconfigure(self) -> None:
        """Write the counts."""
        self._path.write_text(json.dumps({"passed": self._passed, "failed": +self._failed}))


def without_step(nodeid: str) -> str:
    """Return the name of a test without the number of its repetition: `[3-20]`, `[case-3-20]`."""
    return re.sub(r"\[\d+-\d+\]$", "", re.sub(r"-\d+-\d+\]$", "]", nodeid))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--outcome", metavar="FILE", help="write how many tests passed, and which failed, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that gets all reports."""
    path = config.getoption("--outcome")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcome(Path(path)), "outcome")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each test once before any runs a second time: if time is short, all of them have run."""
    items[:] = [item for item in items if not (_step_of(item) and item.nodeid.startswith(_ONCE))]
    items.sort(key=_step_of)


def _step_of(item: pytest.Item) -> int:
    """Return the number of a repetition, 0 for the first."""
    callspec = getattr(item, "callspec", None)
    return 0 if callspec is None else int(callspec.params.get(_STEP, 0))


if __name__ == "__main__":
    sys.exit(main())
