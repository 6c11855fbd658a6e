"""The sizes of what the modules of a process keep in memory, compared with a process that has just started."""

from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from types import MethodType
from typing import Any, Final

import pykka

from beehive.hive import Hive
from beehive.message import Message
from beehive.module_timers import ModuleTimers
from modules.cloud.client.calls import ApiCall

_PRODUCT: Final = ("beehive.", "edged.", "edgehub.", "metamanager.", "modules.edge.", "modules.cloud.")
_DOUBLES: Final = ("beehive.simulation.", "beehive.testing", "modules.lab.doubles.container_runtime.")
_CONTAINERS: Final = (dict, list, set, frozenset, deque)
_BOUNDED: Final = frozenset(
    {
        "PendingRequests._closed",
        "LocalQuery._deleted",
        "ModuleTimers._timers",
        "_Latest._items",
        "_Group.messages",
        "DeadLetters._letters",
        "MirroredBodies._at_hand",
        "NodeRoom._known",
        "Outgoing._settling",
        "Outgoing._unconfirmed",
        "Ledger._gone",
        "TrustedLabels._known",
        "EventRecorder._latest",
        "EventTexts._texts",
    }
)
"""Memories of a fixed size, which fill in the course of a run; of timers only the active ones count. In edgehub the
messages of the last keepalive period settle, those since the last ping are unconfirmed, and the rows of later ones are
removed together. The scheduler looks at the pods of a node when it places one, and has the Nodes as
they were then.
"""
ACTIVE_TIMERS: Final = "active timers"
_MORE: Final = 40
"""Entries that may be there in addition: of what went on a moment ago."""


def sizes_of(hive: Hive) -> Counter[str]:
    """Return the number of entries of all containers that are reached from a hive, by class and attribute."""
    seen: set[int] = set()
    sizes: Counter[str] = Counter()
    todo: list[tuple[Any, str]] = [(hive, "")]
    while todo:
        thing, path = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, _CONTAINERS):
            sizes[path] += len(thing)
        if isinstance(thing, ModuleTimers):
            sizes[ACTIVE_TIMERS] += sum(timer.active for timer in thing._timers)
        todo += _parts(thing, path)
    return sizes


def grown(before: Counter[str], fresh: Counter[str]) -> Iterator[str]:
    """Yield each container that has many more entries than it has after a start, as a line."""
    for path, number in sorted(before.items()):
        if path not in _BOUNDED and number > 2 * fresh[path] + _MORE:
            yield f"{path} has {number} entries, and {fresh[path]} after a restart"


def _parts(thing: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the references of an object, with their paths. What a message or a call of the API has counts where the
    message or the call is kept.
    """
    if isinstance(thing, Message | ApiCall):
        return
    if isinstance(thing, dict):
        yield from ((each, path) for each in thing.values())
    elif isinstance(thing, (*_CONTAINERS, tuple)):
        yield from ((each, path) for each in thing)
    elif isinstance(thing, pykka.ActorRef):
        yield thing._actor_weakref(), path
    elif isinstance(thing, MethodType):
        yield thing.__self__, path
    elif isinstance(thing, partial):
        yield from ((each, path) for each in (thing.func, *thing.args))
    elif isinstance(thing, Hive):
        yield from ((value, f"Hive.{name}") for name, value in _attributes(thing))
    elif type(thing).__module__.startswith(_PRODUCT) and not type(thing).__module__.startswith(_DOUBLES):
        yield from ((value, f"{type(thing).__name__}.{name}") for name, value in _attributes(thing))


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(thing, "__dict__", {}).items())
    for each in type(thing).__mro__:
        slots = getattr(each, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)
