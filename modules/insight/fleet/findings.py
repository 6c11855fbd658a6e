"""Rules that find trouble in a fleet, each one kind, and explain it in a sentence.

Nodes and pods that share a cause are one finding, so that nine nodes behind one line are not nine alarms.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from modules.apimachinery.printing.ages import human_duration, seconds_of
from modules.insight.fleet.devices import (
    OVERDUE,
    SILENT,
    TOLD,
    UNKNOWN,
    DeviceFacts,
    DeviceRow,
    device_row,
    device_state,
)
from modules.insight.fleet.jobs import JobRow, counts_words
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rows import FleetPodRow, NodeRow
from modules.insight.fleet.sentences import CERTIFICATE_DAYS, certificate_words, clock_words
from modules.insight.fleet.states import AWAY, BEHIND, CONNECTED, LOST, NEVER, REFUSED

MOST_FINDINGS: Final = 12
TOGETHER: Final = 60.0
"""Seconds within which nodes that went away went together."""
_LEAST_TOGETHER: Final = 3
_RENEWED_DAYS: Final = 3
"""A connected node should have renewed its certificate so many days before its end."""
_ASK_DOCTOR: Final = "`edgecore doctor` there says more"
_SILENT: Final = "is edgecore running there, and does it reach this cloud? `edgecore doctor` there says"
_HINDERED: Final = "is its disk full, or its link slower than its changes? `edgecore doctor` there says"
_CLOCK: Final = "set it, for example with NTP: `timedatectl` there"
_NAMED: Final = 3
"""Names that a finding has before it counts the rest."""
_STARTING: Final = ("ContainerCreating", "PodInitializing", "Pending", "Running")
_STARTING_SECONDS: Final = 120.0
"""Seconds that a pod has to get a node and to start before that is a finding."""
_JOB_SECONDS: Final = 7 * 86_400.0
"""Age of a job from which on it is history."""
OLDER: Final = 2
"""Minor versions that an edgecore may be older than its cloudcore; it must not be newer."""
_OF_NODE: Final = re.compile(r"-edgecore-(\d{1,4})\.(\d{1,4})\.")
_OWN: Final = re.compile(r"(\d{1,4})\.(\d{1,4})\.")


def skew_words(kubelet_version: str, own: str) -> str:
    """Return the fault of a node's version, or "".

    Args:
        kubelet_version: of the node, such as `v1.32.10-edgecore-0.3.0`. Other agents, KubeEdge's for instance, have no
            number that could be compared.
        own: the version of cloudcore; "" compares nothing.
    """
    node, cloud = _OF_NODE.search(kubelet_version), _OWN.match(own)
    if node is None or cloud is None:
        return ""
    (major, minor), (own_major, own_minor) = (tuple(map(int, each.groups())) for each in (node, cloud))
    if (major, minor) > (own_major, own_minor):
        return f"newer than this cloudcore, {own}"
    if major < own_major or minor < own_minor - OLDER:
        return f"more than {OLDER} minor versions older than this cloudcore, {own}"
    return ""


class FleetFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault that needs attention."""

    rule: str
    mark: str
    """`bad` or `warn`."""
    sentence: str
    detail: str = ""
    remedy: str = ""
    """Advice: who has to do what."""
    nodes: tuple[str, ...] = ()
    """The nodes that it is about; a link of the page shows them."""
    pods: tuple[str, ...] = ()
    """The pods that it is about, as NAMESPACE/NAME."""
    command: str = ""
    """The command that shows more."""
    devices: tuple[str, ...] = ()
    """The devices that it is about, as NAMESPACE/NAME."""
    workload: str = ""
    """The workload that it is about, as NAMESPACE/KIND NAME."""
    job: str = ""
    """The job of nodes that it is about, as KIND/NAME."""


