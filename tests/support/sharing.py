"""How the processes of pytest-xdist share the tests: each collects and runs its own files, and imports no others.

A process that collects all 28,000 tests takes 12 s of processor time and 600 MB before the first of them runs.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import EachScheduling
from xdist.workermanage import WorkerController

from tests.support.extended import holds_only_extended, leaves_out
from tests.support.seconds import FILES, seconds

END_TO_END: Final = "tests/end_to_end/"
BROWSER: Final = (
    "tests/documentation/test_site.py",
    "tests/modules/page/test_browser.py",
    "tests/modules/page/test_keyboard.py",
    "tests/modules/page/test_large_fleet.py",
    "tests/modules/page/test_node_page.py",
    "tests/modules/page/test_shells.py",
    "tests/modules/page/test_walk.py",
    "tests/modules/processes/cloudcore/test_page_kubeconfig.py",
    "tests/modules/processes/cloudcore/test_page_port.py",
    "tests/modules/processes/cloudcore/test_page_sign_in.py",
    "tests/modules/processes/edgecore/trace/test_view.py",
    "tests/pictures/test_pictures.py",
    "tests/support/test_browser.py",
)
"""Tests that share the browser of their process."""
TOGETHER: Final = (
    "tests/cri_contract/",
    "tests/edged/cri/",
    "tests/end_to_end/crowd/",
    "tests/modules/runtimes/docker/",
)
"""Directories of tests that share a daemon or a node of their process."""
_IMPORT: Final = 3
"""Tests that take as long as the import of their file."""
_TEST: Final = 0.03
"""Seconds of a test of most files."""
_ALONE: Final = "~"


def together(nodeid: str) -> str | None:
    """Return the same for files that one process has to run, as they share what takes seconds; None for all others."""
    if nodeid.startswith(BROWSER):
        return BROWSER[0]
    return next((place for place in TOGETHER if nodeid.startswith(place)), None)


def turn(nodeid: str) -> str:
    """Return what sorts tests that share something beside each other, and before all others."""
    return together(nodeid) or (END_TO_END if nodeid.startswith(END_TO_END) else _ALONE)


def shares(weights: Mapping[str, float], count: int) -> list[list[str]]:
    """Return the files that each of several processes gets, of about the same weight, in the order that they come in.

    Args:
        weights: of the files, by their paths in the repository.
        count: of the processes.
    """
    units: dict[str, list[str]] = {}
    for path in weights:
        units.setdefault(together(path) or path, []).append(path)
    heaviest = sorted(units.values(), key=lambda paths: -sum(map(weights.__getitem__, paths)))
    found: list[list[str]] = [[] for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    for paths in heaviest:
        load, number = loads[0]
        found[number] += paths
        heapq.heapreplace(loads, (load + sum(map(weights.__getitem__, paths)), number))
    order = {path: place for place, path in enumerate(weights)}
    return [sorted(share, key=order.__getitem__) for share in found]


def _files(config: pytest.Config) -> dict[str, list[str]]:
    """Return the arguments that pytest has to collect from, by the file that they are in."""
    found: dict[str, list[str]] = {}
    for argument in config.args:
        name, _, test = argument.partition("::")
        path = config.invocation_params.dir / name
        files: Iterable[Path] = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        for file in files:
            short = str(file.relative_to(config.rootpath)) if file.is_relative_to(config.rootpath) else str(file)
            if not (path.is_dir() and holds_only_extended(short) and leaves_out(config.option.markexpr)):
                found.setdefault(short, []).append(f"{file}::{test}" if test else str(file))
    return found


def _weight(file: Path) -> float:
    """Return about how many seconds a file takes: the number of its tests says more than its size."""
    return _TEST * (_IMPORT + (file.read_text().count("def test_") if file.exists() else 0))


class Sharing:
    """Tells each process of pytest-xdist which files are its own, and its successor the same if it dies."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shares: list[list[str]] = []
        self._of: dict[int, list[str]] = {}

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Put the arguments of a process beside what else it is told."""
        place = id(node.gateway.spec)  # a successor has the same object, and others have equal ones
        if place not in self._of:
            if not self._of:
                files = _files(self._config)
                kind = "test" if leaves_out(self._config.option.markexpr) else "extended"
                known = seconds(FILES[kind].read_text().splitlines())
                weights = {path: known.get(path) or _weight(self._config.rootpath / path) for path in files}
                count = node.workerinput["workercount"]
                self._shares = [[each for path in share for each in files[path]] for share in shares(weights, count)]
            self._of[place] = self._shares[len(self._of)]
        node.workerinput["arguments"] = self._of[place]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> EachScheduling:
        """Return the scheduler, instead of `--dist`'s."""
        return _Scheduling(config, log)


class _Scheduling(EachScheduling):  # type: ignore[misc]
    """Lets each process run all that it has collected."""

    _removed2pending: dict[WorkerController, list[int]]

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Let a successor have what its predecessor has left, and not what another dead process has."""
        left = sorted(self._removed2pending.items(), key=lambda each: self.node2collection[each[0]] != list(collection))
        self._removed2pending = dict(left)
        super().add_node_collection(node, collection)

    def schedule(self) -> None:
        """Also tell pytest how many tests there are: it knows only how many the last process has collected."""
        super().schedule()
        session = self.config.pluginmanager.get_plugin("session")
        if isinstance(session, pytest.Session):
            session.testscollected = sum(map(len, self.node2collection.values()))


def register(config: pytest.Config) -> None:
    """Share the tests in the process that starts others; take the share in one that was started."""
    process = getattr(config, "workerinput", None)
    if process is None:
        config.pluginmanager.register(Sharing(config), "sharing")
    else:
        config.args = process["arguments"]
