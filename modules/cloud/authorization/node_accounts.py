"""How much of the API server's objects each node has written."""

import sys
from collections import Counter
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_kind, key_of, metadata_of
from modules.apimachinery.limits import memory_of
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.unvalidated import member_of

_DEFAULT_PODS: Final = 110
_MOST_PODS: Final = 250
"""Mirror pods of a node whatever its capacity is: that is the node's own word."""
_COST: Final = 1536 * 1024
"""Cost that each node may have, beside its pods: some sixty static pods with statuses, and a Node with its images."""
_COST_OF_POD: Final = 16 * 1024
"""Cost for each pod that others have bound to the node, for its status; with one container it has half of that."""
_COST_OF_ANNOTATIONS: Final = 4 * 1024
"""Cost that a node may give the annotations of such a pod. The annotations of its author cost the node nothing: they
could use up its account.
"""
_MOST_BYTES: Final = {"Event": 16 * 1024, "Lease": 16 * 1024, "CertificateSigningRequest": 64 * 1024}
"""Bytes of an object, by kind; the number of them is limited elsewhere."""
MOST_REQUESTS: Final = 100
"""Stored certificate signing requests of one node; they are never garbage collected here."""
_RESERVED_SECONDS: Final = 60.0
"""Seconds within which a pod that was admitted is reported by the API server's watch, if it was created."""


class _Charge(msgspec.Struct, frozen=True, gc=False):
    node: str
    """Whose account it is."""
    cost: int
    """Approximate bytes of memory of the part of the object that the node has written."""
    is_mirror: bool = False
    is_bound: bool = False
    """Whether it is a pod that others have bound to the node."""

    def differs_in_cost_only(self, other: "_Charge") -> bool:
        """Return whether another state of the same object has this charge."""
        return (self.node, self.is_mirror, self.is_bound) == (other.node, other.is_mirror, other.is_bound)


_KINDS: Final = ("Pod", "Node")
_NOTHING: Final = _Charge("", 0)


