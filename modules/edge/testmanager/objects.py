"""The objects in requests, and the messages that cloudcore would send for them. Pure."""

from typing import Any, Final, NamedTuple

import msgspec

from beehive import Operation, ResourceType
from beehive.decoding import decode_json
from beehive.http.errors import HttpStatusError

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
    except (msgspec.DecodeError, UnicodeError, RecursionError):
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
    for key, text in (("name", name), ("namespace", namespace)):
        if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME or not _is_name(text):
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
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HttpStatusError(400, "the body is no JSON object", hint=str(error)[:200]) from error
    if not isinstance(value, dict):
        raise HttpStatusError(400, "the body is no JSON object")
    return value


def _is_name(text: str) -> bool:
    return all(letter.isascii() and (letter.islower() or letter.isdecimal() or letter in "-.") for letter in text)
