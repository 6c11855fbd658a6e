"""What an object still remembers: the parts of the product from which a text can be reached."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any


def memories_of(text: str, root: object, packages: tuple[str, ...]) -> list[str]:
    """Return the places below an object where a text is, or is part of another.

    Args:
        text: such as the uid of a pod that is gone.
        root: where to begin.
        packages: whose objects are looked into, beside containers.
    """
    found: list[str] = []
    seen = {id(root)}
    waiting = deque([("", root)])
    while waiting:
        place, value = waiting.popleft()
        for name, part in _parts(value, packages):
            here = f"{place}.{name}"
            if isinstance(part, str):
                found += [here] if text in part else []
            elif id(part) not in seen:
                seen.add(id(part))
                waiting.append((here, part))
    return found


def _parts(value: Any, packages: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in list(value.items()):
            yield "key", key
            yield str(key) if isinstance(key, str) else type(key).__name__, part
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from (("item", part) for part in list(value))
    elif type(value).__module__.startswith(packages) and not isinstance(value, type):
        for name in _names(value):
            yield name, getattr(value, name, None)


def _names(value: object) -> Iterable[str]:
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    return dict.fromkeys((*getattr(value, "__dict__", ()), *slots))
