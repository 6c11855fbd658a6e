"""The steps of a pod in the order of time, and which of them is the cause of its trouble."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.printing.ages import seconds_of
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.insight.ends import message, one_line
from modules.insight.why.facts import PodFacts, condition, rfc3339

_CONDITIONS: Final = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_COMPARED: Final = 300
"""Characters of a message that identify an Event among the steps of the node, which cuts long messages elsewhere."""
_AGED: Final = ("lastTimestamp", "series.lastObservedTime", "eventTime", "firstTimestamp", "metadata.creationTimestamp")
_BACK_OFF, _ENDED, _KILLING, _STARTED, _UNHEALTHY = "BackOff", "Ended", "Killing", "Started", "Unhealthy"
_NO_LOGIN: Final = "FailedToRetrieveImagePullSecret"
_LESS: Final = (_BACK_OFF, _ENDED, _NO_LOGIN)
"""Reasons of warnings that explain less than one before them."""
_HOOK: Final = "FailedPostStartHook"
_FOLLOWS: Final = ("Error: ErrImagePull", "Error: ImagePullBackOff")
"""Messages that repeat an error which was told in full before."""
_KILLS: Final = ("Liveness probe ", "Startup probe ")


class PodStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step on the way of a pod, in the order of time."""

    at: str
    """RFC 3339."""
    who: str
    """The component or node that reports it."""
    text: str
    is_cause: bool = False


class ReportedStep(NamedTuple):
    """A step that an Event or the node tells."""

    at: str
    """When it came for the last time (RFC 3339)."""
    first: float
    """When it came for the first time, in seconds since 1970."""
    who: str
    reason: str
    message: str
    container: str
    is_warning: bool
    times: int

    @property
    def last(self) -> float:
        """When it came for the last time, in seconds since 1970."""
        return seconds_of(self.at) or 0.0


def reported_steps(facts: PodFacts) -> list[ReportedStep]:
    """Return what Events and the node tell, in the order of time, each step once."""
    chain = facts.chain.steps if facts.chain is not None else []
    kept = {(step.reason, one_line(step.text)[:_COMPARED]) for step in chain}
    told = [each for event in facts.events if ((each := _of_event(event)).reason, each.message[:_COMPARED]) not in kept]
    told += [
        ReportedStep(
            rfc3339(step.last or step.at), step.at, "kubelet", one_line(step.reason), one_line(step.text),
            step.container, step.is_warning, step.count,
        )
        for step in chain
    ]  # fmt: skip
    return sorted(told, key=lambda step: step.last)


def cause_of(told: Sequence[ReportedStep]) -> ReportedStep | None:
    """Return the step that is the cause of the pod's trouble, if any is known.

    It is the last warning that no start has overcome. A back-off is the consequence of the container's end, and the end
    of a container that was killed is the consequence of the reason to kill it.
    """
    place = max((number for number, step in enumerate(told) if step.is_warning), default=-1)
    if place < 0 or _is_overcome(told[place], told[place + 1 :]):
        return None
    last = told[place]
    of_container = [step for step in told[: place + 1] if not last.container or step.container in ("", last.container)]
    for number in range(len(of_container) - 1, -1, -1):
        step = of_container[number]
        if step.reason == _ENDED and not _was_killed(of_container[:number]):
            return step
        if step.is_warning and step.reason not in _LESS and step.message not in _FOLLOWS:
            return step
    return last


def kill_of(told: Sequence[ReportedStep], status: JsonObject, path: str) -> str:
    """Return why the agent has ended a container, as a clause; empty if it ended by itself, or nothing is known.

    Args:
        told: the steps.
        status: of the container.
        path: of its end in the status.
    """
    began, ended = (seconds_of(text_at(status, f"{path}.{field}")) for field in ("startedAt", "finishedAt"))
    if ended is None:
        return ""
    began = ended if began is None else began
    return _kill_in([each for each in _about(told, status) if each.first <= ended + 1 and each.last >= began - 1])


def last_kill_of(told: Sequence[ReportedStep], status: JsonObject, path: str) -> str:
    """Return why the agent has ended an earlier life of a container, if nothing is known of the one after it; as a
    clause, empty if that life ended by itself.

    A node sends few Events of a pod that fails often, and keeps the others; away or without a tunnel nobody reads them.
    """
    ended = seconds_of(text_at(status, f"{path}.finishedAt"))
    earlier = [each for each in _about(told, status) if ended is not None and each.last < ended]
    ends = [number for number, each in enumerate(earlier) if _is_end(each)]
    if not ends or earlier[ends[-1]].reason == _ENDED:
        return ""
    return _kill_in(earlier)


