"""The module alone on the bus, with a test in the place of edgecontroller and of the API server's watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beehive import Message, ModuleName
from beehive.testing import Harness
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.kube_client import News
from modules.cloud.client.reflector.effects import Refused, Synced
from modules.cloud.client.reflector.observations import ListPage, Observation, ObservedEvent, ObservedObject
from modules.cloud.client.reflector.selection import ListRequest, WatchRequest
from modules.cloud.identities import module
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.messages import (
    ALLOW,
    ENROL,
    MAKE_TOKEN,
    NAME,
    RESOURCE,
    REVOKE,
    USED,
    WITHDRAW_TOKEN,
    KeyEnrolment,
    Revocation,
    TokenSettings,
    Withdrawal,
)
from modules.cloud.identities.module import IdentitiesModule, known_identities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken, NodeIdentity, Record, RevokedCertificate, object_name, object_of
from modules.cloud.object_writes import JOURNAL, ObjectWrite

SERIAL = "1F"
CERTIFIED = CertifiedPeer(SERIAL, 0.0)


class ApiServer:
    """The ConfigMaps; its watch tells of a change when the test wants it to (`KubeApi`, `ApiReading`)."""

    def __init__(self, bee: Harness, *records: Record) -> None:
        self._bee = bee
        self.version = 10
        self.objects: dict[str, JsonObject] = {}
        self.events: list[ObservedEvent] = []
        """Changes that the watch has not told."""
        self._told: list[Observation] = []
        self._woken: Callable[[], None] = lambda: None
        self.before_write: Callable[[], object] = lambda: None
        """Called once, before the next write."""
        self.calls: list[str] = []
        self.node_code = 404
        """The code of the answer about a Node."""
        self.is_contended = False
        """Whether others are faster with each write."""
        for record in records:
            self.store("ADDED", object_of(record, "kubeedge", None))
        self.events.clear()
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)

    def store(self, change: str, obj: JsonObject) -> JsonObject:
        """Another cloudcore, or the module, has changed an object."""
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
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

    collects = False

    def send(self) -> None: ...

    def call(self, call: ApiCall, ended: Callable[[CallResponse | Exception], None]) -> None: ...

    def read(self, request: ListRequest | WatchRequest, woken: Callable[[], None]) -> ApiServer:
        self._woken = woken
        self._told = []
        if isinstance(request, ListRequest):
            self._told.append(ListPage(str(self.version), "", [_observed(each) for each in self.objects.values()]))
            woken()
        return self

    def receive(self) -> Sequence[Observation]:
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
        if call.plural == "nodes":
            return ApiResult(refusal={"code": self.node_code, "message": "not now"})
        name = call.name or call.body["metadata"]["name"]
        live = self.objects.get(name)
        if call.verb == "create":
            return ApiResult(refusal={"code": 409}) if live else ApiResult(self.store("ADDED", call.body))
        if live is None:
            return ApiResult(refusal={"code": 404})
        if call.verb == "get":
            return ApiResult(live)
        wanted = call.options.get("preconditions") or call.body["metadata"]
        if self.is_contended or wanted["resourceVersion"] != live["metadata"]["resourceVersion"]:
            return ApiResult(refusal={"code": 409})
        return ApiResult(self.store("DELETED", live) if call.verb == "delete" else self.store("MODIFIED", call.body))


def _observed(obj: JsonObject) -> ObservedObject:
    metadata = obj["metadata"]
    return ObservedObject("kubeedge", metadata["name"], metadata["name"], metadata["resourceVersion"], shared=obj)


def started(bee: Harness, server: ApiServer, known: KnownIdentities | None = None) -> KnownIdentities:
    """The module, which knows the server's records."""
    known = known or known_identities(bee.hive)
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


def test_a_configmap_without_a_record_hides_no_others(bee: Harness) -> None:
    server = ApiServer(bee, RevokedCertificate(name=SERIAL, revoked_at=1.0))
    server.objects = {"node.n1": {"metadata": {"name": "node.n1", "resourceVersion": "1"}}, **server.objects}
    assert "is revoked" in started(bee, server).refusal_of(CERTIFIED)


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


def test_the_first_list_ends_what_was_known_from_an_earlier_life_of_the_module(bee: Harness) -> None:
    """A revocation that was ended while the module did not run; and who is refused now is looked for."""
    known = known_identities(bee.hive)
    looked: list[str] = []
    known.on_change(lambda: looked.append("at the connections"))
    known.put(RevokedCertificate(name=SERIAL, revoked_at=1.0), 3)
    looked.clear()
    started(bee, ApiServer(bee), known)
    assert looked == ["at the connections"]
    assert known.refusal_of(CERTIFIED) == ""


def test_a_revocation_that_was_stored_while_the_first_list_was_on_its_way_stays_in_force(bee: Harness) -> None:
    """The list does not have it, and the watch tells of it later."""
    known, server = known_identities(bee.hive), ApiServer(bee)
    known.put(RevokedCertificate(name=SERIAL, revoked_at=1.0), server.version + 1)
    started(bee, server, known)
    assert known.refusal_of(CERTIFIED)


