"""What the API server has left when a request fails half-way, in a way that nobody has thought of."""

import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from beehive.http.responses import Stream
from beehive.simulation import Simulation
from modules.apimachinery import computed
from modules.apimachinery.computed import Results
from modules.apimachinery.kinds import key_of
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.access import service as access
from modules.cloud.apiserver.access.flow_control import FairSeats, FlowControl
from modules.cloud.apiserver.access.service import AccessService
from modules.cloud.apiserver.authorized_calls import AuthorizedCalls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.endpoints.list_answers import in_turns
from modules.cloud.apiserver.endpoints.node_usage import UsageReader
from modules.cloud.apiserver.endpoints.service import ApiService
from modules.cloud.apiserver.endpoints.web_socket_streams import _Messages
from modules.cloud.apiserver.ephemeral_volumes import EphemeralVolumes
from modules.cloud.apiserver.field_manager.managed_fields import APPLY, Manager
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.recorded_writes import NO_WRITER
from modules.cloud.apiserver.short_turns import short_turns
from modules.cloud.authentication.users import User
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import ApiCall
from modules.cloud.refusals import Refusals
from tests.modules.cloud.objects import pod
from tests.support.failing import PlannedError

ALICE = User("alice")
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
WRITE = ApiCall(
    verb="create", api_version="v1", plural="configmaps", namespace="default", body=CONFIG,
    options={"fieldManager": "test"},
)  # fmt: skip
WITH_SCRATCH = pod("web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])


def _fail(*_: object, **__: object) -> Any:
    raise PlannedError


def _cluster() -> Cluster:
    return Cluster(Simulation(1).clock)


def _state(owner: Any) -> dict[str, Any]:
    """The values of an object by which contexts change what it does."""
    names = ("admission", "_has_quotas", "_track", "_writer", "_free")
    interval = {"interval": sys.getswitchinterval()}
    return interval | {name: str(getattr(owner, name)) for name in names if hasattr(owner, name)}


def _flow(large: FairSeats) -> FlowControl:
    flow = FlowControl.__new__(FlowControl)
    flow._large = large
    return flow


@pytest.mark.parametrize(
    ("make", "enter"),
    [
        (_cluster, lambda each: each.with_admission(cast("Any", _fail))),
        (_cluster, lambda each: each.within_quotas()),
        (_cluster, lambda each: each.managed_by(Manager("test"))),
        (FairSeats, lambda each: each.seat("alice")),
        (FairSeats, lambda each: _flow(each)._large_seat(ALICE)),
    ],
    ids=["admission", "quotas", "manager", "seat", "large"],
)
def test_a_context_ends_with_an_error_as_without(
    make: Callable[[], Any], enter: Callable[[Any], AbstractContextManager[None]]
) -> None:
    """The next request would be refused by another's quotas, written under another's name, or wait for ever; all
    threads would change places for ever.
    """
    owner = make()
    before = _state(owner)
    with pytest.raises(PlannedError), enter(owner):
        assert _state(owner) != before
        raise PlannedError
    assert _state(owner) == before


@pytest.mark.parametrize("sender", [{"user": "jane"}, {}, {"node": "n1"}], ids=["user", "administrator", "node"])
def test_a_request_that_fails_leaves_the_next_without_its_limits(
    monkeypatch: pytest.MonkeyPatch, sender: dict[str, Any]
) -> None:
    """Its rights would be asked for the control plane's own changes, and quotas would refuse these."""
    cluster, clock = _cluster(), Simulation(1).clock
    asked = RbacIndex(), Refusals(clock), Mock(Completeness)
    calls = AuthorizedCalls(cluster, NodeGraph(cluster.storage, clock), *asked, clock)
    before = _state(cluster)
    monkeypatch.setattr(api_calls, "serve", _fail)
    with pytest.raises(PlannedError):
        calls.serve(ApiCall(verb="get", api_version="v1", plural="nodes", name="n1", **sender))
    assert _state(cluster) == before


@pytest.mark.parametrize(
    "write",
    [
        lambda cluster: cluster.apply_as(Manager("test", APPLY), CONFIG, force=False),
        lambda cluster: api_calls.serve(cluster, WRITE),
        lambda cluster: EphemeralVolumes(cluster)._make(key_of(WITH_SCRATCH), WITH_SCRATCH),
    ],
    ids=["apply", "create", "claim"],
)
def test_a_write_that_fails_leaves_the_next_one_its_own_manager_and_quotas(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[Cluster], object]
) -> None:
    cluster = _cluster()
    before = _state(cluster)
    monkeypatch.setattr(cluster, "create", _fail)
    with pytest.raises(PlannedError):
        write(cluster)
    assert _state(cluster) == before


