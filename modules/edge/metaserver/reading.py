"""get and list, from the cache, with and without the cloud."""

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from beehive import Clock
from beehive.decoding import decode_json
from beehive.http.responses import Response, json
from metamanager.application import Target
from modules.apimachinery.errors import ApiStatusError, not_found
from modules.apimachinery.object_encoder import ObjectEncoder
from modules.apimachinery.options import ReadOptions
from modules.apimachinery.resources import Resource
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache


class _Place(NamedTuple):
    """The continue token: the last object of the previous part, and the revision of the first part."""

    revision: int
    namespace: str
    name: str


class Reader:
    """Serves get and list from the cache.

    A list in parts keeps no snapshot: each part has the present objects, and all parts have the first one's revision. A
    watch from this revision reports all changes since, so a client misses none.
    """

    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    def get(self, resource: Resource, target: Target, options: ReadOptions) -> Response:
        """Return one object. Raise ApiStatusError when the node does not have it."""
        text = self._cache.get(CacheKey(resource.token, target.namespace, target.name))
        if text is None:
            raise not_found(resource, target.name)
        return json(self._encoder(resource, options).encode_object(text))

    def list(self, resource: Resource, namespace: str, options: ReadOptions) -> Response:
        """Return the objects of a kind. Raise ApiStatusError when the list cannot be continued."""
        revision, entries = self._cache.objects(resource.token, namespace)
        if options.continued:
            place = _place(options.continued)
            if not self._cache.knows(place.revision):
                raise ApiStatusError(410, "the continue parameter is too old; list again without it")
            revision = place.revision
            entries = [each for each in entries if each[0][1:] > (place.namespace, place.name)]
        if not options.selector.selects_all:
            entries = [each for each in entries if options.selector.selects(msgspec.json.decode(each[1]))]
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        shown = entries[: options.limit] if options.limit else entries
        if len(shown) < len(entries):
            last = shown[-1][0]
            metadata["continue"] = _token(_Place(revision, last.namespace, last.name))
            metadata["remainingItemCount"] = len(entries) - len(shown)
        return json(self._encoder(resource, options).encode_list([text for _, text in shown], metadata))

    def _encoder(self, resource: Resource, options: ReadOptions) -> ObjectEncoder:
        return ObjectEncoder(resource, options.form, options.included, self._clock.now())


def _token(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place(token: str) -> _Place:
    try:
        return decode_json(base64.urlsafe_b64decode(token), _Place)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise ApiStatusError(400, "the continue parameter is not one of this server's") from error
