"""Why a pod does not run: one sentence, the steps that led there, and what to do.

The rules read objects, not messages, so the answer is as good after six hours as after a second. What no object says
is unknown; it is never guessed.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from beehive.whole_numbers import whole_number
from modules.tools.printing.ages import ago, human_duration, seconds_of
from modules.tools.printing.fields import JsonObject, list_at, objects_at, text_at, value_at
from modules.tools.why.references import Missing

MAX_STEPS: Final = 32
"""Steps of an answer; older ones are left out, and counted."""
SCHEDULER: Final = "default-scheduler"
_CLOUD: Final = "cloudcore"
_CONDITIONS: Final = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_UNTOLD: Final = "its status does not say why"
_LONGEST: Final = 400
"""Characters of a message."""
_COMPARED: Final = 300
"""Characters of a message that identify an Event among the steps of the node, which cuts long messages elsewhere."""
_AGED: Final = ("lastTimestamp", "series.lastObservedTime", "eventTime", "firstTimestamp", "metadata.creationTimestamp")
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
                 "RegistryUnavailable", "SignatureValidationFailed")  # fmt: skip
_EXIT_CODES: Final = {
    126: "the command cannot be executed",
    127: "the command does not exist in the image",
    137: "killed, by SIGKILL",
    139: "it crashed, by SIGSEGV",
    143: "ended by SIGTERM",
}


class NodeStep(msgspec.Struct, frozen=True):
    """A step that a node has kept (`edged.chains`). Text of a node is cut and escaped before it is shown."""

    at: float
    reason: str
    text: str
    is_warning: bool = False
    count: int = 1
    last: float = 0.0


class NodeChain(msgspec.Struct, frozen=True):
    """The steps of a pod that its node has kept; keys that are not here are ignored."""

    uid: str
    steps: Annotated[list[NodeStep], msgspec.Meta(max_length=256)] = []
    left_out: int = 0


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about a pod."""

    pod: JsonObject
    now: float
    """Seconds since the epoch."""
    program: str
    """The command that the remedies name: `cloudcore` or `edgecore`."""
    node: JsonObject | None = None
    """The Node of the pod; None if it does not exist, or was not looked up."""
    is_node_missing: bool = False
    """Whether the pod is bound to a Node that does not exist."""
    missing: Sequence[Missing] = ()
    """Objects that the pod needs and that do not exist."""
    unread: Sequence[str] = ()
    """Objects that could not be looked up, with the reason: nothing is known of them."""
    events: Sequence[JsonObject] = ()
    """The Events about the pod."""
    chain: NodeChain | None = None
    """The steps that the pod's node has kept; None if they are not known."""


class PodStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step on the way of a pod, in the order of time."""

    at: str
    """RFC 3339."""
    who: str
    """The component or node that reports it."""
    text: str
    is_cause: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod does not run, or how it came to run."""

    sentence: str
    state: str
    """`runs`, `ended`, `waits` (somebody or something else has to act), `fails`, `ending`, or `unknown`."""
    steps: list[PodStep]
    left_out: int
    """Steps before these."""
    notes: list[str]
    """Limits of the answer: an absent node, objects that could not be read."""
    remedy: list[str]
    """Advice, as sentences or commands; empty when nothing has to be done."""


class Finding(msgspec.Struct, frozen=True):
    """The first rule that fits."""

    state: str
    text: str
    """The rest of the sentence that begins with the pod's name."""
    remedy: tuple[str, ...] = ()


def explain(facts: PodFacts) -> Answer:
    """Return why a pod does not run, or how it came to run."""
    finding = next(found for rule in RULES if (found := rule(facts)) is not None)
    steps = _steps(facts)
    return Answer(
        sentence=f"{_name(facts.pod)} {finding.text}".rstrip("."),
        state=finding.state,
        steps=steps[-MAX_STEPS:],
        left_out=max(0, len(steps) - MAX_STEPS) + (facts.chain.left_out if facts.chain is not None else 0),
        notes=list(_notes(facts)),
        remedy=list(finding.remedy),
    )