def test_a_node_that_is_allowed_again_keeps_its_key(bee: Harness) -> None:
    """Another machine with its name is still refused. The time of a revocation does not move with another reason."""
    server = ApiServer(bee, NodeIdentity(name="n1", key="a", since=1.0))
    known = started(bee, server)
    for reason in ("lost", "stolen"):
        assert ask(bee, REVOKE, Revocation(kind="node", name="n1", reason=reason)) == ""
        bee.run_for(10.0)
    (identity,) = known.records()
    assert isinstance(identity, NodeIdentity)
    assert (identity.reason, identity.revoked_at) == ("stolen", bee.clock.now() - 20.0)
    assert ask(bee, ALLOW, Revocation(kind="node", name="n1")) == ""
    assert known.refusal_of(CertifiedPeer("1", 0.0, "n1", key="a")) == ""
    assert known.refusal_of(CertifiedPeer("2", 0.0, "n1", key="b"))


def test_after_a_restore_of_the_api_server_its_lower_versions_count(bee: Harness) -> None:
    server = ApiServer(bee, RevokedCertificate(name=SERIAL, revoked_at=1.0))
    known = started(bee, server)
    name = object_name(("certificate", SERIAL))
    other = RevokedCertificate(name=SERIAL, revoked_at=0.5, reason="restored")
    restored = {**object_of(other, "kubeedge", None), "metadata": {"name": name, "resourceVersion": "2"}}
    server.objects[name] = restored
    server.version = 3
    bee.run_for(4000.0)  # the watch is silent, so the objects are listed again
    assert "restored" in str(known.records())


