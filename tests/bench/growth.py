"""What one more costs cloudcore when there are many: nodes, pods of a node, Services, watches, pods of a list, history,
and another cloudcore's nodes, which are measured in calls of Python functions.

Each other row is the processor time for one more, beside that for one more where there are few, its floor: what is
linear in all keeps its price. One process has cloudcore, in virtual time and with real sockets and an SQLite file, and
the nodes, whose time does not count; other load on the machine hardly does.

    python -m tests.bench --only growth
    python -m tests.bench.growth [nodes | cloudcores | pods | services | pods-list | watches | history]…
"""

import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import msgspec
from sqlalchemy import create_engine

from beehive.simulation import Simulation
from beehive.testing import Harness
from beehive.turns import Turns
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.selectors import FieldTerm, Selector
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.endpoints.watching import event_type
from modules.cloud.client.calls import ApiCall
from modules.cloud.journal.database import JournalDatabase, tables
from modules.cloud.journal.links import LinkStore
from modules.cloud.journal.writes import MOST_OWN_ROWS, MOST_ROWS, WriteStore
from modules.cloud.messages import LinkSession
from modules.cloud.object_writes import CREATED, ObjectWrite
from modules.cloud.storage.watch_history import ObjectChanged
from modules.lab.load.documents import whole_node, whole_patch
from tests.bench.rows import Goal, Row, Unit, written
from tests.counts.cloud import CountedCloud, CountedNode

NODES: Final = (100, 1_000, 2_000, 5_000)
SHARED: Final = (100, 500)
PODS: Final = (31, 121, 241, 511)
SERVICES: Final = (100, 1_000, 2_000)
LISTED: Final = (2_000, 20_000)
WATCHES: Final = (10, 100, 500)
HISTORY: Final = (1_000, MOST_ROWS)
"""Rows of the change journal and of the journal of connections. Both are bounded: a year leaves no more than these."""
_BATCH: Final = 100
"""How many more are measured together."""
_PODS: Final = 15
"""Pods of a node that are measured together: their messages fit into a socket that nobody reads meanwhile."""
_PARTS: Final = 20
"""Transactions of a journal."""
_TIMES: Final = 3
_PERIOD: Final = 5.0
"""Seconds in which the API server looks at all nodes once. All of them are not 40, after which nodes are silent."""
_LOOK: Final = 0.5
"""Seconds in which a cloudcore reads the changes of others."""
_THOUSAND: Final = 1000
_PAGE: Final = 500
"""Objects of a part of a list, as kubectl asks."""
_BOUND: Final = Selector(fields=(FieldTerm("spec.nodeName", frozenset(("",)), equal=False),))
"""Selects the pods that have a node."""
_LINEAR: Final = (Goal(2.0, of_floor=True),)
"""Quadratic work costs ten times as much at ten times the number; objects that fit into no cache, 1.8 times."""


def _rows(what: str, milliseconds: Mapping[int, float]) -> list[Row]:
    """Return a row for each size but the first, which is the floor."""
    few, *sizes = milliseconds
    return [
        Row(f"{what}, of {size:,}", milliseconds[size], Unit.MILLISECONDS, milliseconds[few], goals=_LINEAR)
        for size in sizes
    ]


class _Stopwatch:
    """Processor time of this process, while it runs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Run in the block."""
        begin = process_time()
        try:
            yield
        finally:
            self.seconds += process_time() - begin


class _Fleet:
    """A cloud and its nodes."""

    def __init__(self, bee: Harness, directory: Path) -> None:
        self._cloud = CountedCloud(bee, directory, is_counted=False)
        self._bee = bee
        self.file = self._cloud.file
        """The database."""
        self.nodes: list[CountedNode] = []
        self._reports = 0

    def grow(self, count: int) -> float:
        """Connect nodes with a pod each until there are so many; return the milliseconds for each of the last ones."""
        while len(self.nodes) < count:
            begin = len(self.nodes)
            names = [f"n{number}" for number in range(begin, min(begin + _BATCH, count))]
            self._cloud.apply(*(_pod(name, 0) for name in names))
            new = [CountedNode(self._cloud, name) for name in names]
            self.nodes += new
            for node in new:
                node.ask(f"null/node/{node.name}", "insert", whole_node(node.name))
            spent = self._settle(new)
        return spent / len(new) * 1000

    def report(self) -> float:
        """Let some nodes report; return the milliseconds for each status."""
        self._reports += 1
        some = self.nodes[-_BATCH:]
        for node in some:
            node.ask(f"default/podpatch/{node.name}-0", "patch", whole_patch(node.uid_of_pod(), self._reports))
        return self._settle(some) / len(some) * 1000

    def add_pods(self, begin: int, end: int) -> float:
        """Apply pods of the first node, which it reports; return the milliseconds for each of the last ones."""
        for first in range(begin, end, _PODS):
            spent = self._add_pods(range(first, min(first + _PODS, end)))
        return spent

    def _add_pods(self, numbers: range) -> float:
        (node,) = self.nodes
        watch = _Stopwatch()
        with watch.runs():
            self._cloud.apply(*(_pod(node.name, number) for number in numbers))
        spent = watch.seconds + self._settle([node])
        self._reports += 1
        for number in numbers:
            patch = whole_patch(node.uid_of_pod(f"{node.name}-{number}"), self._reports)
            node.ask(f"default/podpatch/{node.name}-{number}", "patch", patch)
        return (spent + self._settle([node])) / len(numbers) * 1000

    def close(self) -> None:
        """Close the sockets and databases."""
        for node in self.nodes:
            node.close()
        self._cloud.close()

    def _settle(self, nodes: Sequence[CountedNode]) -> float:
        """Let the cloud do what it has to, and the nodes acknowledge; return the cloud's seconds."""
        watch, is_new = _Stopwatch(), True
        while is_new:
            with watch.runs():
                self._cloud.work()
            is_new = bool(sum(node.receive() for node in nodes))
        with watch.runs():
            self._bee.run_for(1.0)  # acknowledgements and journals, too
            self._cloud.work()
        return watch.seconds


