"""Why a pod does not run: one sentence, the steps that led there, and what to do.

The rules read objects, not messages, so the answer is as good after six hours as after a second. What no object shows
is unknown; it is never guessed.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.ages import ago, human_duration, seconds_of
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.insight.ends import OUT_OF_MEMORY, end_of, message
from modules.insight.fleet.sentences import certificate_words, clock_words, link_words
from modules.insight.fleet.states import BEHIND, NEVER, REFUSED, UNLINKED
from modules.insight.why.facts import NEVER_BEGAN, NO_PORTS, LastLines, PodFacts, condition, host_ports, statuses
from modules.insight.why.references import PULL, Missing
from modules.insight.why.steps import (
    PodStep,
    ReportedStep,
    cause_of,
    kill_of,
    last_kill_of,
    reported_steps,
    steps_of,
    warning_of,
)

MAX_STEPS: Final = 32
"""Steps of an answer; older ones are left out, and counted."""
SCHEDULER: Final = "default-scheduler"
_CLOUD: Final = "cloudcore"
_UNTOLD: Final = "its status does not say why"
_HELD: Final = "HeldUpgrade"
"""The condition of a pod that waits for the owner of its node; `node_conditions` has it with all types of pods."""
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
                 "RegistryUnavailable", "SignatureValidationFailed")  # fmt: skip
_REPEATED: Final = re.compile(r"PullImage of (\S+) failed: |cannot pull '([^']+)': ")
"""What an error of a pull says of the image, which the sentence has named."""
_OF_MACHINE: Final = ("cgroup", "control group", "no space left")
"""Words of an end before the start that name a fault of the machine, and not of the container."""
_INSUFFICIENT: Final = re.compile(r"Insufficient ([^\s,]+)")
_MOST_ASKED: Final = 3
"""Parts of a pod that an answer names beside the scheduler's words."""
_LONGEST_COMMAND: Final = 300
"""Characters of a probe's command that a remedy repeats."""


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
    last_lines: LastLines | None = None
    """The end of the log of the container that ended badly last."""


class Finding(msgspec.Struct, frozen=True):
    """The first rule that fits."""

    state: str
    text: str
    """The rest of the sentence that begins with the pod's name."""
    remedy: tuple[str, ...] = ()


class Case(NamedTuple):
    """A pod that is explained."""

    facts: PodFacts
    told: Sequence[ReportedStep]
    """What Events and its node tell of it."""

    @property
    def pod(self) -> JsonObject:
        """The pod."""
        return self.facts.pod

    def command(self, verb: str) -> str:
        """Return a command about the pod's namespace."""
        return f"{self.facts.program} -n {text_at(self.pod, 'metadata.namespace')} {verb}"


def explain(facts: PodFacts) -> Answer:
    """Return why a pod does not run, or how it came to run."""
    case = Case(facts, reported_steps(facts))
    finding = next(found for rule in RULES if (found := rule(case)) is not None)
    steps = steps_of(facts, case.told)
    return Answer(
        sentence=f"{_name(facts.pod)} {finding.text}".rstrip("."),
        state=finding.state,
        steps=steps[-MAX_STEPS:],
        left_out=max(0, len(steps) - MAX_STEPS) + (facts.chain.left_out if facts.chain is not None else 0),
        notes=list(_remarks(facts)),
        remedy=list(finding.remedy),
        last_lines=facts.last_lines,
    )


def _ending(case: Case) -> Finding | None:
    deadline = seconds_of(text_at(case.pod, "metadata.deletionTimestamp"))
    if deadline is None:
        return None
    finalizers = ", ".join(str(each) for each in list_at(case.pod, "metadata.finalizers"))
    if finalizers:
        return Finding("ending", f"is being deleted, and waits for who removes its finalizers: {finalizers}")
    away = _away(case.facts)
    if away:
        return Finding("ending", f"is being deleted: {away}, and ends the pod when it is back")
    grace = whole_number(text_at(case.pod, "metadata.deletionGracePeriodSeconds")) or 0
    spent = human_duration(max(0, int(case.facts.now - deadline + grace)))
    period = f"; its containers {'have' if case.facts.now < deadline else 'had'} {grace} s to end" if grace else ""
    problem = warning_of(case.told, "FailedKillPod")
    return Finding("ending", f"has been ending for {spent}{period}{f': {problem}' if problem else ''}")


