"""The module `identities`."""

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.printable import printable
from beehive.resource import Side
from beehive.runtime import Runtime
from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.client.kube_api import KubeApi
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Added, Deleted, EpochChanged, Modified, Refused, Synced
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.identities import rules
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.messages import (
    ALLOW,
    ENROL,
    LIST,
    MAKE_TOKEN,
    NAME,
    REVOKE,
    USED,
    WITHDRAW_TOKEN,
    Identities,
    KeyEnrolment,
    Revocation,
    TokenSettings,
    Withdrawal,
)
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import (
    LABEL,
    JoinToken,
    Key,
    NodeIdentity,
    Record,
    RevokedCertificate,
    RevokedUser,
    key_of,
    object_name,
    record_in,
)
from modules.cloud.identities.store import IdentityStore, RecordChange, version_of
from modules.cloud.object_writes import (
    ADMINISTRATOR,
    ALLOWED,
    JOURNAL,
    NOTED,
    REPLACED,
    REVOKED,
    TOKEN_MADE,
    TOKEN_WITHDRAWN,
    WRITES_RESOURCE,
    access_entry,
)

_log = logging.getLogger(__name__)
Connect = Callable[[Runtime], KubeApi]

MOST_RECORDS: Final = 20_000
"""Records of identities, each of less than a kilobyte: more nodes than this, tokens included, cannot join."""
MOST_TOKENS: Final = 1000
"""Tokens that have not expired."""
_PERIOD: Final = 3600.0
"""Seconds between two removals of expired tokens."""
_NODE: Final = "Node"
_AGAIN: Final = 60.0
"""Seconds until a node's key that could not be stored is tried again."""

T = TypeVar("T")


def known_identities(hive: Hive) -> KnownIdentities:
    """Return the records that the servers of a process ask, and that its module `identities` keeps up to date."""

    def record_use(peer: CertifiedPeer) -> None:
        message = Message.new(hive.clock, source=NAME, resource=NAME, operation=USED, content=peer)
        hive.send(NAME, message, waits=False)

    return KnownIdentities(hive.clock, record_use)


