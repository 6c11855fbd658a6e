"""What is sent again: portion by portion, and not while the inboxes are long."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Module
from beehive.testing import FakeContext
from modules.cloud.edgecontroller.downstream import resending
from modules.cloud.edgecontroller.downstream.resending import Resending


class Bench:
    """Nodes with so many objects each; the inboxes are as long as the test says."""

    def __init__(self, **objects: int) -> None:
        self._context = FakeContext()
        self.depth = 0
        self.portions: list[list[str]] = []
        inbox = SimpleNamespace(depth=lambda: self.depth)
        hive = SimpleNamespace(members=lambda _group: (), slot=lambda _name: SimpleNamespace(inbox=inbox))
        module = SimpleNamespace(
            name="edgecontroller", hive=hive, after=self._context.after, call_soon=self._context.call_soon
        )

        def resend(node: str) -> int:
            self.portions[-1].append(node)
            return objects[node]

        downstream: Any = SimpleNamespace(resend_unacknowledged=resend)
        syncs: Any = SimpleNamespace(nodes=lambda: list(objects))
        self.resending = Resending(cast("Module", module), self._transact, downstream, syncs)

    def _transact(self, work: Callable[[], None]) -> None:
        self.portions.append([])
        work()

    def run(self, seconds: float = 0.1) -> None:
        """Let time pass."""
        self._context.simulation.run_for(seconds)


def test_a_portion_has_a_bound_also_of_nodes_without_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resending, "_PORTION", 3)
    bench = Bench(a=0, b=0, c=0, d=5, e=0)
    bench.resending.begin()
    bench.run()
    assert bench.portions == [["a", "b", "c"], ["d"], ["e"]]


def test_it_is_not_begun_again_while_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor goes on while an inbox is long."""
    monkeypatch.setattr(resending, "_PORTION", 1)
    bench = Bench(a=0, b=0)
    bench.resending.begin()
    bench.depth = 10_000
    bench.resending.begin()
    bench.run()
    assert bench.portions == [["a"]]
    bench.depth = 0
    bench.run(2.0)
    assert bench.portions == [["a"], ["b"]]
    bench.resending.begin()
    bench.run()
    assert bench.portions == [["a"], ["b"]] * 2