def _ended(case: Case) -> Finding | None:
    phase = text_at(case.pod, "status.phase")
    if phase == "Succeeded":
        return Finding("ended", "has ended: all its containers ended with exit code 0")
    if phase != "Failed":
        return None
    reason, why = text_at(case.pod, "status.reason"), message(case.pod, "status.message")
    if reason or why:
        return Finding("fails", f"has failed: {': '.join(part for part in (reason, why) if part)}")
    failed = [each for each in statuses(case.pod) if text_at(each, "state.terminated.exitCode") not in ("", "0")]
    if not failed:
        return Finding("unknown", "has failed, and its status does not say why")
    how = f"{_who(case.pod, failed[0])} {_end(case, failed[0], 'state.terminated')}"
    return Finding("fails", f"has failed: {how}", _remedy_of_end(case, failed[0], "state.terminated"))


def _unbound(case: Case) -> Finding | None:
    pod, program = case.pod, case.facts.program
    if text_at(pod, "spec.nodeName"):
        return None
    gates = ", ".join(text_at(gate, "name") for gate in objects_at(pod, "spec.schedulingGates"))
    if gates:
        return Finding("waits", f"has no node: its scheduling gates are closed: {gates}")
    scheduler = text_at(pod, "spec.schedulerName") or SCHEDULER
    said = message(condition(pod, "PodScheduled"), "message").rstrip(".")
    if said:
        asked, verb = _asked(case, said)
        return Finding("waits", f"has no node: {said}{f' ({asked})' if asked else ''}", (f"{program} {verb}",))
    if scheduler != SCHEDULER:
        return Finding("waits", f"has no node: it waits for the scheduler {scheduler}, which has said nothing about it")
    return Finding("unknown", "has no node, and no scheduler has said why")


def _asked(case: Case, said: str) -> tuple[str, str]:
    """Return the request of a pod that the scheduler cannot meet, and the command that shows what there is."""
    pod = case.pod
    containers = objects_at(pod, "spec.containers")
    scarce = _INSUFFICIENT.findall(said)[:_MOST_ASKED]
    if scarce:
        asked = [
            f"container {text_at(each, 'name')} requests {amount} of {name}"
            for name in scarce
            for each in containers
            if (amount := map_at(each, "resources.requests").get(name) or map_at(each, "resources.limits").get(name))
        ]
        return ", ".join(asked[:_MOST_ASKED]), "describe nodes"
    if NO_PORTS in said:
        ports = ", ".join(dict.fromkeys(number for number, _ in host_ports(pod)[:_MOST_ASKED]))
        holders = ", ".join(case.facts.port_holders[:_MOST_ASKED])
        held = f", which {holders} has" if holders else ""
        return f"it asks for port {ports} of its node{held}", "get pods -A -o wide"
    selector = map_at(pod, "spec.nodeSelector")
    if "selector" in said and selector:
        labels = [f"{name}={value}" for name, value in selector.items()][:_MOST_ASKED]
        return f"it asks for a node with the label {' and '.join(labels)}", "get nodes --show-labels"
    return "", "get nodes"


def _no_node(case: Case) -> Finding | None:
    if not case.facts.is_node_missing:
        return None
    node = text_at(case.pod, "spec.nodeName")
    return Finding("waits", f"is bound to the node {node}, which does not exist", (f"{case.facts.program} get nodes",))


def _lacks(case: Case) -> Finding | None:
    needed = [each for each in case.facts.missing if each.reference.user != PULL]
    if not needed or not _waits_to_start(case.pod):
        return None
    first, *more = needed
    rest = f" ({len(more)} more {'is' if len(more) == 1 else 'are'} missing)" if more else ""
    text = f"does not run: {first.text(on_node=case.facts.program != _CLOUD)}{rest}"
    return Finding("waits", text, (_remedy_of_missing(case, first),))


def _remedy_of_missing(case: Case, missing: Missing) -> str:
    kind, name = missing.reference.kind, missing.reference.name
    if missing.key:
        return f"add the key {missing.key} to the {kind} {name}"
    if case.facts.program != _CLOUD:
        return f"see that the cloud has the {kind} {name}"
    if missing.reference.user == PULL:
        login = "--docker-server=SERVER --docker-username=USER --docker-password=PASSWORD"
        return case.command(f"create secret docker-registry {name} {login}")
    words = {"ConfigMap": "configmap", "Secret": "secret generic"}.get(kind)
    if words is None:
        return f"create the {kind} {name}"
    return case.command(f"create {words} {name} --from-literal=KEY=VALUE")


