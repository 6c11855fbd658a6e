"""A small client of the control socket, in Python: for the demo, measurements and tests.

It makes requests of the Kubernetes API, and returns the answers in the form that people see.
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError
from beehive.sockets.unix_sockets import connect_unix
from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import JsonObject, Kind, kind_called, kind_named
from modules.cloud.apiserver.manifests import items_of
from modules.cloud.client.calls import APPLY
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.identities.messages import Identities
from modules.cloud.identities.records import Record
from modules.cloud.messages import Cloudcores, LinkQuery, LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery, place_of
from modules.processes.cloudcore.control_service import ApiPorts, AuditState, LinksResponseBody, NodesResponseBody
from modules.processes.cloudcore.errors import ControlError
from modules.processes.cloudcore.identity_service import RevocationOutcome, TokenResponseBody

_SECONDS: Final = 60.0
_MAX_HEAD: Final = 64 * 1024
_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of an answer."""
_PART: Final = 500
"""Objects of a part of a list (kubectl's `--chunk-size`)."""
_READ: Final = 1 << 16
_JSON: Final = "application/json"
_OK: Final = range(200, 300)


class Apply(msgspec.Struct, frozen=True):
    """A request to create or update objects by manifests."""

    documents: list[Any]
    namespace: str = "default"
    """The namespace of documents without one."""


class Get(msgspec.Struct, frozen=True):
    """A request to read objects."""

    kind: str
    name: str = ""
    """Empty: all objects."""
    namespace: str | None = "default"
    """None: all namespaces."""


class Delete(msgspec.Struct, frozen=True):
    """A request to delete one object."""

    kind: str
    name: str
    namespace: str = "default"
    grace: int | None = None
    """A pod's grace period in seconds; None: its spec's."""


class CommandItem(msgspec.Struct, frozen=True):
    """The outcome for one object: the object, or an error."""

    object: JsonObject | None = None
    outcome: str = ""
    """`created`, `configured` or `unchanged`; `deleted` or `is being deleted`."""
    error: str = ""
    warnings: tuple[str, ...] = ()