def _pod(node: str, number: int) -> JsonObject:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "busybox:1.36"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{node}-{number}"}, "spec": spec}


@contextmanager
def _fleet() -> Iterator[_Fleet]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory, Harness() as bee:
            fleet = _Fleet(bee, Path(directory))
            try:
                yield fleet
            finally:
                fleet.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def nodes() -> list[Row]:
    """Measure registrations and statuses."""
    registered, reported = dict[int, float](), dict[int, float]()
    with _fleet() as fleet:
        for size in NODES:
            registered[size] = fleet.grow(size)
            reported[size] = min(fleet.report() for _ in range(_TIMES))
    return _rows("a node with its pod registers", registered) + _rows("a pod's status of a node", reported)


def cloudcores() -> list[Row]:
    """Measure what a cloudcore has to do for the nodes of another one, on the same database."""
    registered, reported, rested = dict[int, float](), dict[int, float](), dict[int, float]()
    with _fleet() as fleet, Harness(2) as bee, TemporaryDirectory(prefix=".bench-", dir=fleet.file.parent) as own:
        other = CountedCloud(bee, Path(own), database=fleet.file)

        def calls() -> float:
            with other.calls.counted() as counted:
                bee.run_for(_PERIOD)
            return counted.numbers["calls"]

        for size in SHARED:
            while len(fleet.nodes) < size - _BATCH:
                fleet.grow(len(fleet.nodes) + _BATCH)
                bee.run_for(_LOOK)
            fleet.grow(size)
            registering = calls()
            fleet.report()
            reporting, resting = calls(), calls()
            registered[size], reported[size] = (registering - resting) / _BATCH, (reporting - resting) / _BATCH
            rested[size] = resting / size
        other.close()
    few, many = SHARED
    return [
        Row(f"{what}, of {many}: calls", found[many], Unit.COUNT, found[few], goals=_LINEAR)
        for what, found in (
            ("another cloudcore's node registers", registered),
            ("a pod's status of another cloudcore's node", reported),
            (f"another cloudcore's node in {_PERIOD:g} s", rested),
        )
    ]


def pods() -> list[Row]:
    """Measure pods of one node, each applied and reported once."""
    with _fleet() as fleet:
        fleet.grow(1)
        cost, begin = dict[int, float](), 1
        for size in PODS:
            cost[size] = fleet.add_pods(begin, size)
            begin = size
    return _rows("a pod of one node, applied and reported", cost)


def _applied(cluster: Cluster, objects: Iterator[JsonObject]) -> float:
    """Apply objects, and return the milliseconds for each."""
    watch, count = _Stopwatch(), 0
    for obj in objects:
        with watch.runs():
            cluster.apply(obj)
        cluster.storage.drain_events()
        count += 1
    return watch.seconds / count * 1000


def services() -> list[Row]:
    """Measure Services, each with an address of its own."""
    cluster, begin, cost = Cluster(Simulation(1).clock), 0, dict[int, float]()
    for size in SERVICES:
        _applied(cluster, map(_service, range(begin, size - 50)))
        cost[size] = _applied(cluster, map(_service, range(size - 50, size)))
        begin = size
    return _rows("a Service is applied", cost)


