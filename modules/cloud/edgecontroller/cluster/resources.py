"""The resources of a cluster that edgecontroller does not know from the start, by discovery."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from modules.apimachinery.kinds import Kind
from modules.cloud.client.calls import DOCUMENT, ApiCall, ApiResult, CallSender

_MOST_VERSIONS: Final = 64
"""Versions of groups that are remembered; the one that was read longest ago is forgotten."""
_MOST_RESOURCES: Final = 1000
"""Resources of one version that are looked at."""
_KNOWN_SECONDS: Final = 600.0
_UNKNOWN_SECONDS: Final = 10.0
"""How long it counts that a version has a resource, and that it has it not: it may be defined at any time."""

Found = Callable[[Kind | None, str], None]
"""Takes the kind of a resource; None with the reason when the API server has no such resource, or does not answer."""


class _Version(msgspec.Struct, frozen=True):
    asked: float
    """Monotonic seconds."""
    kinds: dict[str, Kind]
    """By plural."""


class ClusterResources:
    """The resources of a version, requested from the API server when one is needed that is not known.

    Args:
        api: sends calls.
        clock: for the age of answers.
    """

    def __init__(self, api: CallSender, clock: Clock) -> None:
        self._api = api
        self._now = clock.monotonic
        self._versions: dict[str, _Version] = {}

    def find(self, api_version: str, plural: str, found: Found) -> None:
        """Find the kind of a resource.

        Args:
            api_version: with a group: `kitchen.example/v1`.
            plural: as in paths.
            found: called once, perhaps before this returns.
        """
        known = self._versions.get(api_version)
        age = self._now() - known.asked if known is not None else 0.0
        if known is not None and age < (_KNOWN_SECONDS if plural in known.kinds else _UNKNOWN_SECONDS):
            found(known.kinds.get(plural), "the server could not find the requested resource")
            return

        def answered(result: ApiResult) -> None:
            found(*self._handle_discovery(api_version, plural, result))

        self._api.send(ApiCall(verb=DOCUMENT, api_version="", plural="", name=f"apis/{api_version}"), answered)

    def _handle_discovery(self, api_version: str, plural: str, result: ApiResult) -> tuple[Kind | None, str]:
        if result.object is None and (result.refusal or {}).get("code") != HTTPStatus.NOT_FOUND:
            return None, str((result.refusal or {}).get("message"))
        self._versions.pop(api_version, None)
        while len(self._versions) >= _MOST_VERSIONS:
            del self._versions[next(iter(self._versions))]
        kinds = {kind.plural: kind for kind in _kinds_in(api_version, result.object or {})}
        self._versions[api_version] = _Version(self._now(), kinds)
        return kinds.get(plural), "the server could not find the requested resource"


def _kinds_in(api_version: str, document: dict[str, Any]) -> Iterator[Kind]:
    resources = document.get("resources")
    for each in resources[:_MOST_RESOURCES] if isinstance(resources, list) else ():
        name, kind = (each.get("name"), each.get("kind")) if isinstance(each, dict) else (None, None)
        if isinstance(name, str) and isinstance(kind, str) and "/" not in name and "watch" in (each.get("verbs") or ()):
            yield Kind(kind, api_version, name, namespaced=each.get("namespaced") is True, is_custom=True)
