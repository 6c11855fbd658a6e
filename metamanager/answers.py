"""Reads the answers of metamanager, and of the cloud through it. Pure.

An answer has one of these forms, by operation, source and shape (docs/protocol.md, "Forms of answers"):

- operation `error`: a text from metamanager, the cloud, or edgehub (for a message that could not leave the node);
- source `metamanager`: a list of strings, each the JSON text of a stored object;
- `{"Object": …, "Err": …}` (KubeEdge's ObjectResp);
- `{"ErrStatus": {metav1.Status}}`, or `{}`: a Go error encoded as JSON;
- `"OK"`; any other string is a refusal as text;
- otherwise the object itself.

The functions raise `CallError`, which quotes no content, because that may be a secret.
"""

from typing import Any

import msgspec

from beehive import Message, ModuleName, Operation, RequestTimeoutError, Source
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.names import OK
from metamanager.errors import (
    CallError,
    MalformedAnswerError,
    NoAnswerError,
    NotConnectedError,
    NotFoundError,
    Status,
    rejected,
)

NOT_CONNECTED = "failed to process remote: not connected"
"""Text of the error answer to a request that only the cloud can answer (KubeEdge's words)."""

CONNECTION_LOST = "connection lost between EdgeCore and CloudCore"
"""Text of the error answer to a patch while there is no connection (KubeEdge's words)."""

DELETION_NOT_STORED = "the node's database does not have the deletion yet"
"""Text of the error answer to the deletion of a pod that has ended. It is asked for again with the next statuses."""

REMOTE_TIMEOUT = "failed to process remote: no answer from the cloud"
"""Beginning of the error answer to a query that the cloud did not answer in time."""

_NOT_SENT_NOT_CONNECTED = "not connected to the cloud"
_NOT_SENT_NO_ROOM = "wait for the cloud already"
"""Texts in edgehub's error answers for the two temporary reasons; the third, a message's size, is permanent."""

_NOT_KNOWN = "whether it arrived is not known"
"""Text in edgehub's error answers to requests that were open when the link ended: the cloud may have handled them."""

_NOT_PASSED_ON = "too many answers wait for the node"
"""Text of cloudhub's error in the place of an answer that it had no room for."""

_HUB = (ModuleName.EDGEHUB, Source.EDGEHUB)

_NULL = b"null"


class _Shape(msgspec.Struct):
    """The keys that distinguish the forms of an object."""

    object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Object")
    err: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Err")
    status: Status | None = msgspec.field(default=None, name="ErrStatus")


class _GoError(msgspec.Struct):
    status: Status = msgspec.field(default_factory=Status, name="ErrStatus")


class _Metadata(msgspec.Struct):
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def read_object(answer: Message) -> bytes:
    """Return the JSON text of the one object in the answer.

    Raises:
        NotFoundError: the store has no such object.
        MalformedAnswerError: the answer has several objects, or an OK instead of an object.
        CallError: as `read_object_or_ok`.
    """
    if is_from_store(answer):
        found = read_objects(answer)
        if len(found) > 1:
            raise MalformedAnswerError("read one object from the store", _about(answer), f"{len(found)} came")
        if not found:
            status = Status(404, "NotFound", "it is not in this node's store")
            raise NotFoundError("get an object from the store", _about(answer), status)
        return found[0]
    found_object = read_object_or_ok(answer)
    if found_object is None:
        raise MalformedAnswerError("read the object of an answer", _about(answer), "the cloud answered OK without one")
    return found_object


def read_object_or_ok(answer: Message) -> bytes | None:
    """Return the JSON text of the object in the answer; None for an OK.

    Raises:
        CallError: the answer is a refusal, an error, or has another form.
    """
    if answer.route.operation == Operation.ERROR:
        raise error_in(answer)
    raw = bytes(answer.content_raw())
    if raw[:1] == b'"':
        _expect_ok(answer)
        return None
    if raw[:1] != b"{":
        raise MalformedAnswerError("read the object of an answer", _about(answer), "neither an object nor a string")
    return unwrap(answer, raw)