def test_expired_tokens_go_a_day_later_and_count_for_no_limit(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOKENS", 1)
    server = ApiServer(bee)
    started(bee, server)
    assert ask(bee, MAKE_TOKEN, TokenSettings(seconds=60.0))
    server.tell()
    assert "tokens are valid" in str(ask(bee, MAKE_TOKEN, TokenSettings()))
    bee.run_for(23 * 3600.0)
    assert len(server.objects) == 1
    assert "tokens are valid" not in str(ask(bee, MAKE_TOKEN, TokenSettings(seconds=30 * 24 * 3600.0)))
    bee.run_for(3 * 3600.0)
    assert len(server.objects) == 1


def test_a_record_that_others_keep_changing_is_given_up(bee: Harness) -> None:
    server = ApiServer(bee, NodeIdentity(name="n1", key="a"))
    started(bee, server)
    server.is_contended = True
    answer = ask(bee, REVOKE, Revocation(kind="node", name="n1"))
    assert "cannot be changed" in str(answer)
    assert server.calls.count("update") == 8


def test_a_use_of_a_key_is_noted_at_once_and_that_of_a_refused_one_never(bee: Harness) -> None:
    server = ApiServer(bee)
    known = started(bee, server)

    def key_after(peer: CertifiedPeer) -> str:
        bee.send(NAME, bee.message(NAME, USED, peer))
        (identity,) = known.records()
        return identity.key if isinstance(identity, NodeIdentity) else ""

    now = float(int(bee.clock.now()))
    assert key_after(CertifiedPeer("1", now, "n1", key="a")) == "a"
    assert key_after(CertifiedPeer("3", now - 5.0, "n1", key="c")) == "a"
    assert key_after(CertifiedPeer("2", now + 5.0, "n1", key="b")) == "b"
    assert key_after(CertifiedPeer("3", now, "n1", key="c")) == "b"


def test_a_use_that_cannot_be_noted_is_tried_again_after_a_minute(bee: Harness) -> None:
    """Also when the clock was set back."""
    server = ApiServer(bee, NodeIdentity(name="n1", key="a"))
    started(bee, server)
    server.is_contended = True
    for writes in (8, 16):
        for _ in range(3):
            bee.send(NAME, bee.message(NAME, USED, CertifiedPeer("2", bee.clock.now() + 5.0, "n1", key="b")))
        assert server.calls.count("update") == writes
        bee.clock.jump_wall(-300.0)
        bee.run_for(61.0)


@pytest.mark.parametrize("code", [403, 503])
def test_nobody_joins_while_it_is_not_known_whose_the_name_is(bee: Harness, code: int) -> None:
    server = ApiServer(bee, JoinToken(name="t", created_at=0.0, expires_at=1e12))
    started(bee, server)
    server.node_code = code
    assert "cannot be read: not now" in str(ask(bee, ENROL, KeyEnrolment(node="n1", key="a", token="t")))  # noqa: S106
    assert object_name(("node", "n1")) not in server.objects


def test_that_nobody_can_connect_is_logged_once_each_time(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = list[Callable[[News], None]]()
    client = SimpleNamespace(watch=lambda _, handle: handlers.append(handle), close=lambda: None)
    monkeypatch.setattr(module, "KubeClient", lambda *_: client)
    bee.start(IdentitiesModule, known_identities(bee.hive), lambda _: None)
    refused = Refused(403, "configmaps is forbidden")
    for news in (refused, refused, Synced("7"), refused):
        handlers[0](news)
    assert caplog.text.count("no node can connect") == 2


def test_a_revoked_node_gets_no_further_certificate(bee: Harness) -> None:
    started(bee, ApiServer(bee, NodeIdentity(name="n1", key="a", revoked_at=1.0)))
    peer = CertifiedPeer("1", 0.0, "n1", key="a")
    assert "revoked" in str(ask(bee, ENROL, KeyEnrolment(node="n1", key="b", peer=peer)))


@pytest.mark.parametrize("is_race", [False, True])
def test_a_token_for_one_node_joins_one(bee: Harness, *, is_race: bool) -> None:
    """Also when another cloudcore uses it up at the same moment."""
    token = JoinToken(name="t", created_at=0.0, expires_at=1e12, once=True)
    server = ApiServer(bee, token)
    started(bee, server)
    used = object_of(msgspec.structs.replace(token, used_by="n1", used_key="a"), "kubeedge", None)
    if is_race:
        server.before_write = partial(server.store, "MODIFIED", used)
    else:
        assert ask(bee, ENROL, KeyEnrolment(node="n1", key="a", token=token.name)) == ""
    assert "n1 has joined with it" in str(ask(bee, ENROL, KeyEnrolment(node="n2", key="b", token=token.name)))
    assert object_name(("node", "n2")) not in server.objects
    assert ask(bee, ENROL, KeyEnrolment(node="n1", key="a", token=token.name)) == "", "its answer may have been lost"
    assert "n1 has joined with it" in str(ask(bee, ENROL, KeyEnrolment(node="n1", key="c", token=token.name)))


def noted(bee: Harness) -> list[tuple[str, ...]]:
    """User, change, object and details of what the journal was told."""
    entries = [entry for message in bee.sent_to(JOURNAL) for entry in message.content_as(list[ObjectWrite])]
    assert len({each.id for each in entries}) == len(entries)
    return [(each.user, each.verb, f"{each.kind}/{each.name}", *each.fields) for each in entries]


def test_who_locks_out_whom_and_why_is_told_to_the_journal(bee: Harness) -> None:
    """What was refused, or changed nothing, is not."""
    server = ApiServer(bee, NodeIdentity(name="n1", key="a"))
    started(bee, server)
    asked = Revocation(kind="node", name="n1", reason="lost\x1b[2J", by="jan")
    assert ask(bee, REVOKE, asked) == ""
    assert ask(bee, ALLOW, msgspec.structs.replace(asked, reason="found")) == ""
    assert ask(bee, ALLOW, asked) != ""
    assert ask(bee, REVOKE, Revocation(kind="certificate", name="0x1f", reason="\x1b[2J")) == ""
    assert "\\u001b" not in str(server.objects)
    server.is_contended = True
    assert ask(bee, REVOKE, Revocation(kind="node", name="n1")) != ""
    assert noted(bee) == [
        ("jan", "revoked", "Node/n1", "reason: lost\\x1b[2J"),
        ("jan", "allowed", "Node/n1", "reason: found"),
        ("administrator", "revoked", "Certificate/1F", "reason: \\x1b[2J"),
    ]


def test_who_makes_a_token_is_told_and_who_takes_a_name_by_it(bee: Harness) -> None:
    """The replaced machine's successor comes by the token, and for the reason, of an administrator. The same key again
    replaces nobody.
    """
    server = ApiServer(bee, NodeIdentity(name="n1", key="a"))
    started(bee, server)
    settings = TokenSettings(node="n1", replace=True, reason="new disk\x1b", by="jan")
    made = ask(bee, MAKE_TOKEN, settings)
    name = made.name
    assert made.reason == "new disk\\x1b"
    bee.run_for(1.0)
    for _ in range(2):
        assert ask(bee, ENROL, KeyEnrolment(node="n1", key="b", token=name)) == ""
        bee.run_for(1.0)
    assert ask(bee, WITHDRAW_TOKEN, Withdrawal(name=name, reason="used", by="eva")) == ""
    assert ask(bee, WITHDRAW_TOKEN, Withdrawal(name=name)) != ""
    assert noted(bee) == [
        ("jan", "token made", f"Token/{name}", "reason: new disk\\x1b", "for: n1, another machine"),
        ("jan", "replaced", "Node/n1", "reason: new disk\\x1b", f"token: {name}"),
        ("eva", "token withdrawn", f"Token/{name}", "reason: used"),
    ]


def test_a_join_that_replaces_nobody_is_not_told(bee: Harness) -> None:
    """Nor one that cannot be stored."""
    token = JoinToken(name="t", created_at=1.0, expires_at=1e12, node="n1", replace=True)
    server = ApiServer(bee, token)
    started(bee, server)
    assert ask(bee, ENROL, KeyEnrolment(node="n1", key="a", token=token.name)) == ""
    server.is_contended = True
    assert ask(bee, ENROL, KeyEnrolment(node="n1", key="b", token=token.name)) != ""
    assert noted(bee) == []
