"""FirstLists: the first read of a collection that the cloud sends only to nodes that watch it."""

import math
import select
from http import HTTPStatus
from typing import Final

import msgspec

from beehive import Clock
from beehive.decoding import decode_json
from metamanager.rows import Metadata
from modules.apimachinery.application import NAMES_ONLY, Target, Verb
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.resources import Resource
from modules.edge.metaserver.application_agent import ApplicationAgent
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache

SECONDS: Final = 2.0
"""The longest wait, for the cloud's answer and for the objects together."""
_PART: Final = 100
"""Names that are waited for; KubeEdge's cloud sends whole objects."""
_SILENCE: Final = 60.0
"""Seconds after which a cloud that has not answered is asked again: KubeEdge's may never answer."""
_MOST: Final = 64
"""Collections that are waited for: as many as a node watches."""


class _Item(msgspec.Struct):
    metadata: Metadata


class _List(msgspec.Struct):
    items: list[_Item] | None


class FirstLists:
    """The wait until the objects of a collection have arrived that a client reads for the first time: an empty list
    would pass for the truth. Without a connection, or an answer, the client gets the objects that have arrived.

    Used by several threads of the HTTP server at once.

    Args:
        cache: has the objects that have arrived.
        cloud: lists the collection.
        clock: for the wait.
    """

    def __init__(self, cache: WatchCache, cloud: ApplicationAgent, clock: Clock) -> None:
        self._cache = cache
        self._cloud = cloud
        self._clock = clock
        self._asked: dict[tuple[str, str], float] = {}
        """When the collections are asked for again, by kind and namespace, in monotonic seconds; infinity for those
        that were read.
        """

    def await_objects(self, resource: Resource, target: Target) -> None:
        """Wait until the objects of a collection have arrived, if this is its first read."""
        collection = resource.token, target.namespace
        now = self._clock.monotonic()
        if now < self._asked.get(collection, -math.inf if len(self._asked) < _MOST else math.inf):
            return
        deadline = now + SECONDS
        try:
            names = self._names(target)
        except ApiStatusError as error:
            if error.code == HTTPStatus.GATEWAY_TIMEOUT:
                self._asked[collection] = self._clock.monotonic() + _SILENCE
            return  # without a connection, the next read tries again
        wanted = {CacheKey(resource.token, each.namespace or "", each.name or "") for each in names}
        poller = select.poll()
        with self._cache.listening() as wakeup:
            poller.register(wakeup, select.POLLIN)
            self._asked[collection] = math.inf
            while any(self._cache.get(key) is None for key in wanted):
                left = deadline - self._clock.monotonic()
                if left <= 0 or not poller.poll(left * 1000):
                    return
                wakeup.clear()

    def _names(self, target: Target) -> list[Metadata]:
        """Return the first names of a collection in the cloud; none if it refuses. Raises ApiStatusError without an
        answer.
        """
        option = msgspec.json.encode({"limit": _PART, NAMES_ONLY: True})
        collection = msgspec.structs.replace(target, name="", subresource="")
        try:
            listed = decode_json(self._cloud.ask(collection, Verb.LIST, option, seconds=SECONDS), _List)
        except ApiStatusError as error:
            if error.code in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT):
                raise
            return []
        except (msgspec.DecodeError, UnicodeError):
            return []
        return [each.metadata for each in listed.items or ()]