def _service(number: int) -> JsonObject:
    spec = {"selector": {"app": f"a{number}"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{number}"}, "spec": spec}


def pods_list() -> list[Row]:
    """Measure `kubectl get pods -A`: all parts, each pod encoded as JSON."""
    cluster, begin, cost = Cluster(Simulation(1).clock), 0, dict[int, float]()
    for size in LISTED:
        _applied(cluster, (_pod(f"n{number % 100}", number) for number in range(begin, size)))
        _read_all(cluster)  # puts the names in order, once
        spent = []
        for _ in range(_TIMES):
            watch = _Stopwatch()
            with watch.runs():
                assert _read_all(cluster) == size
            spent.append(watch.seconds)
        cost[size] = min(spent) / size * _THOUSAND * 1000
        begin = size
    return _rows("1,000 pods of a list of all namespaces", cost)


def _read_all(cluster: Cluster) -> int:
    token, count = "", 0
    while True:
        options: dict[str, Any] = {"limit": _PAGE, "continue": token}
        result = api_calls.serve(cluster, ApiCall(verb="list", api_version="v1", plural="pods", options=options))
        found = result.object or {}
        msgspec.json.encode(found)
        count += len(found["items"])
        token = found["metadata"].get("continue") or ""
        if not token:
            return count


def watches() -> list[Row]:
    """Measure a changed pod for each of its watches."""
    cluster, cost = Cluster(Simulation(1).clock), dict[int, float]()
    _applied(cluster, iter([_pod("n1", 0)]))
    key = ObjectKey("Pod", "default", "n1-0")
    for size in WATCHES:
        subscriptions, watch = Subscriptions(), _Stopwatch()
        subscribed = [subscriptions.subscribe("Pod", of_client=True) for _ in range(size)]
        for number in range(_BATCH):
            cluster.replace_status(key, {"message": f"{size} {number}"})
            (event,) = cluster.storage.drain_events()
            changed = ObjectChanged(event.type, event.new, event.old, event.bare, event.is_selected_alike)
            with watch.runs():
                subscriptions.publish(changed)
                for each in subscribed:
                    for found in each.pop_some()[0]:
                        assert event_type(found, _BOUND) == "MODIFIED"
        subscriptions.close()
        cost[size] = watch.seconds / _BATCH / size * _THOUSAND * 1000
    return _rows("a change of a pod for 1,000 watches", cost)


def history() -> list[Row]:
    """Measure the journals, empty and as full as they become."""
    written_ones, connected = dict[int, float](), dict[int, float]()
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory:
        for size in HISTORY:
            url = f"sqlite:///{directory}/{size}.db"
            database = JournalDatabase(url, Turns())
            engine = create_engine(url)
            _fill(engine, size)
            store, links, watch, linked = WriteStore(database), LinkStore(database, "c"), _Stopwatch(), _Stopwatch()
            for number in range(_PARTS):
                first = 10**9 + number * _BATCH
                with watch.runs():
                    store.write([_write(first + each) for each in range(_BATCH)])
                with linked.runs():
                    links.write([_session(first + each) for each in range(_BATCH)], [], 1e9)
            engine.dispose()
            database.close()
            written_ones[size] = watch.seconds / _PARTS / _BATCH * 1000
            connected[size] = linked.seconds / _PARTS / _BATCH * 1000
    return _rows("a write in the change journal", written_ones) + _rows("a connection in its journal", connected)


def _fill(engine: Any, size: int) -> None:
    """Store writes and connections as a year leaves them."""
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            if table.name == "cluster_writes":
                rows = [_row_of(number) for number in range(1, size + min(size, MOST_OWN_ROWS))]
                connection.execute(table.insert(), rows)
            elif table.name == "cluster_links":
                connection.execute(
                    table.insert(),
                    [
                        {
                            "connection": f"old-{number}", "node": f"n{number % 1000}", "cloudcore": "c",
                            "began": float(number), "ended": number + 1.0, "reason": "", "address": "192.0.2.1",
                            "certificate_ends": 0,
                        }
                        for number in range(size)
                    ],
                )  # fmt: skip


def _row_of(number: int) -> dict[str, Any]:
    return {
        "version": number, "at": float(number), "is_own": 0, "user": f"u{number % 50}", "manager": "kubectl",
        "verb": CREATED, "kind": "Pod", "namespace": "default", "name": f"p{number % 5000}", "uid": str(number),
        "node": f"n{number % 1000}", "fields": "spec", "more": 0, "size": 64,
    }  # fmt: skip


def _write(version: int) -> ObjectWrite:
    return ObjectWrite(
        float(version), "jan", "kubectl", CREATED, "Pod", "default", f"p{version % 5000}", str(version), version, "n1",
        ("spec",),
    )  # fmt: skip


def _session(number: int) -> LinkSession:
    return LinkSession(node=f"n{number % 1000}", connection=f"new-{number}", cloudcore="c", began=float(number))


PARTS: Final[dict[str, Callable[[], list[Row]]]] = {
    "nodes": nodes,
    "cloudcores": cloudcores,
    "pods": pods,
    "services": services,
    "pods-list": pods_list,
    "watches": watches,
    "history": history,
}


def measure() -> list[Row]:
    """Measure all rows; takes some minutes."""
    return [row for part in PARTS.values() for row in part()]


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PARTS:
        for row in PARTS[chosen]():
            print(written(row), flush=True)  # noqa: T201