def read_ok(answer: Message) -> None:
    """Check that the answer is an OK or an object.

    Raises:
        CallError: as `read_object_or_ok`.
    """
    read_object_or_ok(answer)


def read_objects(answer: Message) -> list[bytes]:
    """Return the JSON texts of the objects in an answer from the store.

    Raises:
        CallError: the answer is an error, or not a list of strings.
    """
    if answer.route.operation == Operation.ERROR:
        raise error_in(answer)
    try:
        texts = answer.content_as(list[str] | None) or []  # type: ignore[arg-type]
    except BeehiveError as error:
        raise MalformedAnswerError("read a list of objects", _about(answer), "no list of strings") from error
    return [text.encode() for text in texts]


def in_namespace(objects: list[bytes], namespace: str) -> list[bytes]:
    """Return the objects of a namespace; all if it is empty."""
    return [text for text in objects if _namespace_of(text) == namespace] if namespace else objects


def is_from_store(answer: Message) -> bool:
    """Return whether metamanager itself has answered."""
    return answer.route.source == ModuleName.METAMANAGER


def is_from_hub(answer: Message) -> bool:
    """Return whether edgehub itself has answered: the request did not reach the cloud, or the answer was too large."""
    return answer.route.operation == Operation.ERROR and answer.route.source in _HUB


def unwrap(answer: Message, raw: bytes) -> bytes:
    """Return the object in an answer from the cloud, bare or in an ObjectResp.

    Raises:
        RejectedError: the answer is a Go error or an ObjectResp with `Err`.
        MalformedAnswerError: the answer is not valid JSON.
    """
    shape = _decode(answer, raw, _Shape)
    if shape.status is not None:
        raise rejected(_attempt(answer), _about(answer), shape.status)
    if len(shape.err) and bytes(shape.err) != _NULL:
        raise rejected(_attempt(answer), _about(answer), _decode(answer, bytes(shape.err), _GoError).status)
    if len(shape.object):
        return bytes(shape.object)
    if raw.strip() == b"{}":
        raise rejected(_attempt(answer), _about(answer), Status(message="the cloud failed without a reason"))
    return raw


def no_answer(error: BeehiveError, about: str) -> CallError:
    """Convert the bus's error for a request into a `CallError`."""
    if isinstance(error, RequestTimeoutError):
        return NoAnswerError("ask metamanager", about, str(error), retryable=True)
    return NoAnswerError("reach metamanager", about, str(error), retryable=True)


def error_in(answer: Message) -> CallError:
    """Convert an error answer into a `CallError`."""
    text = _text(answer)
    if text in (NOT_CONNECTED, CONNECTION_LOST) or (is_from_hub(answer) and _NOT_SENT_NOT_CONNECTED in text):
        hint = "it is answered once the connection to the cloud is back"
        return NotConnectedError(_attempt(answer), _about(answer), hint, retryable=True)
    from_hub = is_from_hub(answer)
    is_dropped = answer.route.source == ModuleName.CLOUDHUB and _NOT_PASSED_ON in text
    is_open = from_hub and (_NOT_SENT_NO_ROOM in text or _NOT_KNOWN in text)
    if text.startswith(REMOTE_TIMEOUT) or is_dropped or is_open:
        return NoAnswerError(_attempt(answer), _about(answer), text, retryable=True)
    return rejected(_attempt(answer), _about(answer), Status(message=text))


def _expect_ok(answer: Message) -> None:
    text = _text(answer)
    if text != OK:
        raise rejected(_attempt(answer), _about(answer), Status(message=text))


def _text(answer: Message) -> str:
    try:
        return answer.content_as(str)
    except BeehiveError:
        return "an error without a text"


def _namespace_of(text: bytes) -> str | None:
    try:
        return decode_json(text, _Object).metadata.namespace
    except msgspec.DecodeError:
        return None


def _decode(answer: Message, raw: bytes, kind: type[Any]) -> Any:
    try:
        return decode_json(raw, kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedAnswerError("read the object of an answer", _about(answer), str(error)) from error


def _attempt(answer: Message) -> str:
    return "get an answer from the cloud" if not is_from_store(answer) else "get an answer from metamanager"


def _about(answer: Message) -> str:
    return answer.route.resource
