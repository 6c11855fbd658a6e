"""A request of an edge, as the functions that answer it see it: no bus in it."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from beehive.errors import ContentError
from beehive.message import Message
from beehive.resource import NULL_NAMESPACE, Resource, Side
from modules.edgecontroller.answers import Answer
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.downstream import Downstream
from modules.edgecontroller.errors import BadRequestError, TooLargeError
from modules.edgecontroller.kinds import JsonObject, Kind, ObjectKey, key_for
from modules.edgecontroller.limits import is_too_large
from modules.edgecontroller.shapes import check_form, without_null_members

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """Who asks for what."""

    node: str
    namespace: str
    name: str
    message: Message
    manifests_loaded: bool = True
    """The store holds all that it should: an object that is not in it is really gone."""

    @classmethod
    def of(cls, message: Message, *, manifests_loaded: bool) -> "Request":
        """The request in an upstream message, whose resource cloudhub has prefixed with the node.

        Raises:
            ResourceError: the resource is not of the cloud's form.
            TooLargeError: the content is more than is looked at.
        """
        if isinstance(message.content, msgspec.Raw) and is_too_large(message.content):
            raise TooLargeError
        resource = Resource.parse(message.route.resource, Side.CLOUD)
        return cls(resource.node, resource.namespace, resource.name, message, manifests_loaded)

    def key(self, kind: Kind) -> ObjectKey:
        """The key of the object that the resource names; `null` stands for no namespace."""
        return key_for(kind, "" if self.namespace == NULL_NAMESPACE else self.namespace, self.name)

    def content_as(self, kind: type[T]) -> T:
        """The decoded content.

        Raises:
            ContentError: it is not of that type.
        """
        return self.message.content_as(kind)

    def plain_content(self) -> Any:
        """The content as plain JSON, whatever it is.

        Raises:
            ContentError: it is not JSON.
        """
        content = self.message.content
        if not isinstance(content, msgspec.Raw):
            return content
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ContentError("cannot read a request", self.message.route.resource, str(error)) from error

    def object(self, kind: Kind) -> JsonObject:
        """The content as an object of the kind; Go clients leave kind and apiVersion out, and the name is
        the resource's.

        Raises:
            ContentError: the content is not an object.
            BadRequestError: it is not of the kind's form, or its metadata is for another name.
        """
        content: dict[str, Any] = without_null_members(self.content_as(dict))
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
        check_form(obj)
        return obj


Result = Answer | Downstream
Handling = Callable[[Cluster, Request], list[Result]]
"""What answers a request: the answers and messages to send; the store's changes speak for themselves."""
