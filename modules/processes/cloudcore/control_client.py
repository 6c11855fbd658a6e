"""The client of the control socket: cloudcore's own facts, and objects of the Kubernetes API."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.client import ClientExchange
from beehive.sockets.unix_sockets import connect_unix
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cli.list_parts import list_parts
from modules.cli.rest import object_path
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.identities.messages import Identities
from modules.cloud.identities.records import Record
from modules.cloud.messages import Cloudcores, LinkQuery, LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery, place_of
from modules.processes.cloudcore.control_service import (
    ApiPorts,
    AuditState,
    LinksResponseBody,
    NodesResponseBody,
    ServedBundles,
)
from modules.processes.cloudcore.errors import ApiRefusedError, ControlError
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


class ControlClient:
    """A client of a running cloudcore over its control socket.

    Args:
        path: the control socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

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
            raise ControlError(attempt, message_in(body))
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
            raise ControlError("cannot read the connections of nodes", message_in(body))
        return decode_json(body, NodesResponseBody)

    def cloudcores(self) -> Cloudcores:
        """Return the cloudcores that are alive, and the nodes that each has.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        status, body = self.request("GET", "/cloudcore/cloudcores")
        if status not in _OK:
            raise ControlError("cannot read which cloudcores are alive", message_in(body))
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

    def bundles(self) -> ServedBundles:
        """Return the versions of edgecore that nodes may fetch. Raises ControlError."""
        return decode_json(self._own("GET", "bundles", None, "cannot read which versions are served"), ServedBundles)

    def audit(self) -> AuditState:
        """Return the state of the audit log. Raises ControlError."""
        return decode_json(self._own("GET", "audit", None, "cannot read the state of the audit log"), AuditState)

    def objects(self, kind: str, namespace: str = "") -> list[JsonObject]:
        """Return the objects of a kind: of one namespace, or of all. Raises ApiRefusedError for a refusal."""
        found = kind_named(kind)
        path = object_path(found, namespace)
        parts = list_parts(lambda query: self.call("GET", f"{path}?{urlencode(query)}"), _PART)
        return [{"kind": found.name, "apiVersion": found.api_version, **obj} for part in parts for obj in part["items"]]

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
        """Return the object with which the Kubernetes API answers a request. Raises ApiRefusedError for a refusal."""
        status, body = self.request(method, path, b"" if obj is None else msgspec.json.encode(obj))
        if status not in _OK:
            raise ApiRefusedError("the API server refuses", path, message_in(body))
        answer: JsonObject = decode_json(body)
        return answer

    def _connected(self, seconds: float | None) -> socket.socket:
        try:
            connection = connect_unix(self._path)
        except OSError as error:
            hint = f"{error.strerror or error}; is `cloudcore run` running, with this --socket?"
            raise ControlError("cannot reach cloudcore", str(self._path), hint) from error
        connection.settimeout(seconds)
        return connection


def _headers(media: str) -> list[tuple[str, str]]:
    headers = [("Host", "localhost"), ("Accept", "application/json"), ("Connection", "close")]
    return [*headers, ("Content-Type", media)] if media else headers


def message_in(body: bytes) -> str:
    """Return the message of an answer that is no object."""
    try:
        return str(decode_json(body)["message"])
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
        return body.decode("utf-8", "replace")[:500]
