"""The requests to testmanager. A change is answered when metamanager has it in the store."""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive import Group, Hive, Message, ModuleName, Operation, ResourceType, Source
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, text
from metamanager.client import CallError, MetaClient
from modules.edge.testmanager.objects import (
    KINDS,
    OPERATIONS,
    Metadata,
    NamedObject,
    check_membership,
    metadata_of,
    read_object,
)
from modules.edge.testmanager.token import is_allowed

SECONDS: Final = 30.0
"""Longest wait for metamanager."""

DEVICES: Final = "devices"
_PATHS: Final = ", ".join(f"/{name}" for name in ("pods", "configmaps", "secrets", DEVICES))


class ObjectApi:
    """Serves testmanager's paths (`HttpService`).

    Args:
        hive: has metamanager and devicetwin.
        token: that clients must send.
    """

    def __init__(self, hive: Hive, token: bytes) -> None:
        self._hive = hive
        self._token = token
        self._meta = MetaClient(hive, seconds=SECONDS)

    def serve(self, request: Request) -> Response:
        """Return the response. Raises HttpStatusError."""
        if not is_allowed(self._token, request.header("authorization")):
            hint = "the header is: Authorization: Bearer TOKEN, with the token of modules.dbTest.tokenFile"
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong", hint=hint)
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
