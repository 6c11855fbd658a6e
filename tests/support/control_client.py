"""A client of the control socket that makes, reads and deletes objects, and returns what becomes of each."""

from collections.abc import Callable
from typing import Any

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import JsonObject, Kind, kind_called, kind_named
from modules.cli.rest import APPLY_PATCH, object_path
from modules.cloud.apiserver.manifests import items_of
from modules.processes.cloudcore import control_client
from modules.processes.cloudcore.errors import ApiRefusedError


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


class ControlClient(control_client.ControlClient):
    """The product's client, for objects, too."""

    def run(self, command: Apply | Get | Delete) -> list[CommandItem]:
        """Carry out a command, and return its items.

        Raises:
            ControlError: cloudcore does not run, or does not answer.
        """
        match command:
            case Apply(documents, namespace):
                return [_item(lambda: self._apply(each, namespace))[0] for each in items_of(documents)]  # noqa: B023
            case Get():
                return _item(lambda: self._get(command))
            case Delete():
                return _item(lambda: [self._delete(command)])

    def _apply(self, document: Any, namespace: str) -> list[CommandItem]:
        meta = document["metadata"]
        path = _path(kind_named(document["kind"]), str(meta.get("namespace") or namespace), meta["name"])
        live = self._live(path)
        body = msgspec.json.encode(document)
        status, answer = self.request("PATCH", f"{path}?fieldManager=cloudcore&force=true", body, APPLY_PATCH)
        made = _made(status, answer, path)
        same = live is not None and live["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        return [CommandItem(made, "created" if live is None else "unchanged" if same else "configured")]

    def _get(self, command: Get) -> list[CommandItem]:
        kind = kind_called(command.kind)
        if command.name:
            return [CommandItem(self.call("GET", _path(kind, command.namespace, command.name)))]
        return [CommandItem(each) for each in self.objects(kind.name, command.namespace or "")]

    def _delete(self, command: Delete) -> CommandItem:
        path = _path(kind_called(command.kind), command.namespace, command.name)
        live = self._live(path)
        self.call("DELETE", path, {} if command.grace is None else {"gracePeriodSeconds": command.grace})
        return CommandItem(live, "deleted" if self._live(path) is None else "is being deleted")

    def _live(self, path: str) -> JsonObject | None:
        status, body = self.request("GET", path)
        return decode_json(body) if status == 200 else None


def _made(status: int, body: bytes, path: str) -> JsonObject:
    if status >= 300:
        raise ApiRefusedError("the API server refuses", path, control_client.message_in(body))
    made: JsonObject = decode_json(body)
    return made


def _path(kind: Kind, namespace: str | None, name: str) -> str:
    return object_path(kind, namespace or "default", name)


def _item(work: Callable[[], list[CommandItem]]) -> list[CommandItem]:
    try:
        return work()
    except ApiRefusedError as error:
        return [CommandItem(error=error.hint)]
    except UnknownKindError as error:
        return [CommandItem(error=str(error))]