def _ending(facts: PodFacts) -> Finding | None:
    since = text_at(facts.pod, "metadata.deletionTimestamp")
    if not since:
        return None
    finalizers = ", ".join(str(each) for each in list_at(facts.pod, "metadata.finalizers"))
    if finalizers:
        return Finding("ending", f"is being deleted, and waits for who removes its finalizers: {finalizers}")
    away = _away(facts)
    if away:
        return Finding("ending", f"is being deleted: {away}, and ends the pod when it is back")
    grace = text_at(facts.pod, "metadata.deletionGracePeriodSeconds")
    period = f"; its containers have {grace} s to end" if grace else ""
    return Finding("ending", f"has been ending for {ago(since, facts.now)}{period}")


def _ended(facts: PodFacts) -> Finding | None:
    phase = text_at(facts.pod, "status.phase")
    if phase == "Succeeded":
        return Finding("ended", "has ended: all its containers ended with exit code 0")
    if phase != "Failed":
        return None
    reason, message = text_at(facts.pod, "status.reason"), _message(facts.pod, "status.message")
    if reason or message:
        return Finding("fails", f"has failed: {': '.join(part for part in (reason, message) if part)}")
    failed = [each for each in _statuses(facts.pod) if text_at(each, "state.terminated.exitCode") not in ("", "0")]
    if not failed:
        return Finding("unknown", "has failed, and its status does not say why")
    how = f"container {text_at(failed[0], 'name')} {_end(failed[0], 'state.terminated')}"
    return Finding("fails", f"has failed: {how}", _log_remedy(facts, failed[0], previous=False))


def _unbound(facts: PodFacts) -> Finding | None:
    if text_at(facts.pod, "spec.nodeName"):
        return None
    gates = ", ".join(text_at(gate, "name") for gate in objects_at(facts.pod, "spec.schedulingGates"))
    if gates:
        return Finding("waits", f"has no node: its scheduling gates are closed: {gates}")
    scheduler = text_at(facts.pod, "spec.schedulerName") or SCHEDULER
    condition = _condition(facts.pod, "PodScheduled")
    message = _message(condition, "message")
    if message:
        return Finding("waits", f"has no node: {message}", (f"{facts.program} get nodes",))
    if scheduler != SCHEDULER:
        return Finding("waits", f"has no node: it waits for the scheduler {scheduler}, which has said nothing about it")
    return Finding("unknown", "has no node, and no scheduler has said why")


def _no_node(facts: PodFacts) -> Finding | None:
    if not facts.is_node_missing:
        return None
    node = text_at(facts.pod, "spec.nodeName")
    return Finding("waits", f"is bound to the node {node}, which does not exist", (f"{facts.program} get nodes",))


def _lacks(facts: PodFacts) -> Finding | None:
    if not facts.missing or not _waits_to_start(facts.pod):
        return None
    first, *more = facts.missing
    rest = f" ({len(more)} more are missing)" if more else ""
    text = f"does not run: {first.text(on_node=facts.program != _CLOUD)}{rest}"
    return Finding("waits", text, (_remedy_of(facts, first),))


def _remedy_of(facts: PodFacts, missing: Missing) -> str:
    kind, name = missing.reference.kind, missing.reference.name
    if missing.key:
        return f"add the key {missing.key} to the {kind} {name}"
    words = {"ConfigMap": "configmap", "Secret": "secret generic"}.get(kind)
    if facts.program != _CLOUD:
        return f"see that the cloud has the {kind} {name}"
    if words is None:
        return f"create the {kind} {name}"
    namespace = text_at(facts.pod, "metadata.namespace")
    return f"{facts.program} -n {namespace} create {words} {name} --from-literal=KEY=VALUE"


