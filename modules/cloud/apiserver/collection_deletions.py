"""Deletions of large collections, in parts: others' requests are served between them."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from beehive.message import Message
from beehive.module import Module
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.verbs.deletion import collection_to_delete
from modules.cloud.client.calls import ApiCall, ApiResult

PART: Final = 50
"""Objects that are deleted in one transaction: 2 to 5 ms."""


class _UnderWay(msgspec.Struct):
    message: Message
    left: Sequence[JsonObject]
    """The objects that are not deleted yet, as they were selected."""
    gone: list[JsonObject]


class CollectionDeletions:
    """Deletions of collections, in parts. Deletions that are under way take turns; other messages come between the
    parts.

    As in kube-apiserver, deleted objects stay deleted when a later one is refused.

    Args:
        module: the API server.
        cluster: its objects.
        delete: deletes objects of a request's collection in a transaction, and calls the function with the result.
    """

    def __init__(
        self,
        module: Module,
        cluster: Cluster,
        delete: Callable[[Message, Sequence[JsonObject], Callable[[ApiResult], None]], None],
    ) -> None:
        self._module = module
        self._cluster = cluster
        self._delete = delete
        self._under_way: deque[_UnderWay] = deque()

    def accept(self, message: Message, call: ApiCall) -> bool:
        """Take a request to delete a collection, if that is large; return whether it is."""
        if call.node:
            return False
        try:
            found = collection_to_delete(self._cluster, call)
        except (ApiError, ApiStatusError):
            return False  # it is refused
        if len(found) <= PART:
            return False
        self._under_way.append(_UnderWay(message, found, []))
        if len(self._under_way) == 1:
            self._module.call_soon(self._resume)
        return True

    def _resume(self) -> None:
        if self._under_way:
            first = self._under_way.popleft()
            self._under_way.append(first)
            self._delete(first.message, first.left[:PART], partial(self._deleted, first))

    def _deleted(self, under_way: _UnderWay, result: ApiResult) -> None:
        if result.object is not None:
            under_way.gone += result.object["items"]
            under_way.left = under_way.left[PART:]
            result = msgspec.structs.replace(result, object={**result.object, "items": under_way.gone})
        if result.object is None or not under_way.left:
            self._under_way.remove(under_way)
            self._module.reply(under_way.message, result)
        if self._under_way:
            self._module.call_soon(self._resume)
