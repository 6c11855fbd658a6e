"""Reads and writes records at the API server, one after the other for each record."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from beehive.whole_numbers import whole_number
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.records import Key, Record, call, object_name, object_of, record_in

_SECONDS: Final = 10.0
"""For an answer of the API server."""
_ATTEMPTS: Final = 8
"""Attempts to write a record that other replicas write, too."""
_HINT: Final = "deploy/cloudcore.yaml has the namespace and the rights"


class RecordChange(NamedTuple):
    """The change of a record that was read, and the answer to its requester."""

    record: Record | None = None
    """The record to write; None to write nothing."""
    answer: object = ""
    deletes: bool = False
    """Whether the record is deleted."""


class IdentityStore:
    """The changes to records for the module `identities`; all methods and callbacks are on its thread.

    A change is made of a record that was just read, and is written with its version: when another cloudcore was faster,
    it is read and changed again. A change is reported as done once it is stored durably.

    Args:
        module: the module.
        known: takes over written records.
        namespace: of the ConfigMaps.
    """

    def __init__(self, module: Module, known: KnownIdentities, namespace: str) -> None:
        self._module = module
        self._known = known
        self._namespace = namespace

    def read(self, key: Key, done: Callable[[Record | None, str], None]) -> None:
        """Read a record; `done` gets it, or None, and the reason of a failed read or ""."""

        def answered(obj: JsonObject | None, failure: str) -> None:
            done(record_in(obj) if obj is not None else None, failure)

        self._get(key, answered)

    def read_node(self, name: str, done: Callable[[JsonObject | None, str], None]) -> None:
        """Read a Node; `done` gets it, or None, and the reason of a failed read or ""."""

        def answered(result: ApiResult) -> None:
            code = _code(result)
            message = str((result.refusal or {}).get("message", ""))[:300]
            done(result.object, "" if code in (0, 404) else f"whether there is a Node {name} cannot be read: {message}")

        self._perform(ApiCall(verb="get", api_version="v1", plural="nodes", name=name), answered)

    def change(
        self,
        key: Key,
        decide: Callable[[Record | None], RecordChange],
        done: Callable[[object, str], None],
        attempts: int = _ATTEMPTS,
    ) -> None:
        """RecordChange a record.

        Args:
            key: its kind and name.
            decide: returns the change of the record that there is; may be called several times.
            done: gets the answer of the last change, and why it could not be made or "".
            attempts: after which it fails, when others keep changing it.
        """

        def read(obj: JsonObject | None, failure: str) -> None:
            if failure:
                done(None, failure)
                return
            change = decide(record_in(obj) if obj is not None else None)
            if change.deletes and obj is not None:
                version = {"preconditions": {"resourceVersion": obj["metadata"]["resourceVersion"]}}
                self._perform(
                    ApiCall(verb="delete", api_version="v1", plural="configmaps", namespace=self._namespace,
                            name=object_name(key), options=version),
                    lambda result: written(change, obj, result),
                )  # fmt: skip
            elif change.record is not None:
                verb, name = ("create", "") if obj is None else ("update", object_name(key))
                body = object_of(change.record, self._namespace, obj)
                self._perform(call(verb, self._namespace, name, body), lambda result: written(change, obj, result))
            else:  # an attempt whose answer was lost may have written it
                self._apply(key, RecordChange(record_in(obj) if obj is not None else None, deletes=obj is None), obj)
                done(change.answer, "")

        def written(change: RecordChange, before: JsonObject | None, result: ApiResult) -> None:
            code = _code(result)
            is_deleted = code == HTTPStatus.NOT_FOUND and before is not None  # of a creation: there is no namespace
            if (code == HTTPStatus.CONFLICT or is_deleted) and attempts > 1:  # another writer was faster
                self.change(key, decide, done, attempts - 1)
            elif code:
                done(None, self._failure(result))
            else:
                self._apply(key, change, result.object)
                done(change.answer, "")

        self._get(key, read)

    def _apply(self, key: Key, change: RecordChange, written: JsonObject | None) -> None:
        """Have this cloudcore act on a change before the watch tells of it."""
        if change.deletes:
            self._known.remove(key)
        elif change.record is not None:
            self._known.put(change.record, version_of(written or {}))

    def _get(self, key: Key, done: Callable[[JsonObject | None, str], None]) -> None:
        def answered(result: ApiResult) -> None:
            code = _code(result)
            done(result.object if not code else None, self._failure(result) if code not in (0, 404) else "")

        self._perform(call("get", self._namespace, object_name(key)), answered)

    def _perform(self, api_call: ApiCall, done: Callable[[ApiResult], None]) -> None:
        def answered(answer: Message | BeehiveError) -> None:
            done(answer.content_as(ApiResult) if isinstance(answer, Message) else _unanswered(answer))

        request = self._module.message(api_messages.RESOURCE, Verb.CALL, api_call)
        self._module.request(ModuleName.EDGECONTROLLER, request, _SECONDS, answered)

    def _failure(self, result: ApiResult) -> str:
        message = str((result.refusal or {}).get("message", ""))[:300]
        hint = f" ({_HINT})" if _code(result) in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND) else ""
        return f"the records of identities, in namespace {self._namespace}, cannot be changed: {message}{hint}"


def version_of(obj: JsonObject) -> int:
    """Return the version of an object, which grows with each change; 0 if it is not a number."""
    return whole_number((obj.get("metadata") or {}).get("resourceVersion")) or 0


def _unanswered(error: BeehiveError) -> ApiResult:
    return ApiResult(refusal={"code": HTTPStatus.SERVICE_UNAVAILABLE.value, "message": f"no answer: {error}"})


def _code(result: ApiResult) -> int:
    return int(result.refusal.get("code") or 500) if result.refusal is not None else 0
