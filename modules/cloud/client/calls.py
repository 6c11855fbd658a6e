"""Requests of the Kubernetes API, whatever carries them: the embedded API server or HTTP."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

JsonObject = dict[str, Any]

STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

WATCH: Final = "watch"
"""Verb of the call that begins a node's watch; its events are messages to the node."""
UNWATCH: Final = "unwatch"
"""Verb of the call that ends all watches of a node; not one of Kubernetes' verbs."""
DOCUMENT: Final = "document"
"""Verb of the call that reads a document of discovery or OpenAPI, whose path is the name; not one of Kubernetes'."""
MOST_WATCHES: Final = 64
"""Watches of one node. Equal ones count once."""
_WRITES: Final = ("create", "update", "updatestatus", "patch", "delete", "deletecollection")


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One API request."""

    verb: str
    """get, list, create, update, updatestatus, patch, delete or deletecollection."""
    api_version: str
    plural: str
    namespace: str = ""
    """Empty: a cluster-scoped kind, or all namespaces."""
    name: str = ""
    subresource: str = ""
    patch_type: str = ""
    """The media type of a patch."""
    options: JsonObject = {}
    """GetOptions, ListOptions, DeleteOptions and so on."""
    body: Any = None
    duplicates: tuple[str, ...] = ()
    """A sentence for each field that the text of the body has twice."""
    document: bytes = b""
    """The text of the body, if that is JSON and has a field twice: unknown fields are reported in its order."""
    size: int = 0
    """About the bytes of the body as JSON, if that is known."""
    is_passed_on: bool = False
    """Whether the object in the answer is passed on, and only its metadata are looked at: its spec and its status may
    stay JSON text (`msgspec.Raw`).
    """
    fence: str = ""
    """The cloudcore that must be running the controllers when the call is made, as their Lease names it; "" is no
    condition.
    """
    node: str = ""
    """The node whose metaserver makes the request, known from its connection; "" is an administrator."""
    user: str = ""
    """The user whom RBAC has allowed the request, and who grants no rights that they do not have; "" is an
    administrator or a node."""
    groups: tuple[str, ...] = ()
    """Of the user, or of the administrator who is the author."""
    uid: str = ""
    """Of the user."""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further facts about the user, by name."""
    author: str = ""
    """The user that the change journal names for a write that was authorized before: an administrator, or a node
    whose write edgecontroller has authorized; "" is `user`, `node`, or cloudcore itself.
    """
    message_id: str = ""
    """Of the message that creates an object: the embedded API server takes it again after a lost transaction, which may
    have been committed. "" is a call that is made once.
    """


class ApiCalls(msgspec.Struct, frozen=True):
    """Requests that share a message to the embedded API server: a message, an answer and a timer for each would cost
    more than it.
    """

    calls: tuple[ApiCall, ...]


class ApiResult(msgspec.Struct, frozen=True):
    """The response to an API request."""

    object: JsonObject | None = None
    refusal: JsonObject | None = None
    """The metav1.Status of an error."""
    created: bool = False
    """Whether the request has created the object (201 instead of 200)."""
    warnings: tuple[str, ...] = ()
    """Warnings for the person who made the request."""


Answered = Callable[[ApiResult], None]
"""Takes the result of an API call."""
Perform = Callable[[ApiCall, Answered], None]
"""Makes an API call; the result may come before it returns, or later."""


class CallSender(Protocol):
    """A sender of API calls by requests."""

    def send(self, call: ApiCall, answered: Answered, node: str = "") -> None:
        """Send a call, of a node if one is named; the result may come before this returns, or later."""


def is_write(call: ApiCall) -> bool:
    """Return whether a call changes an object; a token is no object."""
    return call.verb in _WRITES and not (call.verb == "create" and call.subresource)
