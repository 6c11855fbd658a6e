"""Reads the bodies of objects that the mirror keeps in part."""

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from beehive.decoding import encode_to_keep
from beehive.module import Module
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, kind_named, uid_of, version_of
from modules.cloud.client.calls import ApiCall, ApiResult, CallSender
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.edgecontroller.mirror.reflectors import Reflectors

_PAUSE: Final = 1.0
"""Seconds before a read that has failed is repeated."""
_MOST_AT_ONCE: Final = 500
"""Reads of single objects that are under way; a client's queue takes 2,000."""
_POD: Final = kind_named("Pod")
_FINAL: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)
"""Answers after which a read is not repeated: the watch tells of a deletion."""


class MissingBodies:
    """Queries of the API server for the pods of a node that connects, and for configmaps and secrets as nodes need
    them.

    An answer with another version than the mirror's is not used: the watch has not told of that version yet, and tells
    it with the body, because it is needed now.

    Args:
        bodies: of the mirror.
        downstream: knows what nodes need; sends objects as soon as they are whole.
        api: sends API calls.
        reflectors: do work in the transaction of the turn.
        module: edgecontroller.
        is_embedded: whether the API server is in the same process: then its objects are shared. Others' are kept as
            JSON, which takes a fraction of the memory.
    """

    def __init__(
        self,
        bodies: MirroredBodies,
        downstream: DownstreamController,
        api: CallSender,
        reflectors: Reflectors,
        module: Module,
        *,
        is_embedded: bool,
    ) -> None:
        self._bodies = bodies
        self._downstream = downstream
        self._api = api
        self._reflectors = reflectors
        self._module = module
        self._is_embedded = is_embedded
        self._nodes: dict[str, Callable[[], None]] = {}
        """By node whose pods are asked for, what follows."""
        self._asked: dict[ObjectKey, list[Callable[[], None]]] = {}
        """By object that is asked for, what follows."""
        self._waiting: dict[ObjectKey, None] = {}
        """Objects that are asked for later."""

    def is_missing(self, key: ObjectKey) -> bool:
        """Return whether only a part of an object is here; then its body is asked for, and the object sent."""
        if not self._bodies.is_partial(key):
            return False
        self._ask_for(key)
        return True

    def read_for(self, node: str, then: Callable[[], None]) -> None:
        """Read the objects that a connecting node needs, and call `then`: immediately if all are here. When this is
        called for the node again meanwhile, the new function replaces the earlier one.
        """
        is_under_way = node in self._nodes
        self._nodes[node] = then
        if not is_under_way:
            self._read_pods(node)

    def _read_pods(self, node: str) -> None:
        missing = set(filter(self._bodies.is_partial, self._downstream.locations.pods_of(node)))
        if not missing:
            self._read_references(node)
            return
        options: JsonObject = {"fieldSelector": f"spec.nodeName={node}"}
        version = self._downstream.newest.of(_POD.name)
        if version:  # so that the API server answers from its cache, and with nothing older than the mirror
            options["resourceVersion"] = version

        def answered(result: ApiResult) -> None:
            if result.object is None:
                self._module.after(_PAUSE, partial(self._read_again, node))
                return
            for observed in self._observed_in(result.object.get("items")):
                self._bodies.complete(_POD, observed)
            self._read_references(node)

        self._api.send(ApiCall(verb="list", api_version="v1", plural=_POD.plural, options=options), answered)

    def _read_again(self, node: str) -> None:
        self._read_pods(node)
        self._module.end_turn_soon()

    def _read_references(self, node: str) -> None:
        """Read the configmaps and secrets that the node's pods refer to. Failed reads are repeated later."""
        missing = list(filter(self._bodies.is_partial, self._downstream.locations.references_on(node)))
        left = len(missing)

        def one_ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._nodes.pop(node)()

        if not missing:
            self._nodes.pop(node)()
        for key in missing:
            self._ask_for(key, one_ended)

    def _ask_for(self, key: ObjectKey, *then: Callable[[], None]) -> None:
        if key in self._asked:
            self._asked[key].extend(then)
            return
        self._asked[key] = list(then)
        if len(self._asked) - len(self._waiting) > _MOST_AT_ONCE:
            self._waiting[key] = None
        else:
            self._get(key)

    def _get(self, key: ObjectKey) -> None:
        kind = kind_named(key.kind)
        call = ApiCall(
            verb="get", api_version=kind.api_version, plural=kind.plural, namespace=key.namespace, name=key.name
        )
        self._api.send(call, partial(self._have, kind, key))

    def _have(self, kind: Kind, key: ObjectKey, result: ApiResult) -> None:
        follow = self._asked.pop(key, [])
        for observed in self._observed_in([result.object]):
            if self._bodies.complete(kind, observed):
                self._reflectors.observe(partial(self._downstream.send_to_holders, key))
        for each in follow:
            each()
        if result.object is None and (result.refusal or {}).get("code") not in _FINAL:
            self._module.after(_PAUSE, partial(self._ask_again, key))
        if self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._get(following)

    def _ask_again(self, key: ObjectKey) -> None:
        if self._downstream.locations.nodes_of(key):
            self.is_missing(key)
            self._module.end_turn_soon()

    def _observed_in(self, items: Any) -> Iterator[ObservedObject]:
        """Yield the objects of an answer as a watch tells of them."""
        for each in items if isinstance(items, list) else ():
            metadata = each.get("metadata") if isinstance(each, dict) else None
            if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
                place = str(metadata.get("namespace") or "")
                body, shared = (b"", each) if self._is_embedded else (encode_to_keep(each), None)
                yield ObservedObject(place, metadata["name"], uid_of(each), version_of(each), body, shared)
