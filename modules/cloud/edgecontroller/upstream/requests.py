"""Upstream requests of nodes, independent of the bus."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from beehive.decoding import decode_json
from beehive.errors import ContentError
from beehive.message import Message
from beehive.resource import NULL_NAMESPACE, Resource, Side
from modules.apimachinery.api_errors import BadRequestError, TooLargeError
from modules.apimachinery.application import KnownSince
from modules.apimachinery.conversion import validate_schema, without_null_members
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_for
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES, is_too_large
from modules.cloud.client.calls import ApiCall
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage

T = TypeVar("T")


def _true() -> bool:
    return True


def _nothing() -> KnownSince | None:
    return None


class UpstreamRequest(msgspec.Struct, frozen=True):
    """A request or report of a node, with its object's namespace and name."""

    node: str
    namespace: str
    name: str
    message: Message
    knows_all: Callable[[], bool] = _true
    """Returns whether the storage is complete, so that a missing object was deleted."""
    known_since: Callable[[], KnownSince | None] = _nothing
    """Returns what a missing object must be younger than to have been deleted otherwise; None: nothing is known."""
    now: float = 0.0
    """Seconds since the epoch."""

    @classmethod
    def of(
        cls,
        message: Message,
        *,
        knows_all: Callable[[], bool],
        known_since: Callable[[], KnownSince | None],
        now: float,
    ) -> "UpstreamRequest":
        """Return the request in an upstream message, to whose resource cloudhub has added the node.

        Raises:
            ResourceError: the resource does not have the cloud's form.
            TooLargeError: the content is too large.
        """
        content = message.content
        is_long = isinstance(content, msgspec.Raw) and len(content) > NODE_VALUES  # each value has a byte
        if is_long and is_too_large(content, NODE_VALUES):
            raise TooLargeError(NODE_LIMIT)
        resource = message.subject_on_cloud
        if not resource.type:
            Resource.parse(message.route.resource, Side.CLOUD)
        return cls(resource.node, resource.namespace, resource.name, message, knows_all, known_since, now)

    def key(self, kind: Kind) -> ObjectKey:
        """Return the key of the object that the resource names; `null` means no namespace."""
        return key_for(kind, "" if self.namespace == NULL_NAMESPACE else self.namespace, self.name)

    def plain_content(self) -> Any:
        """Return the content as plain JSON of any type.

        Raises:
            ContentError: it is not JSON.
        """
        content = self.message.content
        if not isinstance(content, msgspec.Raw):
            return content
        try:
            return decode_json(content)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ContentError("cannot read a request", self.message.route.resource, str(error)) from error

    def object(self, kind: Kind) -> JsonObject:
        """Return the content as an object of a kind, with kind and apiVersion, which Go clients omit, and the name of
        the resource.

        Raises:
            ContentError: the content is not an object.
            BadRequestError: it does not have the kind's schema, or has another name.
        """
        content: dict[str, Any] = without_null_members(self.message.content_as(dict))
        key = self.key(kind)
        meta = content.get("metadata") or {}
        if not isinstance(meta, dict):
            raise BadRequestError(f"{kind.name}: metadata: an object is wanted")
        meta = dict(meta)
        if meta.setdefault("name", key.name) != key.name:
            raise BadRequestError(f"the name of the object ({meta['name']!r}) is not the resource's ({key.name!r})")
        meta.pop("creationTimestamp", None)
        if key.namespace:
            meta["namespace"] = key.namespace
        obj = {**content, "kind": kind.name, "apiVersion": kind.api_version, "metadata": meta}
        validate_schema(obj)
        return obj


UpstreamResult = UpstreamResponse | DownstreamMessage
Steps = Generator[ApiCall, JsonObject, T]
"""A procedure that yields requests of the Kubernetes API, and goes on with the object in the response of each.

A refused request raises a `RefusedError` at its `yield`.
"""
UpstreamHandler = Callable[[UpstreamRequest], Steps[list[UpstreamResult]]]
"""Handles a request, and returns the responses and messages to send; changes of objects are sent by the watch."""
