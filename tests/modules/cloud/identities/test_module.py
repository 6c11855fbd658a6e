"""The module alone on the bus, with a test in the place of edgecontroller and of the API server's watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.testing import Harness
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.reflector.observations import ListPage, Observation, ObservedEvent, ObservedObject
from modules.cloud.client.reflector.selection import ListRequest, WatchRequest
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.messages import ALLOW, NAME, RESOURCE, REVOKE, Revocation
from modules.cloud.identities.module import IdentitiesModule
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import NodeIdentity, Record, object_name, object_of

Key = tuple[str, str]
SERIAL = "1F"
CERTIFIED = CertifiedPeer(SERIAL, 0.0)


class ApiServer:
    """The ConfigMaps; its watch tells of a change when the test wants it to (`KubeApi`, `ApiReading`)."""

    def __init__(self, bee: Harness, *records: Record) -> None:
        self._bee = bee
        self._version = 10
        self.objects: dict[str, JsonObject] = {}
        self.events: list[ObservedEvent] = []
        """Changes that the watch has not told."""
        self._told: list[Observation] = []
        self._woken: Callable[[], None] = lambda: None
        self.before_write: Callable[[], object] = lambda: None
        """Called once, before the next write."""
        self.calls: list[str] = []
        for record in records:
            self.store("ADDED", object_of(record, "kubeedge", None))
        self.events.clear()
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)

    def store(self, change: str, obj: JsonObject) -> JsonObject:
        """Another cloudcore, or the module, has changed an object."""
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        stored = {**obj, "metadata": metadata}
        if change == "DELETED":
            del self.objects[metadata["name"]]
        else:
            self.objects[metadata["name"]] = stored
        self.events.append(ObservedEvent(change, _observed(stored)))
        return stored

    def tell(self, count: int = 1) -> None:
        """Let the watch tell of some changes."""
        self._told += self.events[:count]
        del self.events[:count]
        self._woken()
        self._bee.settle()

    def call(self, call: ApiCall, ended: Callable[[CallResponse | Exception], None]) -> None: ...

    def read(self, request: ListRequest | WatchRequest, woken: Callable[[], None]) -> ApiServer:
        self._woken = woken
        self._told = []
        if isinstance(request, ListRequest):
            self._told.append(ListPage(str(self._version), "", [_observed(each) for each in self.objects.values()]))
            woken()
        return self

    def take(self) -> Sequence[Observation]:
        told, self._told = self._told, []
        return told

    def cancel(self) -> None: ...

    def close(self) -> None: ...

    def _answer(self, message: Message) -> Message:
        return message.reply(self._bee.clock, self._serve(message.content_as(ApiCall)))

    def _serve(self, call: ApiCall) -> ApiResult:
        self.calls.append(call.verb)
        if call.verb != "get":
            before, self.before_write = self.before_write, lambda: None
            before()
        name = call.name or call.body["metadata"]["name"]
        live = self.objects.get(name)
        if call.verb == "create":
            return ApiResult(refusal={"code": 409}) if live else ApiResult(self.store("ADDED", call.body))
        if live is None:
            return ApiResult(refusal={"code": 404})
        if call.verb == "get":
            return ApiResult(live)
        wanted = call.options.get("preconditions") or call.body["metadata"]
        if wanted["resourceVersion"] != live["metadata"]["resourceVersion"]:
            return ApiResult(refusal={"code": 409})
        return ApiResult(self.store("DELETED", live) if call.verb == "delete" else self.store("MODIFIED", call.body))


def _observed(obj: JsonObject) -> ObservedObject:
    metadata = obj["metadata"]
    return ObservedObject("kubeedge", metadata["name"], metadata["name"], metadata["resourceVersion"], shared=obj)


@pytest.fixture
def bee() -> Iterator[Harness]:
    with Harness() as made:
        yield made


def started(bee: Harness, server: ApiServer) -> KnownIdentities:
    """The module, which knows the server's records."""
    known = KnownIdentities(bee.clock)
    bee.add(IdentitiesModule, known, lambda _: server)
    bee.start()
    bee.run_for(1.0)
    return known


def ask(bee: Harness, operation: str, content: Any) -> Any:
    """The module's answer."""
    return bee.ask(NAME, bee.message(RESOURCE, operation, content)).content


def test_late_news_of_a_deletion_undoes_no_later_revocation(bee: Harness) -> None:
    """A revocation that is ended and begun again holds, although the watch tells of the end only now."""
    server = ApiServer(bee)
    known = started(bee, server)
    asked = Revocation(kind="certificate", name=SERIAL)
    for operation in (REVOKE, ALLOW, REVOKE):
        assert ask(bee, operation, asked) == ""
    for _ in range(3):
        assert known.refusal_of(CERTIFIED)
        server.tell()
    assert known.refusal_of(CERTIFIED)
    assert ask(bee, ALLOW, asked) == ""
    server.tell()
    assert known.refusal_of(CERTIFIED) == ""


def test_a_user_who_is_revoked_again_stays_revoked_when_the_clock_was_set_back(bee: Harness) -> None:
    """Certificates between the two times, and those of the first second that were named, are refused."""
    known = started(bee, ApiServer(bee))
    now = bee.clock.now()
    assert ask(bee, REVOKE, Revocation(kind="user", name="admin", serials=("A1",))) == ""
    bee.clock.jump_wall(-300.0)
    assert ask(bee, REVOKE, Revocation(kind="user", name="admin")) == ""
    assert known.refusal_of(CertifiedPeer("B2", now - 100.0, user="admin"))
    assert known.refusal_of(CertifiedPeer("A1", float(int(now)), user="admin"))
    assert known.refusal_of(CertifiedPeer("C3", now + 100.0, user="admin")) == ""


def test_a_record_that_another_cloudcore_deletes_meanwhile_is_made_again(bee: Harness) -> None:
    """Nobody is told that the namespace is missing."""
    identity = NodeIdentity(name="n1", revoked_at=1.0)
    server = ApiServer(bee, identity)
    known = started(bee, server)
    name = object_name(("node", "n1"))
    server.before_write = partial(server.store, "DELETED", server.objects[name])
    assert ask(bee, REVOKE, Revocation(kind="node", name="n1", reason="stolen")) == ""
    assert "stolen" in known.refusal_of_node("n1", None)
    assert name in server.objects