def _about(told: Sequence[ReportedStep], status: JsonObject) -> list[ReportedStep]:
    return [each for each in told if each.container == text_at(status, "name")]


def _is_end(step: ReportedStep) -> bool:
    return step.reason in (_ENDED, _HOOK) or _is_kill_for_failure(step)


def _kill_in(steps: Sequence[ReportedStep]) -> str:
    """Return why the agent has ended a container in these steps, as a clause; empty if it has not."""
    if not any(_is_kill_for_failure(each) or each.reason == _HOOK for each in steps):
        return ""
    for step in reversed(steps):
        if step.reason == _HOOK:
            return "its postStart hook failed"
        if step.reason == _UNHEALTHY and step.message.startswith(_KILLS):
            kind, _, how = step.message.partition(" probe failed: ")
            return f"its {kind.lower()} probe failed{f' ({how})' if how else ''}"
    return ""


def warning_of(told: Sequence[ReportedStep], *reasons: str, container: str = "") -> str:
    """Return the message of the newest warning with one of the reasons, about a container if one is named."""
    found = (
        step.message
        for step in reversed(told)
        if step.is_warning and step.reason in reasons and step.message not in _FOLLOWS
        and (not container or step.container in ("", container))
    )  # fmt: skip
    return next(found, "")


def steps_of(facts: PodFacts, told: Sequence[ReportedStep]) -> list[PodStep]:
    """Return the known steps of the pod in the order of time, the cause marked unless the pod runs."""
    runs = text_at(condition(facts.pod, "Ready"), "status") == "True"
    cause = None if runs else cause_of(told)
    found = [*_of_status(facts.pod)]
    for step in told:
        count = f" ({step.times} times)" if step.times > 1 else ""
        found.append(PodStep(step.at, step.who, f"{step.reason}{count}: {step.message}", step is cause))
    return sorted(found, key=lambda step: seconds_of(step.at) or 0.0)


def _of_status(pod: JsonObject) -> Iterator[PodStep]:
    created = ("API server", "the pod was created")
    if is_mirror(pod):
        created = ("API server", "the mirror of a static pod was created")
    elif CONFIG_SOURCE in map_at(pod, "metadata.annotations"):
        created = ("kubelet", "the file of the static pod was read")
    yield PodStep(text_at(pod, "metadata.creationTimestamp"), *created)
    for each in sorted(objects_at(pod, "status.conditions"), key=_place):
        at, kind, status = (text_at(each, key) for key in ("lastTransitionTime", "type", "status"))
        detail = ": ".join(part for part in (text_at(each, "reason"), message(each, "message")) if part)
        if at and (status == "True" or kind == "PodScheduled"):
            yield PodStep(at, "status", f"{kind} is {status}" + (f": {detail}" if detail else ""))


def _of_event(event: JsonObject) -> ReportedStep:
    count = whole_number(text_at(event, "series.count") or text_at(event, "count"))
    at = next((text for path in _AGED if (text := text_at(event, path))), "")
    return ReportedStep(
        at=at,
        first=seconds_of(text_at(event, "firstTimestamp") or at) or 0.0,
        who=text_at(event, "source.component") or text_at(event, "reportingComponent") or "event",
        reason=text_at(event, "reason"),
        message=message(event, "message"),
        container=text_at(event, "involvedObject.fieldPath").partition("{")[2].rstrip("}"),
        is_warning=text_at(event, "type") == "Warning",
        times=1 if count is None else count,
    )


def _is_overcome(warning: ReportedStep, later: Sequence[ReportedStep]) -> bool:
    return any(
        step.reason == _STARTED and (not warning.container or step.container == warning.container) for step in later
    )


def _was_killed(before: Sequence[ReportedStep]) -> bool:
    """Return whether the container that ended after these steps was killed for a failure."""
    for step in reversed(before):
        if step.reason == _STARTED:
            return False
        if _is_kill_for_failure(step):
            return True
    return False


def _is_kill_for_failure(step: ReportedStep) -> bool:
    return step.reason == _KILLING and (" failed " in step.message or step.message == _HOOK)


def _place(each: JsonObject) -> int:
    """Return the rank of a condition among conditions that come true in the same second."""
    kind = each.get("type")
    return _CONDITIONS.index(kind) if kind in _CONDITIONS else len(_CONDITIONS)
