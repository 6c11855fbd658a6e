"""The story of a pod: why it does not run, or how it came to run, and the log of a container; the Events of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.apimachinery.printing.event_order import event_order
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient, path_of
from modules.insight.fleet.rows import LONGEST, FleetPodRow, NodeRow, pod_row
from modules.page.nodes import conditions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from modules.insight.why.pods import Answer

_LOG_LINES: Final = 500
_LOG_BYTES: Final = 256 * 1024
_STATES: Final = ("waiting", "running", "terminated")
_MOST_EVENTS: Final = 100
_READ_EVENTS: Final = 500
_EVENTS_OF_NODE: Final = 20


class ContainerRow(msgspec.Struct, frozen=True):
    """A container of a pod."""

    name: str
    image: str
    state: str
    """`running`, or the reason of another state."""
    message: str
    is_ready: bool
    restarts: int
    is_init: bool


class EventRow(msgspec.Struct, frozen=True):
    """An Event about a pod or a node."""

    at: str
    type: str
    reason: str
    message: str
    who: str
    count: int


class PodStory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/explain/NAMESPACE/POD`."""

    row: FleetPodRow
    answer: Answer
    containers: Sequence[ContainerRow]
    conditions: Sequence[Mapping[str, str]]
    events: Sequence[EventRow]
    now: float


class PodStories:
    """The explanations why pods do not run, as the command `why` gives them, and the pods' logs.

    Args:
        program: the command that remedies name.
        client: the Kubernetes API.
    """

    def __init__(self, program: str, client: RestClient) -> None:
        self._program = program
        self._client = client

    def story(self, namespace: str, name: str, now: float, known: Callable[[str], NodeRow | None]) -> PodStory:
        """Return the story of a pod.

        Args:
            namespace: of the pod.
            name: of the pod.
            now: seconds since 1970.
            known: returns the row of a node; cloudcore is asked about an unknown one.

        Raises:
            KubectlError: there is no such pod, or no server answers.
        """
        from modules.insight.why.pods import explain  # noqa: PLC0415
        from modules.kubectl.session import Session  # noqa: PLC0415 - a megabyte, which most pages do not need
        from modules.kubectl.why import pod_facts  # noqa: PLC0415

        facts = pod_facts(Session(self._program, self._client, namespace), namespace, name, now, known)
        return PodStory(
            row=pod_row(facts.pod),
            answer=explain(facts),
            containers=[*_containers(facts.pod, "initContainers"), *_containers(facts.pod, "containers")],
            conditions=conditions_of(facts.pod),
            events=[_event(each) for each in facts.events[-_MOST_EVENTS:]],
            now=now,
        )

    def events_of_node(self, name: str) -> list[EventRow] | None:
        """Return the newest Events about a node, the newest last; None if the server refuses to list them."""
        query = (
            ("fieldSelector", f"involvedObject.kind=Node,involvedObject.name={name}"),
            ("limit", str(_READ_EVENTS)),
        )
        try:
            found = self._client.get("/api/v1/events", query)
        except KubectlError:
            return None
        newest = sorted(objects_at(found, "items"), key=event_order)[-_EVENTS_OF_NODE:]
        return [_event(each) for each in newest]

    def log(self, namespace: str, name: str, container: str) -> str:
        """Return the last lines of a container's log, bytes that are no UTF-8 as `\\xNN`.

        Raises:
            KubectlError: the node is away, or refuses.
        """
        path = path_of("api", "v1", "namespaces", namespace, "pods", name, "log")
        query = (("container", container), ("tailLines", str(_LOG_LINES)), ("limitBytes", str(_LOG_BYTES)))
        return self._client.raw("GET", path, query)[-_LOG_BYTES:].decode("utf-8", "backslashreplace")


def _containers(pod: JsonObject, field: str) -> list[ContainerRow]:
    statuses = {text_at(each, "name"): each for each in objects_at(pod, f"status.{field.removesuffix('s')}Statuses")}
    rows = []
    for container in objects_at(pod, f"spec.{field}"):
        status = statuses.get(text_at(container, "name"), {})
        word = next((each for each in _STATES if map_at(status, f"state.{each}")), "")
        restarts = status.get("restartCount")
        rows.append(
            ContainerRow(
                name=text_at(container, "name"),
                image=text_at(container, "image"),
                state=text_at(status, f"state.{word}.reason") or word or "not begun",
                message=text_at(status, f"state.{word}.message")[:LONGEST],
                is_ready=status.get("ready") is True,
                restarts=restarts if isinstance(restarts, int) else 0,
                is_init=field == "initContainers",
            )
        )
    return rows


def _event(event: JsonObject) -> EventRow:
    count = event.get("count")
    return EventRow(
        at=text_at(event, "lastTimestamp") or text_at(event, "eventTime") or text_at(event, "firstTimestamp"),
        type=text_at(event, "type"),
        reason=text_at(event, "reason"),
        message=text_at(event, "message")[:LONGEST],
        who=text_at(event, "source.host") or text_at(event, "source.component") or text_at(event, "reportingComponent"),
        count=count if isinstance(count, int) else 1,
    )
