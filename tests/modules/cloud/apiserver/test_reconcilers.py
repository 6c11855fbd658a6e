"""When reconcilers write: in the transaction of a change, in turns after it, and once for any number of changes."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.kubernetes_service import KubernetesService, keep_kubernetes_service
from modules.cloud.apiserver.reconciler import Attempt, OwnChanges, Reconciler
from modules.cloud.apiserver.reconcilers import ControlPlane, Reconcilers, reconcilers_of
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.objects import configmap, node, patch_status, pod

CHANGE = ObjectEvent(EventType.ADDED, ObjectKey("ConfigMap", "default", "a"), configmap("a"), None)


def attempt(work: Callable[[], None]) -> None:
    """Do the work in a transaction that is not undone."""
    work()


class InParts(Reconciler):
    """Has parts left; notes for each run whether it was a turn."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.runs: list[bool] = []

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
        """Do a part."""
        self.runs.append(is_turn)
        self.parts -= 1
        return self.parts > 0


def test_work_is_done_at_the_start_and_once_after_own_changes_that_concern_it() -> None:
    done: list[str] = []
    one = OwnChanges("c", ["ConfigMap"], lambda event: event.key.name == "a", lambda: done.append("work"))
    running = Reconcilers(lambda: [one])
    expected = 0
    for is_own, change, is_due in ((True, None, True), (False, CHANGE, False), (True, CHANGE, True)):
        for _ in range(2 if change else 0):
            running.handle_event(CHANGE, is_own=is_own)
        for _ in range(2):
            assert not running.run(attempt)
        expected += is_due
        assert len(done) == expected
    other = ObjectEvent(EventType.ADDED, ObjectKey("ConfigMap", "default", "b"), configmap("b"), None)
    running.handle_event(other, is_own=True)
    running.run(attempt)
    assert len(done) == expected
    running.reset()
    running.run(attempt)
    assert len(done) == expected + 1


class Told(Reconciler):
    """Notes the changes of Nodes, also of their statuses or not."""

    kinds = frozenset({"Node"})

    def __init__(self, *, is_of_statuses: bool) -> None:
        self.is_of_statuses = is_of_statuses
        self.told: list[bool] = []

    def handle_event(self, event: ObjectEvent) -> None:
        """Note whether it is of a status."""
        self.told.append(event.is_of_status)


@pytest.mark.parametrize("first", [False, True])
def test_who_does_not_want_the_changes_of_statuses_gets_the_others(*, first: bool) -> None:
    every, specs = Told(is_of_statuses=True), Told(is_of_statuses=False)
    running = Reconcilers(lambda: [every, specs])
    for is_of_status in (first, not first):
        for kind in ("ConfigMap", "Node"):
            key = ObjectKey(kind, "", "n1")
            event = ObjectEvent(EventType.MODIFIED, key, node(), node(), is_of_status=is_of_status)
            running.handle_event(event, is_own=True)
    assert (every.told, specs.told) == ([first, not first], [False])


def test_what_is_left_asks_for_one_turn_at_a_time() -> None:
    """Transactions of other messages come in between; they arrange no second turn."""
    parts = InParts(4)
    running = Reconcilers(lambda: [parts, InParts(2)])
    assert [running.run(attempt), running.run(attempt)] == [True, False]
    running.begin_turn()
    assert running.run(attempt)
    running.begin_turn()
    assert not running.run(attempt)
    assert parts.runs == [False, False, True, True]


class Failing(Reconciler):
    """Fails at one of its methods, and notes what is asked of it."""

    name = "failing"

    def __init__(self, at: str, calls: list[str]) -> None:
        self.at = at
        self.calls = calls

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.at:
            raise KeyError("spec")

    def load(self) -> None:
        """Fail, or note it."""
        self._called("load")

    def handle_event(self, event: ObjectEvent) -> None:
        """Fail, or note it."""
        self._called("handle_event")

    def roll_back(self, event: ObjectEvent) -> None:
        """Fail, or note it."""
        self._called("roll_back")

    def reset(self) -> None:
        """Fail, or note it."""
        self._called("reset")

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
        """Fail, or note it."""
        attempt(lambda: self._called("reconcile"))
        return False

    def overdue(self) -> Callable[[], None]:
        """Return work that fails, or notes it."""
        return lambda: self._called("overdue")


@pytest.mark.parametrize("at", ["load", "handle_event", "roll_back", "reset", "reconcile", "overdue"])
def test_a_reconciler_that_fails_rests_and_the_others_go_on(at: str) -> None:
    """A ResourceQuota without a spec stopped the whole API server, again and again."""
    broken: list[str] = []
    other: list[str] = []
    is_mended: list[bool] = []
    failures: Counter[str] = Counter()
    running = Reconcilers(lambda: [Failing("" if is_mended else at, broken), Failing("", other)], failures)
    running.load()
    running.handle_event(CHANGE, is_own=False)
    running.reset()
    running.roll_back(CHANGE)
    running.run(attempt)
    running.run_overdue(attempt)
    assert other == ["load", "handle_event", "reset", "roll_back", "reconcile", "overdue"]
    assert broken.count(at) == 1 + (at in ("load", "reset")), "it begins anew at the end of a period"
    assert failures == {"failing": broken.count(at)}
    assert at != "load" or set(broken) == {"load"}, "it hears of nothing while it rests"
    for rest in (2, 4, 8, 16, 32, 64, 64) if at == "load" else ():
        seen = len(broken)
        for _ in range(rest):
            running.run_overdue(attempt)
        assert len(broken) == seen + 1, "it rests for twice as long each time, up to a bound"
    is_mended.append(True)
    for _ in range(64 if at == "load" else 8):
        running.run_overdue(attempt)
        broken.clear()
        running.run(attempt)
    assert broken == ["reconcile"]