@pytest.mark.parametrize(
    "serve",
    [
        lambda service: AccessService._seated(service, _fail, ALICE, Mock(), Mock()),
        lambda service: AccessService._node_admitted(service, ALICE, Mock(), Mock(), is_allowed=False),
        lambda service: list(in_turns(map(_fail, "x"), service._flow.seat)),
    ],
    ids=["request", "node", "list"],
)
def test_a_request_that_fails_leaves_its_seat(monkeypatch: pytest.MonkeyPatch, serve: Callable[[Any], object]) -> None:
    """After a few of them the user would get no answer any more."""
    seats = FairSeats()
    before = _state(seats)
    for name in ("_call_of_node", "access_reviews"):
        monkeypatch.setattr(access, name, Mock())
    service = SimpleNamespace(_flow=SimpleNamespace(seat=lambda *_: seats.seat("alice")), _review=_fail)
    with pytest.raises(PlannedError):
        serve(service)
    assert _state(seats) == before


def test_short_turns_end_with_an_error_as_without() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(PlannedError), short_turns():
        assert sys.getswitchinterval() != before
        raise PlannedError
    assert sys.getswitchinterval() == before


def test_usage_is_read_after_a_look_that_failed() -> None:
    lock = threading.Lock()
    with pytest.raises(PlannedError):
        UsageReader._tidy(cast("Any", SimpleNamespace(_lock=lock, _drop_old=_fail)))
    assert lock.acquire(blocking=False)


def test_a_watch_that_cannot_begin_is_subscribed_to_nothing() -> None:
    """All later changes would be kept for it."""
    known = set[object]()

    def subscribe(kind: object, *, of_client: bool) -> object:
        assert of_client
        known.add(kind)
        return kind

    service = SimpleNamespace(
        _subscriptions=SimpleNamespace(subscribe=subscribe, unsubscribe=known.remove),
        _caller=SimpleNamespace(start_watch=_fail),
    )
    request, options = SimpleNamespace(first=lambda _: ""), SimpleNamespace(initial_events=None)
    with pytest.raises(PlannedError):
        ApiService._watch(
            cast("Any", service), cast("Any", request), cast("Any", None),
            cast("Any", SimpleNamespace(key_kind="Pod")), cast("Any", options),
        )  # fmt: skip
    assert not known


def test_the_pieces_of_an_answer_end_with_its_web_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have what is open at the node."""
    ended: list[int] = []

    def pieces(_peer: object) -> Generator[bytes, None, None]:
        try:
            yield b"piece"
            yield b"more"
        finally:
            ended.append(1)

    clock, (here, there) = RealClock(), socket.socketpair()
    with here, there:
        messages = _Messages(here, clock, b"", "")
        monkeypatch.setattr(messages, "_message", lambda data, **_: data and _fail())
        request = SimpleNamespace(flag=lambda _: False, rest=b"")
        with pytest.raises(PlannedError) as caught:
            messages.send(Stream("text/plain", pieces, lambda: None), cast("Any", request))
        assert ended
        assert caught.value is not None, "what the error holds is not collected before"
    clock.close()


def test_a_request_that_fails_before_its_answer_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(access, "begin_record", lambda *_: SimpleNamespace(end=ended.append))
    monkeypatch.setattr(access, "_answer_of", lambda _record, answer: answer())
    monkeypatch.setattr(AccessService, "_decided", _fail)
    unknown = cast("Any", None)
    with pytest.raises(PlannedError):
        AccessService(unknown, unknown, unknown, unknown).admit(unknown)
    assert ended == [500]


@pytest.mark.parametrize(
    "write",
    [
        lambda server: ApiServer._serve(server, ApiCall(verb="get", api_version="v1", plural="pods")),
        ApiServer._sync_manifests,
    ],
    ids=["call", "manifests"],
)
def test_what_follows_a_write_that_failed_is_not_its_writers(write: Callable[[Any], object]) -> None:
    writes = SimpleNamespace(writer=NO_WRITER)
    server = SimpleNamespace(
        _disk=SimpleNamespace(is_full=False), _changes=SimpleNamespace(writes=writes),
        _calls=SimpleNamespace(serve=_fail), _manifests=SimpleNamespace(sync=_fail), _transactions=Mock(),
    )  # fmt: skip
    with pytest.raises(PlannedError):
        write(server)
    assert writes.writer is NO_WRITER


def test_what_was_computed_for_a_request_that_fails_is_forgotten() -> None:
    """Later requests of the thread would be answered with it."""
    server = cast("Any", ApiServer.__new__(ApiServer))
    server._transactions, server._call = Mock(), _fail
    with pytest.raises(PlannedError):
        server._call_with(Mock(), Results())
    assert computed._thread.results is None


def test_what_was_written_before_the_manifests_is_not_theirs() -> None:
    """A transaction may have begun with the writes of others."""
    writes, seen = SimpleNamespace(writer=NO_WRITER), list[bool]()
    server = SimpleNamespace(
        _changes=SimpleNamespace(writes=writes), _manifests=Mock(),
        _transactions=SimpleNamespace(collect_changes=lambda: seen.append(writes.writer is NO_WRITER)),
    )  # fmt: skip
    ApiServer._sync_manifests(cast("Any", server))
    assert seen == [True, False]
