"""What the ids of sandboxes and containers stand for.

The runtime answers with an id when it makes one, and lists them with their labels; later calls have nothing but the id.
A person knows pods and containers.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from modules.trace_tools.event import Event, Sort

MAKING: Final = frozenset({"run_pod_sandbox", "create_container"})
_LISTING: Final = frozenset({"list_pod_sandboxes", "list_containers"})
_LABEL: Final = "io.kubernetes."


class Call(msgspec.Struct):
    """Arguments and answer of a call of the runtime."""

    request: Any = None
    answer: Any = None


def call_in(event: Event) -> Call:
    """The call that an event was; an empty one when it is none."""
    try:
        return msgspec.json.decode(event.body, type=Call)
    except (msgspec.DecodeError, UnicodeError):
        return Call()


def by_labels(labels: Any) -> str:
    """`NAMESPACE/pod/NAME CONTAINER` out of the labels that kubelets set; empty when they are not there."""
    if not isinstance(labels, dict) or f"{_LABEL}pod.name" not in labels:
        return ""
    pod = f"{labels.get(f'{_LABEL}pod.namespace', '')}/pod/{labels[f'{_LABEL}pod.name']}"
    return f"{pod} {labels.get(f'{_LABEL}container.name', '')}".rstrip()


def named_in(event: Event) -> Iterator[tuple[str, str]]:
    """Ids that a call gave, with what they stand for."""
    if event.sort is not Sort.CALL:
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
    """The events, those about an id being about what it stands for, as far as the trace has said so before."""
    names: dict[str, str] = {}
    for event in events:
        names.update(named_in(event))
        known = names.get(event.about) if event.sort is Sort.CALL else None
        yield msgspec.structs.replace(event, about=known) if known else event


def _ids(answer: Any) -> list[str]:
    """The answer itself, or its fields `…_id`."""
    if isinstance(answer, str):
        return [answer]
    if not isinstance(answer, dict):
        return []
    return [value for name, value in answer.items() if name.endswith("_id") and isinstance(value, str)]
