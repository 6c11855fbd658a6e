"""Resolves the ids of sandboxes and containers to the names of pods and containers.

The runtime returns an id when it makes a sandbox or a container, and lists ids with their labels; later calls have only
the id.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.processes.edgecore.trace.event import Event, EventKind

MAKING: Final = frozenset({"run_pod_sandbox", "create_container"})
_LISTING: Final = frozenset({"list_pod_sandboxes", "list_containers"})
_LABEL: Final = "io.kubernetes."


class RuntimeCall(msgspec.Struct):
    """Request and answer of a call of the runtime."""

    request: Any = None
    answer: Any = None


def call_in(event: Event) -> RuntimeCall:
    """Return the call of an event; an empty one for other events."""
    try:
        return decode_json(event.body, RuntimeCall)
    except (msgspec.DecodeError, UnicodeError):
        return RuntimeCall()


def by_labels(labels: Any) -> str:
    """Return `NAMESPACE/pod/NAME CONTAINER` by the labels that kubelets set; empty without them."""
    if not isinstance(labels, dict) or f"{_LABEL}pod.name" not in labels:
        return ""
    pod = f"{labels.get(f'{_LABEL}pod.namespace', '')}/pod/{labels[f'{_LABEL}pod.name']}"
    return f"{pod} {labels.get(f'{_LABEL}container.name', '')}".rstrip()


def named_in(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the ids in the answer of a call, with the names of their pods and containers."""
    if event.kind is not EventKind.CALL:
        return
    if event.verb in MAKING:
        for made in _ids(call_in(event).answer):
            yield made, event.about
    if event.verb in _LISTING:
        answer = call_in(event).answer
        for item in answer if isinstance(answer, list) else ():
            if isinstance(item, dict) and (name := by_labels(item.get("labels"))):
                yield str(item.get("id", "")), name


def named(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events with names in place of ids, as far as earlier events of the trace have named them."""
    names: dict[str, str] = {}
    for event in events:
        names.update(named_in(event))
        known = names.get(event.about) if event.kind is EventKind.CALL else None
        yield msgspec.structs.replace(event, about=known) if known else event


def _ids(answer: Any) -> list[str]:
    """Return the answer itself if it is an id, or its fields `…_id`."""
    if isinstance(answer, str):
        return [answer]
    if not isinstance(answer, dict):
        return []
    return [value for name, value in answer.items() if name.endswith("_id") and isinstance(value, str)]