def test_a_reconciler_that_has_worked_for_a_period_rests_for_one_again() -> None:
    """And at the end of a rest a transaction is made, for what it has to do."""
    fails, made = [True], list[str]()

    class Sometimes(Failing):
        def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
            self.at = "reconcile" if fails else ""
            return super().reconcile(attempt, is_turn=is_turn)

        def overdue(self) -> None:  # type: ignore[override]
            """Nothing is overdue."""

    def noted(work: Callable[[], None]) -> None:
        made.append("transaction")
        work()

    running = Reconcilers(lambda: [Sometimes("", [])])
    for periods in (1, 2):
        running.run(attempt)
        assert running._resting == {0: periods}
        for period in range(periods):
            made.clear()
            running.run_overdue(noted)
            assert len(made) == (period + 1 == periods)
    fails.clear()
    running.run(attempt)
    running.run_overdue(attempt)
    fails.append(True)
    running.run(attempt)
    assert running._resting == {0: 1}


def test_an_own_change_at_which_a_reconciler_fails_is_refused() -> None:
    running = Reconcilers(lambda: [Failing("handle_event", [])])
    with pytest.raises(KeyError):
        running.handle_event(CHANGE, is_own=True)


def test_a_lost_transaction_is_no_failure_of_a_reconciler() -> None:
    calls: list[str] = []
    running = Reconcilers(lambda: [Failing("", calls)])

    def lost(work: Callable[[], None]) -> None:
        raise DatabaseError("no database")

    with pytest.raises(DatabaseError):
        running.run(lost)
    running.run(attempt)
    assert calls == ["reconcile"]


def test_a_round_of_pods_goes_on_in_its_turns_only() -> None:
    """Other transactions place none meanwhile, so that their messages do not wait; a change begins another round."""
    cluster = Cluster(Simulation(0).clock)
    scheduler = cluster.scheduler
    for number in range(3):
        cluster.create({"apiVersion": "v1", "kind": "Node", **node(f"n{number}")})
    term = {"topologyKey": "none", "labelSelector": {}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(450):
        cluster.create(pod(f"p{number}", nodeName="", nodeSelector={"kind": "fast"}, affinity=rule))
    assert scheduler.reconcile(attempt, is_turn=False)
    runs: list[int] = []
    place = scheduler.place_waiting_pods

    def counted() -> None:
        place()
        runs.append(1)

    scheduler.place_waiting_pods = counted  # type: ignore[method-assign]
    assert scheduler.reconcile(attempt, is_turn=False), "it waits for its turn"
    assert not runs
    scheduler.reset()
    rounds = 0
    while scheduler.reconcile(attempt, is_turn=True):
        rounds += 1
    assert rounds == len(runs) - 1
    assert not scheduler.has_round
    assert rounds > 2, "the rest of the first round, and another one"
    assert not scheduler.reconcile(attempt, is_turn=False)


def test_a_node_has_its_taints_before_pods_are_placed_and_quotas_come_last() -> None:
    cluster = Cluster(Simulation(0).clock)
    order = reconcilers_of(cluster, ControlPlane())
    assert order.index(cluster.node_lifecycle) < order.index(cluster.scheduler) < order.index(cluster.quotas)
    assert order[-1] is cluster.quotas


def test_what_was_undone_for_want_of_room_is_written_again() -> None:
    """All that reconcilers write at a start or after a change, although no further change comes; but for an Event of
    a change.
    """
    service = KubernetesService("10.96.0.1", "IPv4", ("192.0.2.1",), 6443)
    cluster, elsewhere = Cluster(Simulation(0).clock), service._replace(addresses=("192.0.2.2",))
    keep_kubernetes_service(cluster, elsewhere, repairs=True)
    cluster.create({"apiVersion": "v1", "kind": "Node", **node("n1")})
    under_pressure = {"status": {"conditions": [{"type": "MemoryPressure", "status": "True"}]}}
    patch_status(cluster, ObjectKey("Node", "", "n1"), under_pressure)
    plane, storage = ControlPlane(authority="PEM", service=service), cluster.storage
    running = Reconcilers(partial(reconcilers_of, cluster, plane))
    for event in storage.drain_events():
        running.handle_event(event, is_own=True)

    def written() -> set[ObjectKey]:
        running.run(attempt)
        return {event.key for event in storage.drain_events() if event.key.kind != "Event"}

    version = storage.version
    storage.set_savepoint()
    first = written()
    assert {key.kind for key in first} == {"Node", "Endpoints", "EndpointSlice"}
    for event in storage.roll_back():
        running.roll_back(event)
    assert storage.version == version
    running.reset()
    assert written() == first


def test_a_node_that_was_not_stored_takes_no_turn_from_pods_that_wait() -> None:
    """Its creation, a dry run for instance, has looked for places for the pods of a round that is under way."""
    cluster = Cluster(Simulation(0).clock)
    scheduler, storage = cluster.scheduler, cluster.storage
    for number in range(3):
        cluster.create(pod(f"p{number}", nodeName=""))
    scheduler.begin_round()
    scheduler._awaits_turn, scheduler._may_place = True, False
    storage.drain_events()
    storage.set_savepoint()
    cluster.create({"apiVersion": "v1", "kind": "Node", **node("n1")})
    assert not scheduler.has_round
    for event in storage.roll_back():
        scheduler.roll_back(event)
    storage.create({"apiVersion": "v1", "kind": "Node", **node("n2")})
    scheduler.reconcile(attempt, is_turn=True)
    assert [each["spec"].get("nodeName") for each in storage.list(kind_named("Pod"))] == ["n2"] * 3
