"""Kind of value of `registerWithTaints`."""

from __future__ import annotations

from edged.api import Taint
from modules.processes.edgecore.config.names import LABEL_KEY, LABEL_VALUE
from modules.processes.edgecore.config.value_kinds import UnfitError, ValueKind, shown

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS = {"key", "value", "effect"}


class Taints(ValueKind[tuple[Taint, ...]]):
    """A list of mappings with key, optional value, and effect, as in a Node's spec."""

    def __init__(self, most: int) -> None:
        """`most` is the largest number of taints."""
        self.most = most

    @property
    def expected(self) -> str:
        """The form of a taint."""
        return f"a list of at most {self.most} taints, each with key, value and effect ({', '.join(EFFECTS)})"

    def read(self, value: object) -> tuple[Taint, ...]:
        """Read a list; every taint is checked, and no key may have an effect twice (the API server would refuse the
        node).
        """
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        taints = tuple(map(_read, value))
        if len({(taint.key, taint.effect) for taint in taints}) < len(taints):
            raise UnfitError("a key has the same effect twice")
        return taints

    def write(self, setting: tuple[Taint, ...]) -> object:
        """Return a list."""
        return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in setting]


def _read(entry: object) -> Taint:
    if not isinstance(entry, dict) or not {"key", "effect"} <= set(entry) <= _FIELDS:
        raise UnfitError(shown(entry))
    key, value, effect = entry["key"], entry.get("value"), entry["effect"]
    if effect not in EFFECTS:
        raise UnfitError(f"{shown(effect)} is no effect")
    return Taint(key=LABEL_KEY.read(key), value=LABEL_VALUE.read("" if value is None else value), effect=effect)
