"""Ends objects of watched collections whose deletion the cloud did not tell this node.

The cloud has a record of the objects of each node. cloudcore loses it with the Node object or with its database, or
goes on with an older copy, and KubeEdge's cloud loses its ObjectSyncs. So the node lists each collection whenever the
cloud has agreed to its watch. A list without a resourceVersion is the API server's newest state: an object that was
stored before the request and is not listed was deleted. A cloud whose database is new may have lost objects with an
old one; of those that are younger than its database it has all.
"""

import logging
from functools import partial
from typing import Any, Final

import msgspec

from beehive import BeehiveError, Group, Message, Module, ModuleName, Operation, Resource, Timer
from beehive.decoding import decode_json
from metamanager.client import AsyncMetaClient, CallError
from metamanager.pod_list import BYTES_A_SECOND
from metamanager.rows import Metadata
from modules.apimachinery.application import NAMES_ONLY, ListMetadata, Target, Verb, application, message_of
from modules.apimachinery.errors import ApiStatusError
from modules.edge.metaserver.application_agent import CLOUD_SECONDS, read_answer
from modules.edge.metaserver.resources import find

_log = logging.getLogger(__name__)

PART: Final = 100
"""Objects of a part of a list: KubeEdge's cloud sends them whole, and the link takes 16 MiB at most."""
MOST_PARTS: Final = 1000
"""Parts of a list: a cloud may say of each that another one follows."""
SPREAD: Final = 30.0
"""Seconds over which the lists of nodes that connect together are spread: the lists of 300 Services and as many
EndpointSlices take 6 ms of the cloud's processor.
"""
FIRST_DELAY: Final = 30.0
"""Seconds after which a list is requested again that the cloud does not give; the delay doubles."""
LONGEST_DELAY: Final = 3600.0


class StoredMetadata(Metadata, frozen=True, rename="camel"):
    """The metadata of a stored object, as far as they say whether the cloud has made it."""

    creation_timestamp: Any = None


class _Head(msgspec.Struct):
    metadata: StoredMetadata | None = None


Rows = dict[tuple[str, str], StoredMetadata]
"""The metadata of stored objects by namespace and name."""


class _Item(msgspec.Struct):
    metadata: Metadata


class _List(msgspec.Struct):
    items: list[_Item] | None
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)


class StaleObjects:
    """The comparison of stored objects with the cloud's lists, which take `BYTES_A_SECOND` of the link on average; it
    deletes those that a complete list lacks. Nothing is deleted after a refusal, silence, or an incomplete list.

    Args:
        module: metaserver.
        node: name of this node.
    """

    def __init__(self, module: Module, node: str) -> None:
        self._module = module
        self._node = node
        self._meta = AsyncMetaClient(module)
        self._timers: dict[Target, Timer] = {}
        self._delays: dict[Target, float] = {}
        """Delays of lists that the cloud has not given."""
        self._not_before = float("-inf")
        """Earliest time of the next list, in monotonic seconds."""

    def end(self, target: Target) -> None:
        """End the stale objects of a collection that the cloud has begun to send, within `SPREAD` seconds or later."""
        clock = self._module.clock
        self._schedule(target, max(clock.random.uniform(0.0, SPREAD), self._not_before - clock.monotonic()))

    def _schedule(self, target: Target, seconds: float) -> None:
        if (earlier := self._timers.get(target)) is not None:
            earlier.cancel()
        self._timers[target] = self._module.after(seconds, partial(self._read_store, target))

    def _read_store(self, target: Target) -> None:
        resource = find(target.group, target.version, target.plural)
        if resource is not None:
            self._meta.list_all(resource.token, target.namespace, then=partial(self._ask, target, resource.token))

    def _ask(self, target: Target, kind: str, stored: list[bytes] | CallError) -> None:
        if isinstance(stored, CallError):
            self._try_later(target, stored)
        elif rows := rows_of(stored):
            self._ask_part(target, kind, rows, "", 1)

    def _ask_part(self, target: Target, kind: str, rows: Rows, token: str, part: int) -> None:
        option = msgspec.json.encode({"limit": PART, "continue": token, NAMES_ONLY: True})
        request = message_of(application(target, Verb.LIST, self._node, option), self._module.clock)
        add = partial(self._add_part, target, kind, rows, part)
        self._module.request(ModuleName.EDGEHUB, request, CLOUD_SECONDS, add)

    def _add_part(self, target: Target, kind: str, rows: Rows, part: int, answer: Message | BeehiveError) -> None:
        try:
            if not isinstance(answer, Message):
                raise answer
            listed = decode_json(read_answer(answer), _List)
            if listed.metadata.continued and part >= MOST_PARTS:
                raise BeehiveError(f"the list has more than {MOST_PARTS} parts")
        except (BeehiveError, ApiStatusError, msgspec.DecodeError, UnicodeError) as error:
            self._try_later(target, error)
            return
        self._delays.pop(target, None)
        begin = max(self._not_before, self._module.clock.monotonic())
        self._not_before = begin + len(answer.content_bytes()) / BYTES_A_SECOND
        for item in listed.items or ():
            rows.pop(_name_of(item.metadata), None)
        if rows and listed.metadata.continued:
            self._ask_part(target, kind, rows, listed.metadata.continued, part + 1)
        elif not listed.metadata.continued:
            for (namespace, name), stored in rows.items():
                if _is_deleted(stored, listed.metadata):
                    self._delete(Resource.of(kind, namespace, name), stored.uid or "")

    def _delete(self, resource: Resource, uid: str) -> None:
        """Delete an object as if the cloud had; another one of its name stays."""
        _log.warning("%s: the cloud has deleted it without telling this node; it ends", resource)
        deletion = self._module.message(
            str(resource), Operation.DELETE, {"metadata": {"name": resource.name, "uid": uid}}, group=Group.RESOURCE
        )
        self._module.send(ModuleName.METAMANAGER, deletion)

    def _try_later(self, target: Target, error: Exception) -> None:
        delay = self._delays.get(target, FIRST_DELAY)
        self._delays[target] = min(2 * delay, LONGEST_DELAY)
        _log.info("%s are not compared with the cloud's yet: %s", target.plural, str(error)[:200])
        self._schedule(target, delay)


def rows_of(stored: list[bytes]) -> Rows:
    """Return the objects of the store that have a uid."""
    heads = map(_head_of, stored)
    return {
        _name_of(head): head
        for head in heads
        if head.uid and head.name and "/" not in f"{head.namespace or ''}{head.name}"
    }


def _head_of(content: bytes) -> StoredMetadata:
    try:
        return decode_json(content, _Head).metadata or StoredMetadata()
    except (msgspec.DecodeError, UnicodeError):
        return StoredMetadata()


def _is_deleted(stored: StoredMetadata, listed: ListMetadata) -> bool:
    """Return whether an object that a list lacks was deleted."""
    return listed.is_end or (
        listed.known_since is not None
        and listed.known_since.is_before(stored.creation_timestamp, stored.resource_version)
    )


def _name_of(head: Metadata) -> tuple[str, str]:
    return head.namespace or "", head.name or ""