class Fleet(msgspec.Struct, frozen=True):
    """The input of the rules."""

    nodes: Sequence[NodeRow]
    pods: Sequence[FleetPodRow]
    now: float
    """Seconds since 1970."""
    program: str = "cloudcore"
    devices: Sequence[DeviceFacts] = ()
    lacks: Sequence[Lack] = ()
    jobs: Sequence[JobRow] = ()
    """The jobs of nodes."""
    has_all_pods: bool = True
    """Whether all pods of the nodes are known; otherwise they are not counted."""
    version: str = ""
    """Of this cloudcore; "" compares no versions."""


def findings(fleet: Fleet) -> tuple[list[FleetFinding], int]:
    """Return the worst findings, and the number of all."""
    found = [each for rule in RULES for each in rule(fleet)]
    found.sort(key=lambda each: (each.mark != "bad", -len(each.nodes)))
    return found[:MOST_FINDINGS], len(found)


def lost_together(nodes: Sequence[NodeRow]) -> list[list[NodeRow]]:
    """Return groups of nodes that went away within a minute, and share zone, address or cloudcore."""
    gone = (each for each in nodes if each.state == AWAY and each.since and not each.is_changing)
    away = sorted(gone, key=lambda each: each.since)
    groups: list[list[NodeRow]] = []
    for node in away:
        if (
            groups
            and node.since - groups[-1][-1].since <= TOGETHER / 3
            and node.since - groups[-1][0].since <= TOGETHER
        ):
            groups[-1].append(node)
        else:
            groups.append([node])
    return [group for group in groups if len(group) >= _LEAST_TOGETHER]


def shared_by(nodes: Sequence[NodeRow]) -> str:
    """Return in words what all of the nodes share, "" for nothing."""
    first = nodes[0]
    if first.zone and all(each.zone == first.zone for each in nodes):
        return f"of {first.zone}"
    if first.address and all(each.address == first.address for each in nodes):
        return f"that came from {first.address}"
    if first.cloudcore and all(each.cloudcore == first.cloudcore for each in nodes):
        return f"of {first.cloudcore}"
    return ""


def _away(fleet: Fleet) -> Iterator[FleetFinding]:
    together = lost_together(fleet.nodes)
    grouped = {node.name for group in together for node in group}
    for group in together:
        shared = shared_by(group)
        pods, waiting = sum(each.pods for each in group), sum(each.waiting for each in group)
        bound = f" · {_count(pods, 'pod')} {'was' if pods == 1 else 'were'} bound to them" if fleet.has_all_pods else ""
        yield FleetFinding(
            "nodes-lost-together", "bad",
            f"{len(group)} nodes{f' {shared}' if shared else ''} went away together",
            f"{_ago(group[0].since, fleet.now)}{bound}"
            + (f" · {_count(waiting, 'message')} {'waits' if waiting == 1 else 'wait'} for them" if waiting else ""),
            _SILENT, tuple(each.name for each in group), command=f"{fleet.program} nodes",
        )  # fmt: skip
    single = [each for each in fleet.nodes if each.state == AWAY and each.name not in grouped and not each.is_changing]
    for node in single[:_NAMED]:
        bound = f" · {_count(node.pods, 'pod') if node.pods else 'no pod'} bound to it" if fleet.has_all_pods else ""
        yield FleetFinding(
            "node-away", "bad", f"{node.name} is away",
            f"{_ago(node.since, fleet.now)}{bound}"
            + (f" · {node.last_word}" if node.last_word else ""),
            _advice(node, _SILENT), (node.name,), command=f"{fleet.program} nodes --history {node.name}",
        )  # fmt: skip
    if len(single) > _NAMED:
        rest = tuple(each.name for each in single[_NAMED:])
        verb = "is" if len(rest) == 1 else "are"
        yield FleetFinding(
            "node-away", "bad", f"{_count(len(rest), 'more node')} {verb} away", "", _SILENT, rest,
            command=f"{fleet.program} nodes",
        )  # fmt: skip