class ControlClient:
    """A client of a running cloudcore over its control socket.

    Args:
        path: the control socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, command: Apply | Get | Delete) -> list[CommandItem]:
        """Carry out a command, and return its items.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        match command:
            case Apply():
                return [self._apply(document, command.namespace) for document in items_of(command.documents)]
            case Get():
                return self._item(lambda: self._get(command))
            case Delete():
                return self._item(lambda: self._delete(command))

    def token(
        self,
        seconds: float,
        *,
        node: str = "",
        once: bool = False,
        replace: bool = False,
        labels: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> str:
        """Return a new token for nodes.

        Args:
            seconds: of its validity.
            node: the only node that can join with it; "" for any.
            once: whether one node can join with it, once.
            replace: whether the node's name may belong to another machine then.
            labels: of the Nodes that join with it, from their registration on.
            reason: for the change journal.

        Raises:
            ControlError: cloudcore does not run, or has no certificate authority.
        """
        asked = {
            "seconds": seconds, "node": node, "once": once, "replace": replace, "labels": labels or {}, "reason": reason
        }  # fmt: skip
        body = self._own("POST", "tokens", asked, "cannot make a token")
        return decode_json(body, TokenResponseBody).token

    def withdraw_token(self, name: str, reason: str = "") -> str:
        """Withdraw a token, given by its id, and return "" or that it is unknown. Raises ControlError."""
        why = f"?{urlencode({'reason': reason})}" if reason else ""
        body = self._own("DELETE", f"tokens/{quote(name, safe='')}{why}", None, "cannot withdraw the token")
        return decode_json(body, RevocationOutcome).remark

    def revoke(self, kind: str, name: str, reason: str = "", serials: Sequence[str] = ()) -> str:
        """Revoke a node, a certificate by its serial number, or a user, and return "" once that is in force.

        Args:
            kind: node, certificate or user.
            name: the name, or the serial number.
            reason: for the list, and for the node.
            serials: of a user: further certificates, which were made this very second.

        Raises:
            ControlError: cloudcore does not run, or refuses.
        """
        asked = {"kind": kind, "name": name, "reason": reason, "serials": list(serials)}
        return decode_json(self._own("POST", "revocations", asked, "cannot revoke"), RevocationOutcome).remark

    def allow(self, kind: str, name: str, reason: str = "") -> str:
        """End a revocation, and return "" or that there was none. Raises ControlError."""
        asked = {"kind": kind, "name": name, "reason": reason}
        return decode_json(self._own("POST", "allowances", asked, "cannot allow"), RevocationOutcome).remark

    def identities(self) -> list[Record]:
        """Return the records of nodes, tokens and revocations. Raises ControlError."""
        body = self._own("GET", "identities", None, "cannot read the revocations")
        return decode_json(body, Identities).records

    def _own(self, method: str, path: str, content: object, attempt: str) -> bytes:
        """Return the body of the answer of one of cloudcore's own paths. Raises ControlError."""
        sent = b"" if content is None else msgspec.json.encode(content)
        status, body = self.request(method, f"/cloudcore/{path}", sent)
        if status not in _OK:
            raise ControlError(attempt, _message_in(body))
        return body

    def metrics(self) -> str:
        """Return cloudcore's metrics in Prometheus' text format.

        Raises:
            ControlError: cloudcore does not run.
        """
        return self.request("GET", "/metrics")[1].decode()

    def nodes(self) -> list[NodeConnection]:
        """Return the connections of nodes to this cloudcore. Raises ControlError."""
        return self.connections().nodes

    def connections(self) -> NodesResponseBody:
        """Return the connections of nodes to this cloudcore, and those it has refused.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        status, body = self.request("GET", "/cloudcore/nodes")
        if status not in _OK:
            raise ControlError("cannot read the connections of nodes", _message_in(body))
        return decode_json(body, NodesResponseBody)

    def cloudcores(self) -> Cloudcores:
        """Return the cloudcores that are alive, and the nodes that each has.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        status, body = self.request("GET", "/cloudcore/cloudcores")
        if status not in _OK:
            raise ControlError("cannot read which cloudcores are alive", _message_in(body))
        return decode_json(body, Cloudcores)

    def links(self, query: LinkQuery) -> list[LinkSession]:
        """Return connections of the link journal. Raises ControlError."""
        asked = {"node": query.node, "since": query.since or "", "newest": "1" if query.newest_only else ""}
        path = f"links?{urlencode({key: value for key, value in asked.items() if value})}"
        return decode_json(self._own("GET", path, None, "cannot read the link journal"), LinksResponseBody).links

    def changes(self, query: WriteQuery) -> WriteList:
        """Return writes of the change journal, the newest first. Raises ControlError."""
        asked = {
            "kind": query.kind, "namespace": query.namespace, "name": query.name, "node": query.node,
            "q": " ".join(query.words), "since": query.since or "",
            "before": place_of(query.before, query.before_part), "limit": query.limit,
            "people": "1" if query.people_only else "",
        }  # fmt: skip
        path = f"changes?{urlencode({key: value for key, value in asked.items() if value})}"
        return decode_json(self._own("GET", path, None, "cannot read the change journal"), WriteList)

    def device_values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history. Raises ControlError."""
        asked = {key: value for key, value in msgspec.structs.asdict(query).items() if value}
        path = f"devicehistory?{urlencode(asked)}"
        return decode_json(self._own("GET", path, None, "cannot read the device history"), ValueList)

    def api_ports(self) -> ApiPorts:
        """Return where the Kubernetes API is served over TCP. Raises ControlError."""
        return decode_json(self._own("GET", "apiports", None, "cannot read the ports of the Kubernetes API"), ApiPorts)

    def audit(self) -> AuditState:
        """Return the state of the audit log. Raises ControlError."""
        return decode_json(self._own("GET", "audit", None, "cannot read the state of the audit log"), AuditState)

    def watch(self, command: Get) -> Iterator[tuple[str, CommandItem]]:
        """Yield the existing objects as ADDED, then each change, until cloudcore ends.

        Raises:
            ControlError: cloudcore does not run, or the kind is unknown.
        """
        kind = _kind(command.kind)
        target = f"{_path(kind, command.namespace, command.name)}?watch=true"
        with self._connected(None) as connection:
            exchange = ClientExchange(_MAX_HEAD)
            connection.sendall(exchange.request("GET", target, _headers("")))
            head = exchange.read_head(lambda: connection.recv(_READ))
            if head.status not in _OK:
                body = exchange.read_body(lambda: connection.recv(_READ), _READ)
                raise ControlError("cannot watch", kind.plural, _message_in(body))
            yield from _events(lambda: exchange.read_body(lambda: connection.recv(_READ), 1))

    def request(self, method: str, target: str, body: bytes = b"", media: str = _JSON) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        with self._connected(_SECONDS) as connection:
            exchange = ClientExchange(_MAX_HEAD)
            try:
                connection.sendall(exchange.request(method, target, _headers(media if body else ""), body))
                head = exchange.read_head(lambda: connection.recv(_READ))
                return head.status, exchange.read_body(lambda: connection.recv(_READ), _LARGEST)
            except (OSError, BeehiveError) as error:
                raise ControlError("cannot talk to cloudcore", str(self._path), str(error)) from error

    def call(self, method: str, path: str, obj: JsonObject | None = None) -> JsonObject:
        """Return the object with which the Kubernetes API answers a request. Raises ControlError for a refusal."""
        status, body = self.request(method, path, b"" if obj is None else msgspec.json.encode(obj))
        if status not in _OK:
            raise ControlError("the API server refuses", path, _message_in(body))
        answer: JsonObject = decode_json(body)
        return answer

    def _apply(self, document: Any, namespace: str) -> CommandItem:
        try:
            kind, place, name = _address(document, namespace)
            live = self._live(kind, place, name)
            query = "?fieldManager=cloudcore&force=true"
            target = _path(kind, place, name) + query
            status, body = self.request("PATCH", target, msgspec.json.encode(document), APPLY)
        except (BeehiveError, TypeError) as error:
            if isinstance(error, ControlError):
                raise
            return CommandItem(error=str(error))
        if status not in _OK:
            return CommandItem(error=_message_in(body))
        made = decode_json(body)
        return CommandItem(made, _outcome(live, made))

    def _live(self, kind: Kind, namespace: str, name: str) -> JsonObject | None:
        status, body = self.request("GET", _path(kind, namespace, name))
        return decode_json(body) if status in _OK else None

    def _get(self, command: Get) -> list[CommandItem]:
        kind = _kind(command.kind)
        path = _path(kind, command.namespace or None, command.name)
        query = "" if command.name else f"?limit={_PART}"
        items: list[CommandItem] = []
        while True:
            status, body = self.request("GET", path + query)
            if status not in _OK:
                return [CommandItem(error=_message_in(body))]
            found = decode_json(body)
            if command.name:
                return [CommandItem(found)]
            items += [CommandItem({"kind": kind.name, "apiVersion": kind.api_version, **obj}) for obj in found["items"]]
            more = found["metadata"].get("continue")
            if not more:
                return items
            query = f"?limit={_PART}&continue={quote(more, safe='')}"

    def _delete(self, command: Delete) -> list[CommandItem]:
        kind = _kind(command.kind)
        live = self._live(kind, command.namespace, command.name)
        options = {} if command.grace is None else {"gracePeriodSeconds": command.grace}
        target = _path(kind, command.namespace, command.name)
        status, body = self.request("DELETE", target, msgspec.json.encode(options))
        if status not in _OK:
            return [CommandItem(error=_message_in(body))]
        gone = self._live(kind, command.namespace, command.name) is None
        return [CommandItem(live, "deleted" if gone else "is being deleted")]

    def _item(self, work: Callable[[], list[CommandItem]]) -> list[CommandItem]:
        try:
            return work()
        except UnknownKindError as error:
            return [CommandItem(error=str(error))]

    def _connected(self, seconds: float | None) -> socket.socket:
        try:
            connection = connect_unix(self._path)
        except OSError as error:
            hint = f"{error.strerror or error}; is `cloudcore run` running, with this --socket?"
            raise ControlError("cannot reach cloudcore", str(self._path), hint) from error
        connection.settimeout(seconds)
        return connection


def _kind(word: str) -> Kind:
    return kind_called(word)


def _address(document: Any, namespace: str) -> tuple[Kind, str, str]:
    """Return kind, namespace and name of a manifest.

    Raises:
        BeehiveError, TypeError: it has no such field.
    """
    meta = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(meta, dict) or not isinstance(document.get("kind"), str):
        raise TypeError("cannot read a request: an object with apiVersion, kind and metadata is wanted")
    if not isinstance(meta.get("name"), str):
        raise TypeError(f"cannot read a request: {document['kind']}: metadata.name is missing")
    return kind_named(document["kind"]), str(meta.get("namespace") or namespace), meta["name"]


def _path(kind: Kind, namespace: str | None, name: str) -> str:
    prefix = f"/apis/{kind.api_version}" if kind.api_group else f"/api/{kind.api_version}"
    place = "default" if name and not namespace else namespace
    inside = f"/namespaces/{quote(place, safe='')}" if kind.namespaced and place else ""
    return f"{prefix}{inside}/{kind.plural}" + (f"/{quote(name, safe='')}" if name else "")


def _headers(media: str) -> list[tuple[str, str]]:
    headers = [("Host", "localhost"), ("Accept", "application/json"), ("Connection", "close")]
    return [*headers, ("Content-Type", media)] if media else headers


def _events(receive: Callable[[], bytes]) -> Iterator[tuple[str, CommandItem]]:
    """Yield the events of a watch until the server ends it, or ends itself."""
    pending = b""
    while piece := _piece(receive):
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            event = decode_json(line)
            yield event["type"], CommandItem(event["object"])


def _piece(receive: Callable[[], bytes]) -> bytes:
    with suppress(HttpError, OSError):
        return receive()
    return b""


def _outcome(live: JsonObject | None, made: JsonObject) -> str:
    if live is None:
        return "created"
    same = live["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    return "unchanged" if same else "configured"


def _message_in(body: bytes) -> str:
    try:
        return str(decode_json(body)["message"])
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
        return body.decode("utf-8", "replace")[:500]
