"""Restores of the API server that the versions of its watches do not show."""

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, uid_of, version_of
from modules.cloud.client.calls import ApiCall, ApiResult, CallSender
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.edgecontroller.downstream_messages import SENT_BY_WATCH
from modules.cloud.edgecontroller.mirror.recent_uids import RecentUids
from modules.cloud.edgecontroller.mirror.reflectors import MIRRORED, Reflectors
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_syncs import number_of

_LIST_SECONDS: Final = 30.0
"""Seconds that all lists may take."""
_KINDS: Final = {kind.key_name: kind for kind in (*map(kind_named, (*MIRRORED, *SENT_BY_WATCH)), DEVICE, DEVICE_MODEL)}


class Restores:
    """Reads of single objects that the mirror lacks. If the API server was restored to an older state, and others have
    written as much since, a watch passes over what was made meanwhile, and old versions seem to be new. Then all is
    listed again, once for an object, which may be unreadable.

    Args:
        calls: sends the reads.
        reflectors: list and watch the objects.
        newest: the versions that were told.
        clock: of the module.
    """

    def __init__(self, calls: CallSender, reflectors: Reflectors, newest: NewestVersions, clock: Clock) -> None:
        self._calls = calls
        self._reflectors = reflectors
        self._newest = newest
        self._clock = clock
        self._doubted = RecentUids()
        """The objects for which all was listed again."""
        self._restored = RecentUids()
        """Those of them that were known when an epoch ended, because that had changed nothing."""
        self._listed_at = -math.inf
        """When all was listed again last, in monotonic seconds."""

    def confirm_end(self, key: ObjectKey, uid: str, then: Callable[[], None]) -> None:
        """Call a function if the API server does not have an object. If it has, and later changes were told, a watch
        has passed it over.
        """

        def answered(found: JsonObject | None) -> None:
            if found is None:
                self._reflectors.observe(then)
            elif not self._is_untold(key, found) and not self._is_doubted(uid):
                self._list_again(uid)

        self._read(key, uid, answered)

    def check_untold(self, key: ObjectKey, uid: str) -> None:
        """Look for an object in a version that was not told for long. If the API server does not have it, or in a
        version that was told, a watch is late, or the version was of before a restore: a list that is older shows that.
        """

        def answered(found: JsonObject | None) -> None:
            if found is not None and self._is_untold(key, found):
                return
            if not self._is_doubted(uid):
                self._list_again(uid)
            elif uid in self._doubted and self._is_listed():
                self._restored, self._doubted = self._doubted, RecentUids()
                self._reflectors.was_restored()

        self._read(key, uid, answered)

    def _read(self, key: ObjectKey, uid: str, then: Callable[[JsonObject | None], None]) -> None:
        def answered(result: ApiResult) -> None:
            found = result.object
            if found is not None:
                then(found if uid_of(found) == uid else None)
            elif (result.refusal or {}).get("code") == HTTPStatus.NOT_FOUND:
                then(None)

        kind = _KINDS.get(key.kind)
        if kind is not None:
            space = key.namespace if kind.namespaced else ""
            read = ApiCall(verb="get", api_version=kind.api_version, plural=kind.plural, namespace=space, name=key.name)
            self._calls.send(read, answered)

    def _is_untold(self, key: ObjectKey, found: JsonObject) -> bool:
        return self._newest.is_before(key.kind, number_of(version_of(found)))

    def _is_doubted(self, uid: str) -> bool:
        return uid in self._doubted or uid in self._restored

    def _list_again(self, uid: str) -> None:
        self._doubted.add(uid)
        if self._is_listed():
            self._listed_at = self._clock.monotonic()
            self._reflectors.list_again()

    def _is_listed(self) -> bool:
        return self._clock.monotonic() >= self._listed_at + _LIST_SECONDS