def _unheard(facts: PodFacts) -> Finding | None:
    if value_at(facts.pod, "status.startTime") or _statuses(facts.pod):
        return None
    node = text_at(facts.pod, "spec.nodeName")
    away = _away(facts)
    if away:
        return Finding(
            "waits", f"does not run yet: {away}, and has not taken the pod", (f"{facts.program} describe node {node}",)
        )
    return Finding("waits", f"is bound to {node}, which has said nothing about it yet")


def _waiting(facts: PodFacts) -> Finding | None:
    for status in _statuses(facts.pod):
        reason, message = text_at(status, "state.waiting.reason"), _message(status, "state.waiting.message")
        who = f"container {text_at(status, 'name')}"
        if reason == "CrashLoopBackOff":
            ended = _end(status, "lastState.terminated")
            again = f"was restarted {text_at(status, 'restartCount')} times, and waits to be started again"
            return Finding(
                "fails", f"does not run: {who} {ended}; it {again}", _log_remedy(facts, status, previous=True)
            )
        if reason in _IMAGE:
            why = message or _last_warning(facts, ("Failed", "BackOff", "InspectFailed")) or _UNTOLD
            text = f"the image {text_at(status, 'image')} of {who} cannot be had ({reason}): {why}"
            return Finding("fails", f"does not run: {text}")
        if reason not in _STARTING:
            return Finding("fails", f"does not run: {who} cannot be made ({reason}): {message or _UNTOLD}")
    return None


def _init(facts: PodFacts) -> Finding | None:
    for status in objects_at(facts.pod, "status.initContainerStatuses"):
        name = text_at(status, "name")
        if text_at(status, "state.terminated.exitCode") not in ("", "0"):
            text = f"does not run: init container {name} {_end(status, 'state.terminated')}"
            return Finding("fails", text, _log_remedy(facts, status, previous=False))
        started = text_at(status, "state.running.startedAt")
        if started and not _is_sidecar(facts.pod, name):
            return Finding("waits", f"waits for its init container {name}, which has run for {ago(started, facts.now)}",
                           _log_remedy(facts, status, previous=False))  # fmt: skip
    return None


def _starting(facts: PodFacts) -> Finding | None:
    waiting = [each for each in _statuses(facts.pod) if value_at(each, "state.waiting") is not None]
    if not waiting:
        return None
    warning = _last_warning(facts, ())
    since = text_at(facts.pod, "status.startTime")
    period = f" for {ago(since, facts.now)}" if since else ""
    if warning:
        return Finding("fails", f"has been starting{period}: {warning}")
    return Finding("waits", f"has been starting{period}, and nothing has failed yet")


def _not_ready(facts: PodFacts) -> Finding | None:
    if text_at(_condition(facts.pod, "Ready"), "status") == "True":
        return None
    for status in objects_at(facts.pod, "status.containerStatuses"):
        who = f"container {text_at(status, 'name')}"
        terminated = value_at(status, "state.terminated")
        if terminated is not None:
            again = _log_remedy(facts, status, previous=False)
            return Finding("fails", f"is not ready: {who} {_end(status, 'state.terminated')}", again)
        if value_at(status, "ready") is False and value_at(status, "state.running") is not None:
            probe = "startup" if value_at(status, "started") is False else "readiness"
            answer = _last_warning(facts, ("Unhealthy",))
            why = f": {answer}" if answer else ", and no event says how"
            return Finding("fails", f"runs, but is not ready: the {probe} probe of {who} does not succeed{why}")
    for gate in objects_at(facts.pod, "spec.readinessGates"):
        kind = text_at(gate, "conditionType")
        if text_at(_condition(facts.pod, kind), "status") != "True":
            return Finding("waits", f"runs, but is not ready: its readiness gate {kind} is not True")
    return None


