"""The watch of a module's custom resources at any API server."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from beehive.module import Module
from beehive.runtime import Runtime
from modules.apimachinery.kinds import JsonObject, Kind
from modules.cloud.client.kube_api import KubeApi
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Added, Deleted, Modified, Refused, Synced
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged

_log = logging.getLogger(__name__)

Connect = Callable[[Runtime], KubeApi]


class KindWatch:
    """A watch of custom resources. The embedded API server has the kinds from the start; in a cluster a person defines
    them, by a file in `deploy/`.

    Args:
        module: whose they are.
        kinds: the kinds.
        take: takes each object that there is, and each change.
        done: called when all were taken.
        connect: returns a client of the API server.
        file: the file that defines them, for the log.
    """

    def __init__(
        self,
        module: Module,
        kinds: Sequence[Kind],
        take: Callable[[ObjectChanged], None],
        done: Callable[[], None],
        connect: Connect,
        file: str,
    ) -> None:
        self._module = module
        self._kinds = kinds
        self._file = file
        self._take = take
        self._done = done
        self._connect = connect
        self._client: KubeClient | None = None
        self._refused: set[str] = set()
        self._loaded: set[str] = set()
        """The kinds whose objects are all known."""

    def start(self) -> None:
        """Begin."""
        self._client = KubeClient(self._connect(self._module.runtime), self._module, self._module.clock.random)
        for kind in self._kinds:
            self._client.watch(Selection(kind=kind), partial(self._handle, kind))

    def stop(self) -> None:
        """End all requests."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _handle(self, kind: Kind, news: News) -> None:
        match news:
            case Added() | Modified():
                self._observe(kind, news.object)
            case Deleted():
                metadata = {"namespace": news.object.namespace, "name": news.object.name}
                self._take(ObjectChanged(EventType.DELETED, _with_kind(kind, {"metadata": metadata})))
            case Synced():
                self._refused.discard(kind.plural)
                is_complete = len(self._loaded) == len(self._kinds)
                self._loaded.add(kind.key_name)
                if not is_complete and len(self._loaded) == len(self._kinds):
                    self._done()
            case Refused():
                if kind.plural not in self._refused:
                    self._refused.add(kind.plural)
                    hint = f"apply {self._file}, which has the kinds and the rights"
                    _log.warning("no %s are served: %d: %s: %s", kind.plural, news.status, news.message, hint)
            case _:
                pass

    def _observe(self, kind: Kind, observed: ObservedObject) -> None:
        try:
            obj = observed.read()
        except (msgspec.DecodeError, UnicodeError):
            _log.warning("%s %s/%s cannot be read", kind.name, observed.namespace[:253], observed.name[:253])
            return
        self._take(ObjectChanged(EventType.MODIFIED, _with_kind(kind, obj)))


def _with_kind(kind: Kind, obj: JsonObject) -> JsonObject:
    """Return an object with its kind, which the items of a list lack."""
    return {**obj, "apiVersion": kind.api_version, "kind": kind.name}