def _unheard(case: Case) -> Finding | None:
    if value_at(case.pod, "status.startTime") or statuses(case.pod):
        return None
    node = text_at(case.pod, "spec.nodeName")
    away = _away(case.facts)
    if away:
        text = f"does not run yet: {away}, and has not taken the pod"
        is_refused = case.facts.link is not None and case.facts.link.reason.startswith(REFUSED)
        return Finding("waits", text, () if is_refused else (f"{case.facts.program} describe node {node}",))
    said = "has said nothing about it yet"
    if case.facts.is_stored is not None:
        said = f"has it, and {said}" if case.facts.is_stored else "has not confirmed that it has it"
    pressed = [
        text_at(each, "type")
        for each in objects_at(case.facts.node or {}, "status.conditions")
        if text_at(each, "type").endswith("Pressure") and text_at(each, "status") == "True"
    ]
    also = f"; that node has {' and '.join(pressed)}" if pressed else ""
    return Finding("waits", f"is bound to {node}, which {said}{also}")


def _init(case: Case) -> Finding | None:
    for status in objects_at(case.pod, "status.initContainerStatuses"):
        name = text_at(status, "name")
        if text_at(status, "state.terminated.exitCode") not in ("", "0"):
            text = f"does not run: init container {name} {_end(case, status, 'state.terminated')}"
            return Finding("fails", text, _remedy_of_end(case, status, "state.terminated"))
        started = text_at(status, "state.running.startedAt")
        if started and not _is_sidecar(case.pod, name):
            text = f"waits for its init container {name}, which has run for {ago(started, case.facts.now)}"
            return Finding("waits", text, (_log(case, status),))
    return None


def _waiting(case: Case) -> Finding | None:
    for status in statuses(case.pod):
        reason, why = text_at(status, "state.waiting.reason"), message(status, "state.waiting.message")
        who = _who(case.pod, status)
        if reason == "CrashLoopBackOff":
            ended = _end(case, status, "lastState.terminated")
            again = f"was restarted {_restarts(status)}, and waits to be started again"
            return Finding(
                "fails", f"does not run: {who} {ended}; it {again}",
                _remedy_of_end(case, status, "lastState.terminated"),
            )  # fmt: skip
        if reason in _IMAGE:
            return _no_image(case, status, reason, why)
        if reason not in _STARTING:
            return Finding("fails", f"does not run: {who} cannot be made ({reason}): {why or _UNTOLD}")
    return None


def _no_image(case: Case, status: JsonObject, reason: str, why: str) -> Finding:
    told = warning_of(case.told, "Failed", "BackOff", "InspectFailed", container=text_at(status, "name"))
    image = _image_of(case.pod, text_at(status, "name")) or text_at(status, "image")
    text = f"the image {image} of {_who(case.pod, status)} cannot be had ({reason})"
    lacking, remedy = _lacking_login(case)
    if reason == "InvalidImageName":
        remedy = ("correct the name of the image in the pod's manifest",)
    elif reason == "ErrImageNeverPull":
        remedy = (f"load the image on {text_at(case.pod, 'spec.nodeName')}, or let imagePullPolicy be IfNotPresent",)
    full = why.partition(": ErrImagePull: ")[2] or why or told or _UNTOLD
    full = _REPEATED.sub(lambda words: "" if (words[1] or words[2]).endswith(image) else words[0], full)
    return Finding("fails", f"does not run: {text}: {full}{lacking}", remedy)


def _image_of(pod: JsonObject, container: str) -> str:
    """Return the image that a container is to have; its status has the one that it had last."""
    lists = (objects_at(pod, f"spec.{each}") for each in ("initContainers", "containers", "ephemeralContainers"))
    return next((text_at(each, "image") for found in lists for each in found if each.get("name") == container), "")


def _lacking_login(case: Case) -> tuple[str, tuple[str, ...]]:
    """Return which pull secret does not exist, as a clause, and what to do about it; empty if none is missing."""
    secret = next((each for each in case.facts.missing if each.reference.user == PULL), None)
    if secret is None:
        return "", ()
    return f"; {secret.text(on_node=case.facts.program != _CLOUD)}", (_remedy_of_missing(case, secret),)