def _runs(facts: PodFacts) -> Finding | None:
    node, statuses = text_at(facts.pod, "spec.nodeName"), objects_at(facts.pod, "status.containerStatuses")
    if not statuses or any(value_at(each, "state.running") is None for each in statuses):
        return None
    ready = sum(1 for each in statuses if value_at(each, "ready") is True)
    moments = [seconds_of(text_at(each, "state.running.startedAt")) for each in statuses]
    first = min((each for each in moments if each is not None), default=None)
    since = f" for {human_duration(max(0, int(facts.now - first)))}" if first is not None else ""
    restarted = [each for each in statuses if text_at(each, "restartCount") not in ("", "0")]
    again = ""
    if restarted:
        name, count = text_at(restarted[0], "name"), text_at(restarted[0], "restartCount")
        again = f"; container {name} was restarted {count} times: it {_end(restarted[0], 'lastState.terminated')}"
    away = _away(facts)
    where = f"was running on {node} when it was last heard of" if away else f"runs on {node}{since}"
    return Finding("unknown" if away else "runs", f"{where}: {ready} of {len(statuses)} containers are ready{again}")


def _unknown(facts: PodFacts) -> Finding:
    phase = text_at(facts.pod, "status.phase") or "without a phase"
    return Finding("unknown", f"is {phase}, and nothing that is known says why")


RULES: Final[tuple[Callable[[PodFacts], Finding | None], ...]] = (
    _ending,
    _ended,
    _unbound,
    _no_node,
    _lacks,
    _unheard,
    _init,
    _waiting,
    _starting,
    _not_ready,
    _runs,
    _unknown,
)
"""The rules; the first that fits makes the sentence."""


def _notes(facts: PodFacts) -> Iterator[str]:
    away = _away(facts)
    if away:
        yield f"{away}: what the node has said is as old as that"
    for each in facts.unread:
        yield f"not known: {each}"


def _steps(facts: PodFacts) -> list[PodStep]:
    """Return the known steps of the pod in the order of time; the last warning is the cause."""
    pod = facts.pod
    found = [PodStep(text_at(pod, "metadata.creationTimestamp"), "API server", "the pod was created")]
    for each in sorted(objects_at(pod, "status.conditions"), key=_place):
        at, kind, status = (text_at(each, key) for key in ("lastTransitionTime", "type", "status"))
        detail = ": ".join(part for part in (text_at(each, "reason"), _message(each, "message")) if part)
        if at and (status == "True" or kind == "PodScheduled"):
            found.append(PodStep(at, "status", f"{kind} is {status}" + (f": {detail}" if detail else "")))
    chain = facts.chain.steps if facts.chain is not None else []
    kept = {(step.reason, _one_line(step.text)[:_COMPARED]) for step in chain}
    for each in facts.events:
        if (text_at(each, "reason"), _message(each, "message")[:_COMPARED]) in kept:
            continue
        count = whole_number(text_at(each, "series.count") or text_at(each, "count"))
        times = _times(1 if count is None else count)
        who = text_at(each, "source.component") or text_at(each, "reportingComponent") or "event"
        text = f"{text_at(each, 'reason')}{times}: {_message(each, 'message')}"
        found.append(PodStep(_seen(each), who, text, text_at(each, "type") == "Warning"))
    found += [
        PodStep(
            _rfc3339(step.last or step.at),
            "kubelet",
            f"{_one_line(step.reason)}{_times(step.count)}: {_one_line(step.text)}",
            step.is_warning,
        )
        for step in chain
    ]
    found.sort(key=lambda step: seconds_of(step.at) or 0.0)
    last = max((place for place, step in enumerate(found) if step.is_cause), default=-1)
    runs = _is_running(pod)
    return [msgspec.structs.replace(step, is_cause=place == last and not runs) for place, step in enumerate(found)]


def _place(condition: JsonObject) -> int:
    """Return the rank of a condition among conditions that come true in the same second."""
    kind = condition.get("type")
    return _CONDITIONS.index(kind) if kind in _CONDITIONS else len(_CONDITIONS)


