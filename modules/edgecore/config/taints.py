"""The kind of `registerWithTaints`: a list of taints, as in a Node's spec."""

from __future__ import annotations

from edged.api import Taint
from modules.edgecore.config.kinds import Kind, UnfitError, shown
from modules.edgecore.config.names import LABEL_KEY, LABEL_VALUE

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS = {"key", "value", "effect"}


class Taints(Kind[tuple[Taint, ...]]):
    """A list of mappings with key, value (may be left out) and effect."""

    def __init__(self, most: int) -> None:
        """`most` is the largest number of taints."""
        self.most = most

    @property
    def want(self) -> str:
        """The form of a taint."""
        return f"a list of at most {self.most} taints, each with key, value and effect ({', '.join(EFFECTS)})"

    def read(self, value: object) -> tuple[Taint, ...]:
        """A list; every taint is judged, and no key may have an effect twice (the API server would refuse the node)."""
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        taints = tuple(map(_read, value))
        if len({(taint.key, taint.effect) for taint in taints}) < len(taints):
            raise UnfitError("a key has the same effect twice")
        return taints

    def write(self, setting: tuple[Taint, ...]) -> object:
        """A list."""
        return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in setting]


def _read(entry: object) -> Taint:
    if not isinstance(entry, dict) or not {"key", "effect"} <= set(entry) <= _FIELDS:
        raise UnfitError(shown(entry))
    key, value, effect = entry["key"], entry.get("value"), entry["effect"]
    if effect not in EFFECTS:
        raise UnfitError(f"{shown(effect)} is no effect")
    return Taint(key=LABEL_KEY.read(key), value=LABEL_VALUE.read("" if value is None else value), effect=effect)