def _held(case: Case) -> Finding | None:
    if text_at(condition(case.pod, _HELD), "status") != "True":
        return None
    name, namespace = text_at(case.pod, "metadata.name"), text_at(case.pod, "metadata.namespace")
    node = text_at(case.pod, "spec.nodeName")
    return Finding(
        "waits",
        "waits for the owner of its node to release it",
        (f"on {node}: edgecore release {name} -n {namespace}",),
    )


def _starting(case: Case) -> Finding | None:
    waiting = [each for each in statuses(case.pod) if value_at(each, "state.waiting") is not None]
    if not waiting:
        return None
    cause = cause_of(case.told)
    since = text_at(case.pod, "status.startTime")
    period = f" for {ago(since, case.facts.now)}" if since else ""
    if cause is not None:
        lacking, remedy = _lacking_login(case) if "image" in cause.message else ("", ())
        return Finding("fails", f"has been starting{period}: {cause.message}{lacking}", remedy)
    return Finding("waits", f"has been starting{period}, and nothing has failed yet")


def _not_ready(case: Case) -> Finding | None:
    if text_at(condition(case.pod, "Ready"), "status") == "True":
        return None
    for status in objects_at(case.pod, "status.containerStatuses"):
        who = _who(case.pod, status)
        if value_at(status, "state.terminated") is not None:
            text = f"is not ready: {who} {_end(case, status, 'state.terminated')}"
            return Finding("fails", text, _remedy_of_end(case, status, "state.terminated"))
        if value_at(status, "ready") is False and value_at(status, "state.running") is not None:
            return _unready(case, status, "startup" if value_at(status, "started") is False else "readiness")
    for gate in objects_at(case.pod, "spec.readinessGates"):
        kind = text_at(gate, "conditionType")
        if text_at(condition(case.pod, kind), "status") != "True":
            return Finding("waits", f"runs, but is not ready: its readiness gate {kind} is not True")
    return None


def _unready(case: Case, status: JsonObject, probe: str) -> Finding:
    name = text_at(status, "name")
    told = warning_of(
        [each for each in case.told if each.message.startswith(f"{probe.capitalize()} probe ")],
        "Unhealthy", container=name,
    )  # fmt: skip
    how = told.partition(f"{probe.capitalize()} probe failed: ")[2] or told
    why = f": {how}" if how else ", and no event says how"
    spec = next((each for each in objects_at(case.pod, "spec.containers") if text_at(each, "name") == name), {})
    words = [each for each in list_at(spec, f"{probe}Probe.exec.command") if isinstance(each, str)]
    remedy = _log(case, status)
    if words and len(command := shlex.join(words)) <= _LONGEST_COMMAND and command.isprintable():
        remedy = case.command(f"exec {text_at(case.pod, 'metadata.name')} -c {name} -- {command}")
    text = f"runs, but is not ready: the {probe} probe of container {name} does not succeed{why}"
    return Finding("fails", text, (remedy,))


def _runs(case: Case) -> Finding | None:
    node, found = text_at(case.pod, "spec.nodeName"), objects_at(case.pod, "status.containerStatuses")
    if not found or any(value_at(each, "state.running") is None for each in found):
        return None
    ready = sum(1 for each in found if value_at(each, "ready") is True)
    moments = [seconds_of(text_at(each, "state.running.startedAt")) for each in found]
    first = min((each for each in moments if each is not None), default=None)
    since = f" for {human_duration(max(0, int(case.facts.now - first)))}" if first is not None else ""
    restarted = [each for each in found if text_at(each, "restartCount") not in ("", "0")]
    again = ""
    if restarted:
        ended = _end(case, restarted[0], "lastState.terminated")
        again = f"; {_who(case.pod, restarted[0])} was restarted {_restarts(restarted[0])}: it {ended}"
    away = _away(case.facts)
    where = f"was running on {node} when it was last heard of" if away else f"runs on {node}{since}"
    containers = "container is" if len(found) == 1 else "containers are"
    return Finding("unknown" if away else "runs", f"{where}: {ready} of {len(found)} {containers} ready{again}")


def _unknown(case: Case) -> Finding:
    phase = text_at(case.pod, "status.phase") or "without a phase"
    return Finding("unknown", f"is {phase}, and nothing that is known says why")


RULES: Final[tuple[Callable[[Case], Finding | None], ...]] = (
    _ending,
    _ended,
    _unbound,
    _no_node,
    _lacks,
    _unheard,
    _held,
    _init,
    _waiting,
    _starting,
    _not_ready,
    _runs,
    _unknown,
)
"""The rules; the first that fits makes the sentence."""