def _away(facts: PodFacts) -> str:
    """Return for how long the pod's node has been away or not ready, as a clause; empty if it is Ready or unknown."""
    if facts.node is None:
        return ""
    ready = _condition(facts.node, "Ready")
    if not ready or text_at(ready, "status") == "True":
        return ""
    name, since = text_at(facts.node, "metadata.name"), text_at(ready, "lastTransitionTime")
    period = f" for {ago(since, facts.now)}" if since else ""
    if text_at(ready, "status") == "False":
        return f"node {name} has not been ready{period} ({_message(ready, 'message') or text_at(ready, 'reason')})"
    return f"node {name} has been away{period}"


def _end(status: JsonObject, path: str) -> str:
    """Return how a container ended, as a clause: `ended 5m ago with exit code 1 (Error)`."""
    code, reason = text_at(status, f"{path}.exitCode"), text_at(status, f"{path}.reason")
    if not code:
        return "has ended, and how is not known"
    message = _message(status, f"{path}.message")
    known = _EXIT_CODES.get(whole_number(code) or 0, "") if reason in ("", "Error") else ""
    why = ", ".join(part for part in (reason if reason != "Error" else "", known, message) if part)
    return f"ended with exit code {code}" + (f" ({why})" if why else "")


def _log_remedy(facts: PodFacts, status: JsonObject, *, previous: bool) -> tuple[str, ...]:
    namespace, name = text_at(facts.pod, "metadata.namespace"), text_at(facts.pod, "metadata.name")
    option = " --previous" if previous else ""
    return (f"{facts.program} -n {namespace} logs {name} -c {text_at(status, 'name')}{option}",)


def _last_warning(facts: PodFacts, reasons: Sequence[str]) -> str:
    """Return the newest warning about the pod, with one of the reasons if any are given, or an empty one."""
    warnings = [
        each
        for each in facts.events
        if text_at(each, "type") == "Warning" and (not reasons or text_at(each, "reason") in reasons)
    ]
    newest = max(warnings, key=lambda each: seconds_of(_seen(each)) or 0.0, default=None)
    if newest is not None:
        return _message(newest, "message")
    chain = facts.chain.steps if facts.chain is not None else []
    kept = [step for step in chain if step.is_warning and (not reasons or step.reason in reasons)]
    return _one_line(max(kept, key=lambda step: step.last or step.at).text) if kept else ""


def _statuses(pod: JsonObject) -> list[JsonObject]:
    return [*objects_at(pod, "status.initContainerStatuses"), *objects_at(pod, "status.containerStatuses")]


def _condition(obj: JsonObject, kind: str) -> JsonObject:
    return next((each for each in objects_at(obj, "status.conditions") if each.get("type") == kind), {})


def _is_running(pod: JsonObject) -> bool:
    return text_at(_condition(pod, "Ready"), "status") == "True"


def _waits_to_start(pod: JsonObject) -> bool:
    """Return whether a container has not been made yet."""
    statuses = _statuses(pod)
    waiting = [each for each in statuses if value_at(each, "state.waiting") is not None]
    reasons = {text_at(each, "state.waiting.reason") for each in waiting}
    return not statuses or not reasons.isdisjoint((*_STARTING, "CreateContainerConfigError"))


def _is_sidecar(pod: JsonObject, name: str) -> bool:
    containers = objects_at(pod, "spec.initContainers")
    return any(text_at(each, "name") == name and each.get("restartPolicy") == "Always" for each in containers)


def _seen(event: JsonObject) -> str:
    return next((text for path in _AGED if (text := text_at(event, path))), "")


def _message(obj: JsonObject, path: str) -> str:
    return _one_line(text_at(obj, path))


def _one_line(text: str) -> str:
    """Return a text on one line, cut where it is very long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _rfc3339(seconds: float) -> str:
    """Return a time in seconds since 1970 as a time of the API; empty if there is no such time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _name(pod: JsonObject) -> str:
    return f"{text_at(pod, 'metadata.namespace')}/{text_at(pod, 'metadata.name')}"