class NodeAccounts:
    """The bytes that each node has written into the API server: mirror pods, the status of its pods, and its Node.

    A hostile node could otherwise fill the memory of the cloud and its database. The limit grows only with pods that
    others bind to the node.

    Args:
        clock: the time, for pods that were admitted and that the watch has not reported yet.
    """

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._charges: dict[ObjectKey, _Charge] = {}
        self._reserved: dict[ObjectKey, tuple[_Charge, float]] = {}
        """Created pods that were not reported yet, the oldest first."""
        self._cost: Counter[str] = Counter()
        self._mirrors: Counter[str] = Counter()
        self._bound: Counter[str] = Counter()
        self._measured: tuple[JsonObject, int] = {}, 0
        """The status that was looked at last, which is mostly the one that is stored next, and its cost."""

    def put(self, key: ObjectKey, obj: JsonObject | None) -> None:
        """Take over a stored object; None for a removed one."""
        if key.kind not in _KINDS:
            return
        reserved = self._reserved.pop(key, None)
        if reserved is not None:
            self._add(reserved[0], -1)
        charge = _NOTHING if obj is None else _charge_of(key.kind, obj)
        before = self._charges.get(key, _NOTHING)
        if charge == before:
            return
        if charge.differs_in_cost_only(before):  # another status
            self._charges[key] = charge
            self._cost[charge.node] += charge.cost - before.cost
            return
        self._add(self._charges.pop(key, _NOTHING), -1)
        if charge.node:
            self._charges[key] = charge
            self._add(charge, 1)

    def put_status(self, key: ObjectKey, pod: JsonObject) -> None:
        """Take over a stored pod whose status alone has changed."""
        known = self._charges.get(key)
        if known is None or not known.is_bound or self._reserved:
            self.put(key, pod)
            return
        measured, cost = self._measured
        if measured is not pod["status"]:
            cost = memory_of(msgspec.json.encode({"status": pod["status"]}))
        if cost != known.cost:
            self._charges[key] = msgspec.structs.replace(known, cost=cost)
            self._cost[known.node] += cost - known.cost

    def has_room(self, node: str, key: ObjectKey, status: JsonObject) -> bool:
        """Return whether it is certain that a node may give a pod, which others have bound to it, a status; if not,
        `refusal` knows.
        """
        known = self._charges.get(key)
        if known is None or not known.is_bound or known.node != node or self._reserved:
            return False
        cost = memory_of(msgspec.json.encode({"status": status}))
        self._measured = status, cost
        return cost <= known.cost or self._cost[node] - known.cost + cost <= self._limit(node)

    def refusal(self, node: str, old: JsonObject | None, new: JsonObject | None, own: JsonObject | None) -> str:
        """Return the reason to refuse a node's write, or "". A created pod counts immediately.

        Args:
            node: the node that writes.
            old: the object before; None when it is created.
            new: the object after; None when it is deleted.
            own: the Node, whose capacity bounds the pods that it creates.
        """
        if new is None:
            return ""
        kind = key_kind(new)
        most = _MOST_BYTES.get(kind)
        if most is not None:
            is_long = len(msgspec.json.encode(new)) > most
            return f"exceeded quota: such an object of a node has at most {most} bytes" if is_long else ""
        charge = _charge_of(kind, new)
        if charge.node != node:
            return ""
        has_same_metadata = old is not None and new.get("metadata") is old.get("metadata")
        if old is not None and kind == "Pod" and not has_same_metadata and (why := _refusal_of_annotations(old, new)):
            return why
        if self._reserved:
            self._expire()
        key = key_of(new)
        known = self._charges.get(key)
        before = 0 if old is None else known.cost if known is not None else _charge_of(kind, old).cost
        if old is None and charge.is_mirror and self._mirrors[node] >= (pods := most_mirror_pods(own)):
            return f'exceeded quota: node "{node}" has {self._mirrors[node]} mirror pods, limited: {pods}'
        limit = self._limit(node)
        if charge.cost > before and self._cost[node] - before + charge.cost > limit:
            return f'exceeded quota: what node "{node}" has written would take more than {limit} bytes of memory'
        if old is None and known is None and key not in self._reserved:
            self._reserved[key] = charge, self._monotonic()
            self._add(charge, 1)
        return ""

    def _limit(self, node: str) -> int:
        return _COST + _COST_OF_POD * self._bound[node]

    def _add(self, charge: _Charge, sign: int) -> None:
        if not charge.node:
            return
        for counter, amount in (
            (self._cost, charge.cost),
            (self._mirrors, charge.is_mirror),
            (self._bound, charge.is_bound),
        ):
            counter[charge.node] += sign * amount
            if not counter[charge.node]:
                del counter[charge.node]

    def _expire(self) -> None:
        """Drop the reservations for pods that were not created."""
        now = self._monotonic()
        while self._reserved:
            key, (charge, since) = next(iter(self._reserved.items()))
            if now - since < _RESERVED_SECONDS:
                return
            del self._reserved[key]
            self._add(charge, -1)


def most_mirror_pods(own: JsonObject | None) -> int:
    """Return the largest number of mirror pods of a node: its capacity, if that is a number up to 250."""
    capacity = member_of(member_of(own or {}, "status"), "capacity").get("pods")
    number = whole_number(str(capacity), 9)
    return _DEFAULT_PODS if number is None else min(number, _MOST_PODS)


def _refusal_of_annotations(old: JsonObject, new: JsonObject) -> str:
    """Return why a node may not change the annotations of a pod so, or ""."""
    if old.get("metadata") == new.get("metadata"):
        return ""
    before, after = (member_of(member_of(each, "metadata"), "annotations") for each in (old, new))
    if before == after:
        return ""
    if (CONFIG_MIRROR in before) != (CONFIG_MIRROR in after):
        return "a mirror pod stays one, and no other pod becomes one"
    if CONFIG_MIRROR not in after and _cost(after) > max(_COST_OF_ANNOTATIONS, _cost(before)):
        return f"exceeded quota: a node gives a pod annotations of at most {_COST_OF_ANNOTATIONS} bytes of memory"
    return ""


def _charge_of(kind: str, obj: JsonObject) -> _Charge:
    """Return the cost of an object of a kind, and the node that bears it."""
    if kind == "Pod":
        spec = obj.get("spec")
        node = sys.intern(str(spec.get("nodeName") or "")) if isinstance(spec, dict) else ""
        mirrors = is_mirror(obj)
        written = obj if mirrors else {"status": obj.get("status")}
        cost = memory_of(msgspec.json.encode(written)) if node else 0
        return _Charge(node, cost, is_mirror=mirrors, is_bound=not mirrors)
    if kind == "Node":
        return _Charge(str(metadata_of(obj).get("name") or ""), _cost(obj))
    return _NOTHING


def _cost(value: Any) -> int:
    return memory_of(msgspec.json.encode(value))