def _never(fleet: Fleet) -> Iterator[FleetFinding]:
    rows = [each for each in fleet.nodes if each.state == NEVER]
    if rows:
        reason = rows[0].reason if len(rows) == 1 else ""
        yield FleetFinding(
            "node-never", "warn", f"{_names(rows)} {_has(rows)} never been connected", reason,
            _advice(rows[0], "join it: `cloudcore token` here, then `edgecore join` there"),
            tuple(each.name for each in rows), command=f"{fleet.program} nodes",
        )  # fmt: skip


def _lost_or_behind(fleet: Fleet) -> Iterator[FleetFinding]:
    by_reason: defaultdict[tuple[str, str], list[NodeRow]] = defaultdict(list)
    for node in fleet.nodes:
        if node.state in (LOST, BEHIND) and not node.is_changing:
            by_reason[node.state, _kind_of(node.reason)].append(node)
    for (state, _), rows in by_reason.items():
        yield FleetFinding(
            f"node-{state}", "warn", f"{_names(rows)} {_is(rows)} {state}",
            _reason(rows[0]),
            _advice(rows[0], _SILENT if state == LOST else _HINDERED),
            tuple(each.name for each in rows), command=f"{fleet.program} nodes",
        )  # fmt: skip


def _changing(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find nodes that a job of the cloud is starting again, however long that takes: the job gives them up in time."""
    by_reason: defaultdict[str, list[NodeRow]] = defaultdict(list)
    for node in fleet.nodes:
        if node.is_changing and node.state in (LOST, BEHIND, AWAY):
            by_reason[node.reason].append(node)
    for reason, rows in by_reason.items():
        words = reason.removeprefix("it is ")
        yield FleetFinding(
            "node-changing", "warn", f"{_names(rows)} {_is(rows)} {words}", "",
            "wait: each connects again, or the job gives it up after its time",
            tuple(each.name for each in rows), command=f"{fleet.program} upgrade status {words.rpartition(' ')[2]}",
        )  # fmt: skip


def _certificates(fleet: Fleet) -> Iterator[FleetFinding]:
    for node in fleet.nodes:
        is_connected = node.state == CONNECTED
        text = certificate_words(node.certificate_ends, fleet.now, _RENEWED_DAYS if is_connected else CERTIFICATE_DAYS)
        if not text:
            continue
        detail = ""
        if node.certificate_ends <= fleet.now:
            remedy = f"it must join again: `cloudcore token --node {node.name}` here, then `edgecore join` there"
        elif is_connected:
            detail, remedy = "it is connected and has not renewed it", _ASK_DOCTOR
        else:
            text = f"{text}, and it is {node.state}"
            remedy = "it renews by itself when it connects before; after that it must join again"
        sentence = f"The certificate of {node.name} {text}"
        yield FleetFinding("certificate-ends", "warn", sentence, detail, remedy, (node.name,))


def _pressure(fleet: Fleet) -> Iterator[FleetFinding]:
    by_mark: defaultdict[tuple[str, ...], list[NodeRow]] = defaultdict(list)
    for node in fleet.nodes:
        if node.marks and node.state != AWAY:
            by_mark[node.marks].append(node)
    for marks, rows in by_mark.items():
        names = tuple(each.name for each in rows)
        yield FleetFinding(
            "node-pressure", "warn", f"{_names(rows)} {_has(rows)} {', '.join(marks)}",
            "new pods are refused there, and pods may be evicted", _ASK_DOCTOR, names,
        )  # fmt: skip


def _clocks(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find clocks that are wrong, as the nodes' keepalives say; many are one finding: it may be cloudcore's own."""
    wrong = [each for each in fleet.nodes if each.clock_ahead]
    if len(wrong) > _NAMED:
        names = tuple(each.name for each in wrong)
        sentence = f"The clocks of {_names(wrong)} are wrong"
        yield FleetFinding("clock-wrong", "warn", sentence, "or cloudcore's own is", f"{_CLOCK} and here", names)
        return
    for node in wrong:
        yield FleetFinding(
            "clock-wrong", "warn", f"The clock of {node.name} {clock_words(node.clock_ahead)}",
            "certificates, CronJobs and ages go by it", _CLOCK, (node.name,),
        )  # fmt: skip


def _versions(fleet: Fleet) -> Iterator[FleetFinding]:
    by_words: defaultdict[tuple[str, str], list[NodeRow]] = defaultdict(list)
    for node in fleet.nodes:
        if words := skew_words(node.version, fleet.version):
            by_words[node.version, words].append(node)
    for (version, words), rows in by_words.items():
        newer = words.startswith("newer")
        yield FleetFinding(
            "version-skew", "warn", f"{_names(rows)} {_has(rows)} an unsupported version", f"{version}: {words}",
            "update cloudcore: it is to be no older than its nodes" if newer else "update edgecore there",
            tuple(each.name for each in rows), command=f"{fleet.program} get nodes",
        )  # fmt: skip


def _failing_pods(fleet: Fleet) -> Iterator[FleetFinding]:
    states = {each.name: each.state for each in fleet.nodes}
    groups: defaultdict[tuple[str, str, str], list[FleetPodRow]] = defaultdict(list)
    for pod in fleet.pods:
        if not pod.is_troubled or states.get(pod.node) in (AWAY, NEVER):
            continue
        age = fleet.now - (seconds_of(pod.created) or fleet.now)
        if age > _STARTING_SECONDS or pod.status not in _STARTING:
            groups[pod.namespace if pod.owner else "", pod.owner, _word(pod)].append(pod)
    for (_, owner, word), rows in groups.items():
        sentence, detail = _of_pods(owner, word, rows)
        yield FleetFinding(
            "pods-failing", "bad" if word not in _STARTING else "warn", sentence, detail,
            pods=tuple(each.key for each in rows), command=f"{fleet.program} why pod {rows[0].key}",
        )  # fmt: skip


def _of_pods(owner: str, word: str, rows: Sequence[FleetPodRow]) -> tuple[str, str]:
    """Return the sentence and the detail of pods that fail alike, of a workload or without one."""
    do = "do" if len(rows) > 1 else "does"
    if not owner and len(rows) > 1:
        return f"{len(rows)} pods without a workload {do} not run ({word})", _listed([each.key for each in rows])
    nodes = sorted({each.node for each in rows if each.node})
    where = f"on {_listed(nodes)}" if nodes else "no node"
    who = f"{owner}: {_count(len(rows), 'pod')}" if owner else f"pod {rows[0].key}"
    return f"{who} {do} not run ({word})", f"{where} · {rows[0].why}" if rows[0].why else where


def _missing_pods(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find workloads whose pods cannot be made; a stopped rollout only if no pod that fails is a finding already."""
    failing = {(each.namespace, each.owner) for each in fleet.pods if each.is_troubled}
    for each in fleet.lacks:
        if each.missing or (each.namespace, each.owner) not in failing:
            yield FleetFinding(
                "pods-missing", "bad", each.words, each.why, each.remedy(fleet.program),
                command=f"{fleet.program} why {each.command}", workload=f"{each.namespace}/{each.owner}",
            )  # fmt: skip


def _stopped_jobs(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find jobs of nodes of the last week that have failed, unless another job goes on with them."""
    for each in fleet.jobs:
        if each.is_stopped and each.created is not None and fleet.now - each.created < _JOB_SECONDS:
            detail = " · ".join(filter(None, (counts_words(each.counts), each.reason)))
            remedy = f"go on with the nodes that are left: `{each.resume}`" if each.resume else ""
            yield FleetFinding(
                "job-stopped", "warn", f"{each.kind} {each.name} has stopped", detail, remedy,
                command=f"{fleet.program} upgrade status {each.name}", job=f"{each.kind}/{each.name}",
            )  # fmt: skip


def _silent_devices(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find devices that report nothing, or that their node calls ill: often one mapper has ended for all."""
    nodes = {each.name: each for each in fleet.nodes}
    groups: defaultdict[tuple[str, str, bool], list[DeviceRow]] = defaultdict(list)
    for facts in fleet.devices:
        node = nodes.get(facts.node)
        state = device_state(facts, node, fleet.now)
        if node is not None and state in SILENT and (state != UNKNOWN or facts.state):
            key = "" if state == OVERDUE else facts.node, state, bool(facts.refusal)
            groups[key].append(device_row(facts, node, fleet.now))
    for (_, state, is_refused), rows in groups.items():
        rows.sort(key=lambda each: each.newest)
        named, on = f"{rows[0].namespace}/{rows[0].name}", sorted({each.node for each in rows})
        words = "is refused by its mapper" if is_refused else TOLD[state]
        yield FleetFinding(
            "devices-overdue" if state == OVERDUE else "devices-silent", "warn",
            f"{named} on {on[0]} {words}" if len(rows) == 1
            else f"{len(rows)} devices on {_listed(on)} {words.replace('is ', 'are ', 1)}",
            rows[0].why if len(rows) == 1 else f"{named}: {rows[0].why}",
            "start a mapper that takes it, or correct the Device or its model" if is_refused
            else "does its mapper run? `edgecore doctor` there says",
            devices=tuple(f"{each.namespace}/{each.name}" for each in rows[:_NAMED]),
            command=f"{fleet.program} get devices,devicestatuses -A",
        )  # fmt: skip


def _stray_devices(fleet: Fleet) -> Iterator[FleetFinding]:
    """Find devices that name a node which the cloud does not know: no node gets them, and nothing says so. Without any
    node there is none yet, or they are not shown.
    """
    nodes = {each.name for each in fleet.nodes}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for facts in fleet.devices if nodes else ():
        if facts.node and facts.node not in nodes:
            groups[facts.node].append(f"{facts.namespace}/{facts.name}")
    for node, devices in groups.items():
        yield FleetFinding(
            "devices-stray", "warn",
            f"{_listed(devices)} {'is' if len(devices) == 1 else 'are'} for a node that is not there",
            f"spec.nodeName is {node}", "let that node join, or correct spec.nodeName", devices=tuple(devices[:_NAMED]),
            command=f"{fleet.program} get nodes",
        )  # fmt: skip


RULES: Final[tuple[Callable[[Fleet], Iterator[FleetFinding]], ...]] = (
    _away,
    _never,
    _lost_or_behind,
    _changing,
    _certificates,
    _pressure,
    _clocks,
    _versions,
    _failing_pods,
    _missing_pods,
    _stopped_jobs,
    _silent_devices,
    _stray_devices,
)


def _reason(node: NodeRow) -> str:
    """Return why a node is behind, and its last word unless that is the same."""
    is_said = not node.last_word or node.reason.endswith(node.last_word)
    return node.reason if is_said else f"{node.reason} · {node.last_word}"


def _advice(node: NodeRow, otherwise: str) -> str:
    """Return the remedy for a node; a refusal has its own."""
    return "" if node.reason.startswith(REFUSED) else otherwise


def _word(pod: FleetPodRow) -> str:
    if not pod.node and pod.status == "Pending":
        return "no node yet"
    return "not ready" if pod.status == "Running" else pod.status


def _kind_of(reason: str) -> str:
    """Return a reason without its figures, so that nodes behind for the same one are one finding."""
    return "".join(each for each in reason if not each.isdecimal())


def _names(rows: Sequence[NodeRow]) -> str:
    return _listed([each.name for each in rows])


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"


def _is(rows: Sequence[NodeRow]) -> str:
    return "are" if len(rows) > 1 else "is"


def _has(rows: Sequence[NodeRow]) -> str:
    return "have" if len(rows) > 1 else "has"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _ago(since: float, now: float) -> str:
    return f"{human_duration(int(max(0.0, now - since)))} ago"
