"""What one more pod costs edged on a node that has many: its start, its end, and a minute in which nothing happens.

edged is alone on the bus, in virtual time, with a runtime in memory. Calls of Python functions are counted, not time:
the runtime in memory looks at all of its pods where those inside edgecore have an index, and load changes no count.

    python -m tests.bench --only growth-node
"""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from tests.bench.rows import Goal, Row, Unit
from tests.counts.node_steps import EdgedCalls
from tests.edged.conftest import Bench, pod

PODS: Final = (30, 110, 250, 500)
"""The kubelet's limit is 110; some clouds have nodes of 250 and 500."""
_MEASURED: Final = 20
"""The last pods, which are measured together, with the relists that they cause."""
_REST_SECONDS: Final = 60.0
_LINEAR: Final = (Goal(2.0, of_floor=True),)
_GOING: Final = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 2, "resourceVersion": "2"}


class _Costs(NamedTuple):
    """Calls for each pod."""

    start: float
    end: float
    minute: float


def measure() -> list[Row]:
    """Measure all rows; takes half a minute."""
    logged = logging.root.manager.disable
    logging.disable()
    try:
        costs = {size: _of_a_node(size) for size in PODS}
    finally:
        logging.disable(logged)
    few, *sizes = PODS
    return [
        Row(f"{what}, of {size} on the node: calls of edged", costs[size][at], Unit.COUNT, costs[few][at], "", _LINEAR)
        for at, what in enumerate(("a pod starts", "a pod ends", "a pod runs for a minute"))
        for size in sizes
    ]


def _of_a_node(size: int) -> _Costs:
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory:
        bench = Bench(Path(directory), max_pods=size)
        calls = EdgedCalls(bench)
        bench.start()
        try:
            pods = [pod(f"{number}") for number in range(size)]
            last = pods[-_MEASURED:]
            _send(bench, "insert", pods[:-_MEASURED], _REST_SECONDS)
            with calls.counted() as started:
                _send(bench, "insert", last, 0.5)
            assert len(bench.runtime.running()) == size
            bench.run(_REST_SECONDS)
            with calls.counted() as rested:
                bench.run(_REST_SECONDS)
            gone = [{**each, "metadata": {**each["metadata"], **_GOING}} for each in last]
            with calls.counted() as ended:
                _send(bench, "update", gone, 2.5)
                _send(bench, "delete", gone, 0.5)
            assert len(bench.runtime.running()) == size - _MEASURED
        finally:
            bench.stop()
    return _Costs(
        started.numbers["calls"] / _MEASURED, ended.numbers["calls"] / _MEASURED, rested.numbers["calls"] / size
    )


def _send(bench: Bench, operation: str, pods: list[dict[str, Any]], seconds: float) -> None:
    """Send pods to edged, and let time pass."""
    for each in pods:
        bench.post(operation, each)
    bench.run(seconds)