class IdentitiesModule(Module):
    """The module that watches the records of identities, and is their only writer in this process.

    Args:
        known: answers the servers; this module keeps it up to date.
        connect: returns a client of the API server.
        namespace: of the ConfigMaps.
    """

    name: ClassVar[str] = NAME
    group: ClassVar[str] = NAME
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self, known: KnownIdentities, connect: Connect, namespace: str = NAMESPACE) -> None:
        super().__init__()
        self._known = known
        self._connect = connect
        self._namespace = namespace
        self._store = IdentityStore(self, known, namespace)
        self._client: KubeClient | None = None
        self._names: dict[str, Key] = {}
        """The records by the names of their ConfigMaps."""
        self._noting: dict[str, float] = {}
        """Nodes whose key is being stored, and until when that is not tried again, in monotonic seconds."""
        self._is_refused = False
        self._is_synced = False

    def on_start(self) -> None:
        """Begin to watch."""
        self._client = KubeClient(self._connect(self.runtime), self, self.clock.random)
        selection = Selection(kind=kind_named("ConfigMap"), namespace=self._namespace, label_selector=LABEL)
        self._client.watch(selection, self._handle)
        self.every(_PERIOD, self._remove_expired)

    def on_end(self) -> None:
        """End the watch; the known records stay in force."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @handles(None, LIST)
    def list_records(self, message: Message) -> None:
        """Reply with all records."""
        self.reply(message, Identities(self._known.records()))

    @handles(None, REVOKE)
    def revoke(self, message: Message) -> None:
        """Revoke a node, a certificate or a user; replies when that is stored and in force here."""
        change = lambda asked, found: RecordChange(_revoked(asked, found, self.clock.now()))  # noqa: E731
        self._change_revocation(message, change, REVOKED)

    @handles(None, ALLOW)
    def allow(self, message: Message) -> None:
        """End a revocation; the reply is "" or that there was none."""
        self._change_revocation(message, _allowed, ALLOWED)

    @handles(None, MAKE_TOKEN)
    def make_token(self, message: Message) -> None:
        """Store a new token, and reply with it."""
        settings = self._content(message, TokenSettings)
        if settings is None:
            return
        now = self.clock.now()
        alive = [each for each in self._known.records() if isinstance(each, JoinToken) and each.expires_at > now]
        why = settings.mistake()
        if not why and len(alive) >= MOST_TOKENS:
            why = f"{MOST_TOKENS} tokens are valid: withdraw some with `cloudcore token delete`"
        if why:
            self._refuse(message, why)
            return
        token = JoinToken(
            name=self.clock.new_id().replace("-", "")[:16], created_at=now, expires_at=now + settings.seconds,
            node=settings.node, once=settings.once or settings.replace, replace=settings.replace,
            labels=settings.labels, by=settings.by, reason=printable(settings.reason)[:253],
        )  # fmt: skip
        facts = [f"for: {token.node or 'any node'}{', another machine' if token.replace else ''}"]
        note = self._recording_access(settings.by, TOKEN_MADE, "Token", token.name, settings.reason, facts)
        self._store.change(key_of(token), lambda _: RecordChange(token, token), self._replier(message, note))

    @handles(None, WITHDRAW_TOKEN)
    def withdraw_token(self, message: Message) -> None:
        """Forget a token, so that nobody can join with it; the reply is "" or that it does not exist."""
        asked = self._content(message, Withdrawal)
        if asked is not None:
            name, why = asked.name, f"no token {asked.name}"
            decide = lambda found: RecordChange(deletes=found is not None, answer="" if found else why)  # noqa: E731
            note = self._recording_access(asked.by, TOKEN_WITHDRAWN, "Token", name, asked.reason)
            self._store.change(("token", name), decide, self._replier(message, note))

    @handles(None, ENROL)
    def enrol(self, message: Message) -> None:
        """Decide whether a key may have a certificate of a node's name, and store that it has it."""
        asked = self._content(message, KeyEnrolment)
        if asked is None:
            return
        if object_name(("node", asked.node)) not in self._names and len(self._names) >= MOST_RECORDS:
            self._refuse(message, f"{MOST_RECORDS} names and tokens are taken, no further node can join")
        elif asked.peer is not None:
            self._enrol(message, asked, None)
        else:
            self._store.read_node(asked.node, lambda node, why: self._have_node(message, asked, node, why))

    @handles(None, USED)
    def record_use(self, message: Message) -> None:
        """Store the key that a node uses, if that changes its record."""
        peer = message.content_as(CertifiedPeer)
        now = self.clock.monotonic()
        if self._noting.get(peer.node, 0.0) > now:
            return
        self._noting[peer.node] = now + _AGAIN

        def decide(found: Record | None) -> RecordChange:
            identity = found if isinstance(found, NodeIdentity) else None
            if identity is not None and rules.refusal_of_node(peer, identity):
                return RecordChange()
            return RecordChange(rules.used(peer, identity, self.clock.now()))

        def done(_: object, failure: str) -> None:
            if failure:
                _log.warning("node %s: that its name belongs to its key is not remembered: %s", peer.node, failure)
            else:
                self._noting.pop(peer.node, None)

        self._store.change(("node", peer.node), decide, done)

    def _have_node(self, message: Message, asked: KeyEnrolment, node: JsonObject | None, failure: str) -> None:
        asked = msgspec.structs.replace(asked, has_other_kubelet=rules.is_of_other_kubelet(node))
        if failure:
            self._refuse(message, failure)
        elif asked.token:
            self._store.read(("token", asked.token), lambda found, why: self._join(message, asked, found, why))
        else:
            self._enrol(message, asked, None)

    def _join(self, message: Message, asked: KeyEnrolment, found: Record | None, failure: str) -> None:
        """Check the token and the name, then uses the token up, and then takes the name."""
        if failure or not isinstance(found, JoinToken):
            self._refuse(message, failure or "the token was withdrawn: `cloudcore token` prints another")
            return
        token = found

        def handle(identity: Record | None, why: str) -> None:
            known = identity if isinstance(identity, NodeIdentity) else None
            why = why or rules.joined(known, token, asked, self.clock.now()).refusal
            if why:
                self._refuse(message, why)
            elif token.once:
                self._store.change(key_of(token), use_up, used_up)
            else:
                self._enrol(message, asked, token)

        def use_up(now: Record | None) -> RecordChange:
            if not isinstance(now, JoinToken):
                return RecordChange(answer="the token was withdrawn")
            why = rules.refusal_by_token(now, asked)
            return RecordChange(answer=why) if why else RecordChange(rules.consumed(now, asked.node, asked.key))

        def used_up(answer: object, why: str) -> None:
            if why or answer:
                self._refuse(message, why or str(answer))
            else:
                self._enrol(message, asked, token)

        self._store.read(("node", asked.node), handle)

    def _enrol(self, message: Message, asked: KeyEnrolment, token: JoinToken | None) -> None:
        replaced = False

        def decide(found: Record | None) -> RecordChange:
            identity, now = found if isinstance(found, NodeIdentity) else None, self.clock.now()
            if asked.peer is None:
                outcome = rules.joined(identity, token, asked, now)
            else:
                why = rules.refusal_of_node(asked.peer, identity) if identity is not None else ""
                outcome = rules.Enrolled(why) if why else rules.renewed(identity, asked.peer, asked.key, now)
            nonlocal replaced
            replaced = replaced or bool(outcome.identity and identity and outcome.identity.replaced_at == now)
            return RecordChange(None if outcome.identity == found else outcome.identity, outcome.refusal)

        def done(answer: object, failure: str) -> None:
            if failure or answer:
                self._refuse(message, failure or str(answer))
                return
            if replaced and token is not None:
                facts = [f"token: {token.name}"]
                self._recording_access(token.by, REPLACED, _NODE, asked.node, token.reason, facts, via="join")()
            self.reply(message, "")

        self._store.change(("node", asked.node), decide, done)

    def _recording_access(
        self, by: str, verb: str, kind: str, name: str, reason: str, facts: Sequence[str] = (), via: str = "cloudcore"
    ) -> Callable[[], None]:
        """Return a function that tells the journal of an access."""

        def record() -> None:
            node = name if kind == _NODE else ""
            entry = access_entry(
                self.clock, by or ADMINISTRATOR, via, verb, kind, name, node=node, reason=reason, facts=facts
            )
            self.broadcast(JOURNAL, self.message(WRITES_RESOURCE, NOTED, [entry]))

        return record

    def _change_revocation(
        self, message: Message, change: Callable[[Revocation, Record | None], RecordChange], verb: str
    ) -> None:
        asked = self._content(message, Revocation)
        if asked is None:
            return
        try:
            asked = msgspec.structs.replace(asked, name=asked.normal_name(), reason=printable(asked.reason))
        except ValueError as error:
            self._refuse(message, str(error))
            return
        note = self._recording_access(asked.by, verb, asked.kind.capitalize(), asked.name, asked.reason)
        key, decide = (asked.kind, asked.name), lambda found: change(asked, found)
        self._store.change(key, decide, self._replier(message, note))

    def _replier(self, message: Message, note: Callable[[], None]) -> Callable[[object, str], None]:
        """Return a function that replies to a request, and notes what was done."""

        def done(answer: object, failure: str) -> None:
            if failure:
                self._refuse(message, failure)
                return
            if not isinstance(answer, str) or not answer:  # a text is why nothing was done
                note()
            self.reply(message, answer)

        return done

    def _refuse(self, message: Message, why: str) -> None:
        self.respond(message.error(self.clock, why))

    def _content(self, message: Message, kind: type[T]) -> T | None:
        """Return the content of a request; a wrong one is refused, and None is returned."""
        try:
            return message.content_as(kind)
        except BeehiveError as error:
            self._refuse(message, str(error))
            return None

    def _handle(self, news: News) -> None:
        match news:
            case Added() | Modified():
                self._observe(news.object)
            case Deleted():
                key = self._names.pop(news.object.name, None)
                if key is not None:
                    self._known.remove(key, whole_number(news.object.resource_version) or 0)
            case Synced():
                if not self._is_synced:
                    self._known.complete(self._names.values(), whole_number(news.resource_version) or 0)
                self._is_refused, self._is_synced = False, True
            case EpochChanged():
                self._known.forget_versions()
            case Refused():
                if not self._is_refused:
                    self._is_refused = True
                    text = "no node can connect, as it cannot be read which are revoked: configmaps of %s: %d: %s"
                    _log.error(text, self._namespace, news.status, news.message)

    def _observe(self, observed: ObservedObject) -> None:
        name = observed.name
        try:
            obj = observed.read()
        except (msgspec.DecodeError, UnicodeError):
            obj = {}
        record = record_in({**obj, "metadata": {**(obj.get("metadata") or {}), "name": name}})
        if record is None:
            _log.warning("the record of an identity in configmap %s/%s cannot be read", self._namespace, name[:253])
            return
        self._names[name] = key_of(record)
        self._known.put(record, version_of(obj))

    def _remove_expired(self) -> None:
        """Remove the tokens that expired a day ago: until then the error is that they have expired."""
        now = self.clock.now()
        for record in self._known.records():
            if isinstance(record, JoinToken) and record.expires_at + 24 * 3600.0 < now:
                self._store.change(
                    key_of(record), lambda found: RecordChange(deletes=found is not None), lambda *_: None
                )


