"""Reads pods from messages: the specification that the cloud sends, and the status that the node reports."""

from typing import Any

import msgspec

from beehive.decoding import convert, decode_json
from modules.apimachinery.pod_references import references_of
from modules.processes.edgecore.trace.event import Event


class Container(msgspec.Struct):
    """The fields of a container's status that a diagnosis uses."""

    name: str = ""
    state: dict[str, Any] = {}
    restartCount: int = 0  # noqa: N815

    @property
    def waiting(self) -> tuple[str, str]:
        """Reason and message of a waiting container; empty otherwise."""
        reported = self.state.get("waiting")
        return (
            (str(reported.get("reason", "")), str(reported.get("message", "")))
            if isinstance(reported, dict)
            else ("", "")
        )

    @property
    def running(self) -> bool:
        """Whether the container runs."""
        return isinstance(self.state.get("running"), dict)


class Status(msgspec.Struct):
    """The fields of a pod's status that a diagnosis uses."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    containerStatuses: list[Container] = []  # noqa: N815
    initContainerStatuses: list[Container] = []  # noqa: N815

    @property
    def containers(self) -> list[Container]:
        """The status of all containers, in the order that they run."""
        return [*self.initContainerStatuses, *self.containerStatuses]


class DesiredPod(msgspec.Struct):
    """The desired state of a pod."""

    containers: tuple[str, ...]
    deleting: bool


def content_of(event: Event) -> Any:
    """Return the decoded content of a message, also of JSON in a string; None without a content."""
    try:
        body = decode_json(event.body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    content = body.get("content") if isinstance(body, dict) else None
    if isinstance(content, str) and content[:1] == "{":
        try:
            return decode_json(content)
        except msgspec.DecodeError:
            return content
    return content


def reported_status(event: Event) -> dict[str, Any]:
    """Return the status in a report (`podpatch` today, `podstatus` in 2019), which may hold only changed fields."""
    content = content_of(event)
    reported = content.get("status", content.get("Status")) if isinstance(content, dict) else None
    return reported if isinstance(reported, dict) else {}


def status_of(reported: dict[str, Any]) -> Status:
    """Return the status with these fields; an empty one if they are malformed."""
    try:
        return convert({key: value for key, value in reported.items() if value is not None}, Status, strict=False)
    except msgspec.ValidationError:
        return Status()


def desired_pod_in(event: Event) -> DesiredPod | None:
    """Return the desired state of the pod in a message; None without a pod."""
    content = content_of(event)
    spec = content.get("spec") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(spec, dict):
        return None
    named = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = tuple(str(item.get("name", "")) for item in named if isinstance(item, dict))
    metadata = content.get("metadata")
    deleting = isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))
    return DesiredPod(containers=names, deleting=deleting)


def refusal_in(event: Event) -> str:
    """Return the error in an answer; empty if the answer is not an error.

    The content of an error answer is the error itself; today's answers of the cloud hold a Kubernetes status in `Err`.
    """
    content = content_of(event)
    if event.verb == "error":
        return str(content)
    reported = content.get("Err") if isinstance(content, dict) else None
    if not reported:
        return ""
    status = reported.get("ErrStatus", reported) if isinstance(reported, dict) else reported
    return str(status.get("message") or status.get("reason") or status) if isinstance(status, dict) else str(status)


def references(event: Event, namespace: str) -> set[str]:
    """Return the resources of the configmaps and secrets that the pod in a message refers to; none if malformed."""
    content = content_of(event)
    spec = content.get("spec") if isinstance(content, dict) else None
    try:
        found = references_of({"metadata": {"namespace": namespace}, "spec": spec})
    except (AttributeError, TypeError):
        return set()
    return {f"{each.namespace}/{each.kind.lower()}/{each.name}" for each in found}
