"""The module testManager: an HTTP server on the node under test through which a test creates objects."""

import logging
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive import Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Source, handles
from beehive.decoding import decode_json
from beehive.http.errors import HttpStatusError
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, text
from beehive.http.router import Admitted, AdmittingService
from metamanager.client import CallError, MetaClient
from modules.edge.testmanager.token import is_allowed, read_token

_log = logging.getLogger(__name__)

ADDRESS: Final = "127.0.0.1"
"""KubeEdge listens on all addresses, without a token."""

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest object in a request, in bytes (an API server's limit)."""

KINDS: Final = {
    "pods": ResourceType.POD,
    "configmaps": ResourceType.CONFIGMAP,
    "configmap": ResourceType.CONFIGMAP,
    "secrets": ResourceType.SECRET,
    "secret": ResourceType.SECRET,
}
"""Resource types by the paths; KubeEdge has `/configmap` and `/secret`."""
OPERATIONS: Final = {"POST": Operation.INSERT, "PUT": Operation.UPDATE, "DELETE": Operation.DELETE}
"""Operations of the messages by the methods of the requests."""
_LONGEST_NAME: Final = 253
SECONDS: Final = 30.0
"""Longest wait for metamanager."""
DEVICES: Final = "devices"


class ManagerSettings(msgspec.Struct, frozen=True):
    """Settings of testmanager."""

    token_file: Path
    port: int


class NodeTestManager(Module):
    """The module that serves the HTTP API while it runs (KubeEdge's `testManager`). No module sends it messages.

    It belongs to no group: KubeEdge's is in `meta`, and receives each object of the cloud beside metamanager.

    Args:
        settings: of testmanager.
    """

    name = ModuleName.TESTMANAGER

    def __init__(self, settings: ManagerSettings) -> None:
        super().__init__()
        self._settings = settings
        self._server: HttpServer | None = None

    def on_start(self) -> None:
        """Start to serve. A ServerError fails the start."""
        token = read_token(self._settings.token_file)
        listening = listen_tcp(ADDRESS, self._settings.port, "modules.dbTest.port")
        self._server = HttpServer(listening, ObjectApi(self.hive, token), self.clock, max_body=MAX_BODY)
        self._server.start()
        _log.warning("testmanager takes pods at http://%s:%d from whoever has the token in %s",
                     ADDRESS, self._server.port, self._settings.token_file)  # fmt: skip

    def on_end(self) -> None:
        """Close the port; a restarted module opens it again."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    @handles()
    def ignore(self, message: Message) -> None:
        """Log a message; none is expected."""
        _log.warning("not for testmanager: %s %s", message.route.operation, message.route.resource[:200])


class NamedObject(NamedTuple):
    """The identity of an object."""

    kind: str
    namespace: str
    name: str
    uid: str
    """Empty if the request names none."""

    @property
    def resource(self) -> str:
        """The resource of a message about it."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    def is_in(self, metadata: "Metadata") -> bool:
        """Return whether an object with this metadata has this name."""
        return (metadata.namespace or "default", metadata.name) == (self.namespace, self.name)


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a stored object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()


def metadata_of(row: bytes) -> Metadata:
    """Return the metadata of a stored object; empty if it cannot be read."""
    try:
        return decode_json(row, _Object).metadata
    except (msgspec.DecodeError, UnicodeError):
        return Metadata()


def read_object(kind: str, body: bytes) -> tuple[NamedObject, dict[str, Any]]:
    """Return the object in a body, with `default` as its namespace unless it has one.

    Raises:
        HttpStatusError: 400 for a body that is not an object with a name.
    """
    value = _json(body)
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        raise HttpStatusError(
            400, "the object has no metadata", hint='{"metadata":{"name":"web"},"spec":{…}} is wanted'
        )
    namespace = metadata.get("namespace") or "default"
    name, uid = metadata.get("name"), metadata.get("uid") or ""
    for key, field in (("name", name), ("namespace", namespace)):
        if not isinstance(field, str) or not 0 < len(field) <= _LONGEST_NAME or not _is_name(field):
            hint = "lower case letters, digits, - and ., at most 253"
            raise HttpStatusError(400, f"metadata.{key} is no name", hint=hint)
    if not isinstance(uid, str) or len(uid) > _LONGEST_NAME or not uid.isprintable():
        raise HttpStatusError(400, "metadata.uid is no text", hint="leave it out: an object without one gets one")
    assert isinstance(name, str)  # noqa: S101 - checked above
    return NamedObject(kind, str(namespace), name, uid), {**value, "metadata": {**metadata, "namespace": namespace}}


def check_membership(body: bytes) -> None:
    """Check KubeEdge's message about devices. Raises HttpStatusError with 400 for any other body."""
    value = _json(body)
    lists = [value.get(key) for key in ("added_devices", "removed_devices")]
    if not any(isinstance(one, list) for one in lists) or not all(
        one is None or isinstance(one, list) for one in lists
    ):
        hint = '{"added_devices":[{"id":"default/thermo","name":"thermo"}]} or "removed_devices"'
        raise HttpStatusError(400, "the body names no devices", hint=hint)


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = decode_json(body, Any)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise HttpStatusError(400, "the body is no JSON object", hint=str(error)[:200]) from error
    if not isinstance(value, dict):
        raise HttpStatusError(400, "the body is no JSON object")
    return value


def _is_name(text: str) -> bool:
    return all(letter.isascii() and (letter.islower() or letter.isdecimal() or letter in "-.") for letter in text)


_PATHS: Final = ", ".join(f"/{name}" for name in ("pods", "configmaps", "secrets", DEVICES))


class ObjectApi(AdmittingService):
    """The service of testmanager's paths (`HttpService`).

    Args:
        hive: has metamanager and devicetwin.
        token: that clients must send.
    """

    def __init__(self, hive: Hive, token: bytes) -> None:
        self._hive = hive
        self._token = token
        self._meta = MetaClient(hive, seconds=SECONDS)

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`. Raise HttpStatusError without the token."""
        if not is_allowed(self._token, request.header("authorization")):
            hint = "the header is: Authorization: Bearer TOKEN, with the token of modules.dbTest.tokenFile"
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong", hint=hint)
        return Admitted(self._response)

    def _response(self, request: Request) -> Response:
        """Return the response to the owner of the token. Raises HttpStatusError."""
        path = request.parts[0] if len(request.parts) == 1 else ""
        if path == DEVICES:
            return self._devices(request)
        if path not in KINDS:
            raise HttpStatusError(HTTPStatus.NOT_FOUND, "nothing is served here", hint=f"there is {_PATHS}")
        kind = KINDS[path]
        if request.method == "GET" and kind == ResourceType.POD:
            return self._list(kind)
        return self._change(kind, _operation(request), request.body)

    def _devices(self, request: Request) -> Response:
        operation = _operation(request)
        check_membership(request.body)
        self._send(ModuleName.DEVICETWIN, ResourceType.MEMBERSHIP, operation, request.body, Source.EDGE_MANAGER)
        return text(HTTPStatus.ACCEPTED, "")

    def _list(self, kind: str) -> Response:
        items = [msgspec.Raw(row) for row in self._rows(kind)]
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return Response(HTTPStatus.OK, "application/json", msgspec.json.encode(listed))

    def _change(self, kind: str, operation: Operation, body: bytes) -> Response:
        identity, obj = read_object(kind, body)
        stored = self._stored(identity)
        if operation is not Operation.INSERT and stored is None:
            raise HttpStatusError(HTTPStatus.NOT_FOUND, f"the node has no {identity.resource}", hint="POST creates it")
        uid = identity.uid or (stored.uid if stored is not None else self._hive.clock.new_id())
        obj["metadata"]["uid"] = uid
        version = str(obj["metadata"].get("resourceVersion") or "")
        self._send(ModuleName.METAMANAGER, identity.resource, operation, obj, ModuleName.EDGECONTROLLER, version)
        return self._answer(identity, operation, obj, self._stored(identity))

    def _answer(
        self, identity: NamedObject, operation: Operation, obj: dict[str, Any], stored: Metadata | None
    ) -> Response:
        """Return the answer, according to the store's content after the change."""
        mine = stored is not None and stored.uid == obj["metadata"]["uid"]
        if operation is Operation.DELETE:
            if mine:
                hint = "it has another uid or a newer version"
                raise HttpStatusError(HTTPStatus.CONFLICT, f"the node keeps {identity.resource}", hint=hint)
            return text(HTTPStatus.ACCEPTED, "")
        wanted = str(obj["metadata"].get("resourceVersion") or "")
        if stored is None or not mine or stored.resource_version != wanted:
            hint = "a greater metadata.resourceVersion is wanted, or none in all of its states; the log may say more"
            raise HttpStatusError(
                HTTPStatus.CONFLICT, f"the node does not take this state of {identity.resource}", hint=hint
            )
        status = HTTPStatus.CREATED if operation is Operation.INSERT else HTTPStatus.OK
        return Response(status, "application/json", msgspec.json.encode(obj))

    def _stored(self, identity: NamedObject) -> Metadata | None:
        found = (metadata_of(row) for row in self._rows(identity.kind))
        return next((one for one in found if identity.is_in(one)), None)

    def _rows(self, kind: str) -> list[bytes]:
        """Return the stored objects of a kind, after all changes that were sent before."""
        try:
            return self._meta.list_all(kind)
        except CallError as error:
            hint = f"metamanager does not answer: {error}"
            raise HttpStatusError(HTTPStatus.SERVICE_UNAVAILABLE, "the store cannot be read", hint=hint) from error

    def _send(
        self, module: ModuleName, resource: str, operation: Operation, content: Any, source: str, version: str = ""
    ) -> None:
        group = Group.RESOURCE if module == ModuleName.METAMANAGER else Group.TWIN
        fields = {"source": source, "resource": resource, "operation": operation, "group": group}
        self._hive.send(module, Message.new(self._hive.clock, content=content, resourceversion=version, **fields))


def _operation(request: Request) -> Operation:
    if request.method not in OPERATIONS:
        raise HttpStatusError(
            HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not served", hint=", ".join(OPERATIONS)
        )
    return OPERATIONS[request.method]