def _revoked(asked: Revocation, found: Record | None, now: float) -> Record | None:
    """Return the record of a revocation; None if it is revoked already."""
    if asked.kind == "node":
        identity = found if isinstance(found, NodeIdentity) else NodeIdentity(name=asked.name)
        if identity.revoked_at and identity.reason == asked.reason:
            return None
        return msgspec.structs.replace(identity, revoked_at=identity.revoked_at or now, reason=asked.reason)
    if asked.kind == "user":
        earlier = found if isinstance(found, RevokedUser) else RevokedUser(name=asked.name, revoked_at=0.0)
        at = max(now, earlier.revoked_at)  # the clock may have been set back
        serials = (*earlier.serials, *asked.serials) if int(at) == int(earlier.revoked_at) else asked.serials
        return RevokedUser(name=asked.name, revoked_at=at, serials=serials, reason=asked.reason)
    return RevokedCertificate(name=asked.name, revoked_at=now, reason=asked.reason) if found is None else None


def _allowed(asked: Revocation, found: Record | None) -> RecordChange:
    """Return the change that ends a revocation."""
    if isinstance(found, NodeIdentity):
        if not found.revoked_at:
            return RecordChange(answer=f"node {asked.name} is not revoked")
        allowed = msgspec.structs.replace(found, revoked_at=0.0, reason="")
        return RecordChange(allowed) if allowed.key else RecordChange(deletes=True)
    if found is None:
        return RecordChange(answer=f"{asked.kind} {asked.name} is not revoked")
    return RecordChange(deletes=True)
