"""How the processes of pytest-xdist share the tests."""

from functools import cached_property
from itertools import filterfalse, islice
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER: Final = (
    "tests/cri_contract/",
    "tests/documentation/test_add_a_module.py",
    "tests/edged/cri/",
    "tests/modules/runtimes/docker/",
    "tests/modules/runtimes/process/test_mounts.py",
    "tests/modules/runtimes/oci/images/test_like_containerd.py",
    "tests/end_to_end/crowd/",
    "tests/modules/cloud/storage/test_database.py",
    "tests/modules/processes/cloudcore/test_shared.py",
    "tests/modules/processes/edgecore/test_spoilt_files.py",
    "tests/packaging/test_wheel.py",
    "tests/replay/test_deletions.py",
    "tests/replay/test_recorded_process.py",
    "tests/replay/test_simulated.py",
)
"""Tests that share a costly fixture: each place's run in one process, one after the other."""

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
"""Tests that share the browser of their process. All run in one: an idle browser takes a hundredth of a processor."""

END_TO_END: Final = "tests/end_to_end/"
WAITS: Final = (END_TO_END, "tests/documentation/test_commands.py", "tests/packaging/test_wheel.py")
"""Tests of these places mostly wait for what they have started."""

MOST_AT_ONCE: Final = 16
SHARES: Final = 8
"""A process gets this part of what would be its share if all that is left were dealt out: in the end one test each."""


def at_once(left: int, processes: int) -> int:
    """Return how many of the units of work that are left a process gets in one message."""
    return max(1, min(MOST_AT_ONCE, left // (SHARES * max(1, processes))))


def most_waiting(processes: int) -> int:
    """Return how many of these processes run tests of `WAITS` at the same time: the others compute meanwhile."""
    return max(1, processes // 2)


def waits(nodeid: str) -> bool:
    """Return whether a test, or the first of a unit, mostly waits."""
    return nodeid.startswith(WAITS)


def turn(nodeid: str) -> int:
    """Return when a test has its turn: what waits comes first, then what takes one process long, then all else.

    End-to-end tests are not mixed with others that wait: a process ends the machines that they share after its last.
    """
    if waits(nodeid):
        return 0 if nodeid.startswith(END_TO_END) else 1
    return 2 if nodeid.startswith((*TOGETHER, *BROWSER)) else 3


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives tests to the next idle process, and all tests of a place in `TOGETHER` to one process.

    Tests of `WAITS` begin first, but in half of the processes: in all of them they would leave the processors idle.
    """

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each test: all processes have collected the same, in the same order."""
        return {nodeid: index for index, nodeid in enumerate(self.collection)}

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BROWSER):
            return BROWSER[0]
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Send several units in one message: a message per test costs as much as a small test."""
        indices: list[int] = []
        for scope in self._next_scopes(node):
            unit = self.workqueue.pop(scope)
            self.assigned_work[node][scope] = unit
            indices += [self._places[nodeid] for nodeid, is_complete in unit.items() if not is_complete]
        node.send_runtest_some(indices)

    def _next_scopes(self, node: WorkerController) -> list[str]:
        """Return one unit that waits, if few other processes have such, else one that is long, else several."""
        first = next(iter(self.workqueue))  # tests of WAITS are first
        waiting = sum(any(map(waits, work)) for other, work in self.assigned_work.items() if other is not node)
        if waits(first) and waiting < most_waiting(len(self.nodes)):
            return [first]
        count = at_once(len(self.workqueue), len(self.nodes))
        units = list(islice(filterfalse(waits, self.workqueue), count)) or [first]
        return units[:1] if units[0].startswith((*TOGETHER, *BROWSER)) else units

    def remove_node(self, node: WorkerController) -> str | None:
        """Give others what a process that died has left, but not the test that it died of: they would die, too."""
        units = self.assigned_work.pop(node)
        left = [(unit, nodeid) for unit in units.values() for nodeid, is_complete in unit.items() if not is_complete]
        if not left:
            return None
        unit, killer = left[0]
        unit[killer] = True
        self.workqueue.update({scope: unit for scope, unit in units.items() if not all(unit.values())})
        for other in self.nodes:
            self._reschedule(other)
        return str(killer)

    def _reschedule(self, node: WorkerController) -> None:
        """Give nothing to the successor of a process that died before it has collected: the base class fails there."""
        if node in self.registered_collections:
            super()._reschedule(node)
            if not self.workqueue and not node.shutting_down:
                node.shutdown()  # a process runs its last test only when it knows that none follows

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what a process has completed: the base class counts all of it again after each test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]
