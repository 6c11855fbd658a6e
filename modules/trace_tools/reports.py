"""What messages say about a pod: its specification as the cloud wants it, its status as the node reports it."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from modules.trace_tools.event import Event


class Container(msgspec.Struct):
    """A container's status, as far as a story needs it."""

    name: str = ""
    state: dict[str, Any] = {}
    lastState: dict[str, Any] = {}  # noqa: N815 - Kubernetes' name
    restartCount: int = 0  # noqa: N815

    @property
    def waiting(self) -> tuple[str, str]:
        """Reason and message when it waits; empty ones otherwise."""
        told = self.state.get("waiting")
        return (str(told.get("reason", "")), str(told.get("message", ""))) if isinstance(told, dict) else ("", "")

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return isinstance(self.state.get("running"), dict)


class Status(msgspec.Struct):
    """A pod's status, as far as a story needs it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    containerStatuses: list[Container] = []  # noqa: N815
    initContainerStatuses: list[Container] = []  # noqa: N815

    @property
    def containers(self) -> list[Container]:
        """All of them, in the order in which they run."""
        return [*self.initContainerStatuses, *self.containerStatuses]


class Wanted(msgspec.Struct):
    """What the cloud wants of a pod."""

    containers: tuple[str, ...]
    deleting: bool


def content_of(event: Event) -> Any:
    """The content of a message; a string that holds JSON is opened. None when there is none."""
    try:
        body = msgspec.json.decode(event.body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    content = body.get("content") if isinstance(body, dict) else None
    if isinstance(content, str) and content[:1] == "{":
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            return content
    return content


def status_told(event: Event) -> dict[str, Any]:
    """The status in a report (`podpatch` of today, `podstatus` of 2019); it may hold only what changed."""
    content = content_of(event)
    told = content.get("status", content.get("Status")) if isinstance(content, dict) else None
    return told if isinstance(told, dict) else {}


def status_of(told: dict[str, Any]) -> Status:
    """The status that its fields say; an empty one when they make no sense."""
    try:
        return msgspec.convert({key: value for key, value in told.items() if value is not None}, Status, strict=False)
    except msgspec.ValidationError:
        return Status()


def wanted_in(event: Event) -> Wanted | None:
    """What the cloud wants, when the message holds a pod."""
    content = content_of(event)
    spec = content.get("spec") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(spec, dict):
        return None
    named = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = tuple(str(item.get("name", "")) for item in named if isinstance(item, dict))
    metadata = content.get("metadata")
    deleting = isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))
    return Wanted(containers=names, deleting=deleting)


def refusal_in(event: Event) -> str:
    """What an answer says against giving what was asked for; empty when it gives it.

    An error answer says it as its content, the cloud's answers of today as Kubernetes' status in `Err`.
    """
    content = content_of(event)
    if event.verb == "error":
        return str(content)
    told = content.get("Err") if isinstance(content, dict) else None
    if not told:
        return ""
    status = told.get("ErrStatus", told) if isinstance(told, dict) else told
    return str(status.get("message") or status.get("reason") or status) if isinstance(status, dict) else str(status)


_REFERENCES: Final = {
    "configMap": ("configmap", "name"),
    "configMapRef": ("configmap", "name"),
    "configMapKeyRef": ("configmap", "name"),
    "secret": ("secret", "secretName"),
    "secretRef": ("secret", "name"),
    "secretKeyRef": ("secret", "name"),
}


def references(event: Event, namespace: str) -> set[str]:
    """Resources of the configmaps and secrets that a pod in a message takes something from."""
    content = content_of(event)
    spec = content.get("spec") if isinstance(content, dict) else None
    return set(_referred(spec, namespace)) if isinstance(spec, dict) else set()


def _referred(value: Any, namespace: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _referred(item, namespace)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        kind, field = _REFERENCES.get(key, ("", ""))
        if kind and isinstance(inner, dict) and (name := inner.get(field) or inner.get("name")):
            yield f"{namespace}/{kind}/{name}"
        else:
            yield from _referred(inner, namespace)