def _remarks(facts: PodFacts) -> Iterator[str]:
    away, row = _away(facts), facts.link
    if away and (row is None or row.state in UNLINKED - {NEVER}):
        yield f"{away}: what the node has said is as old as that"
    elif row is not None and row.state == BEHIND:
        yield f"node {row.name} {link_words(row, facts.now)}"
    if row is not None and row.clock_ahead:
        yield f"the clock of node {row.name} {clock_words(row.clock_ahead)}, so the times of its steps are wrong"
    if row is not None and (ends := certificate_words(row.certificate_ends, facts.now, 0)):
        yield f"the certificate of node {row.name} {ends}: it must join again"
    yield from facts.remarks
    for each in facts.unread:
        yield f"not known: {each}"


def _away(facts: PodFacts) -> str:
    """Return for how long the pod's node has been away or not ready, as a clause; empty if it is Ready or unknown."""
    row = facts.link
    if row is not None and row.state in UNLINKED:
        return f"node {row.name} {link_words(row, facts.now)}"
    if facts.node is None:
        return ""
    ready = condition(facts.node, "Ready")
    if not ready or text_at(ready, "status") == "True":
        return ""
    name, since = text_at(facts.node, "metadata.name"), text_at(ready, "lastTransitionTime")
    if text_at(ready, "status") == "False":
        period = f" for {ago(since, facts.now)}" if since else ""
        return f"node {name} has not been ready{period} ({message(ready, 'message') or text_at(ready, 'reason')})"
    if row is not None:  # it is back, and the condition is not yet
        return ""
    since = facts.heard or since
    return f"node {name} has been away{f' for {ago(since, facts.now)}' if since else ''}"


def _end(case: Case, status: JsonObject, path: str) -> str:
    """Return how a container ended, as a clause, with what Events and its node tell of it."""
    told = case.told
    return end_of(status, path, kill_of(told, status, path), last_kill_of(told, status, path))


def _remedy_of_end(case: Case, status: JsonObject, path: str) -> tuple[str, ...]:
    """Return the remedy for a container that has ended; its log has more, unless it never ran."""
    name, reason = text_at(status, "name"), text_at(status, f"{path}.reason")
    if reason in NEVER_BEGAN:
        node, why = text_at(case.pod, "spec.nodeName"), text_at(status, f"{path}.message").lower()
        if any(word in why for word in _OF_MACHINE):
            return (f"see `edgecore doctor` on {node}: the machine lacks what a container needs",)
        return (
            f"correct the command or the image of container {name}: it never ran, so it has no log",
            f"if the reason is not the container's, see `edgecore doctor` on {node}",
        )
    log = _log(case, status, " --previous" if path.startswith("lastState") else "")
    if reason != OUT_OF_MEMORY:
        return (log,)
    spec = next((each for each in objects_at(case.pod, "spec.containers") if text_at(each, "name") == name), {})
    limit = text_at(spec, "resources.limits.memory")
    now = f", which is {limit}" if limit else ""
    return (f"raise resources.limits.memory of container {name}{now}, or let it use less", log)


def _log(case: Case, status: JsonObject, option: str = "") -> str:
    return case.command(f"logs {text_at(case.pod, 'metadata.name')} -c {text_at(status, 'name')}{option}")


def _who(pod: JsonObject, status: JsonObject) -> str:
    name = text_at(status, "name")
    is_init = any(text_at(each, "name") == name for each in objects_at(pod, "status.initContainerStatuses"))
    return f"{'init container' if is_init else 'container'} {name}"


def _restarts(status: JsonObject) -> str:
    count = text_at(status, "restartCount")
    return "once" if count == "1" else f"{count} times"


def _waits_to_start(pod: JsonObject) -> bool:
    """Return whether a container has not been made yet."""
    found = statuses(pod)
    waiting = [each for each in found if value_at(each, "state.waiting") is not None]
    reasons = {text_at(each, "state.waiting.reason") for each in waiting}
    return not found or not reasons.isdisjoint((*_STARTING, "CreateContainerConfigError"))


def _is_sidecar(pod: JsonObject, name: str) -> bool:
    containers = objects_at(pod, "spec.initContainers")
    return any(text_at(each, "name") == name and each.get("restartPolicy") == "Always" for each in containers)


def _name(pod: JsonObject) -> str:
    return f"{text_at(pod, 'metadata.namespace')}/{text_at(pod, 'metadata.name')}"
