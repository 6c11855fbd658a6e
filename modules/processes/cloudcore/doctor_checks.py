"""The decisions of `cloudcore doctor`: from the gathered facts to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.columns import node_ready
from modules.apimachinery.printing.fields import text_at
from modules.cloud.messages import Cloudcores
from modules.insight.fleet.rows import pod_row
from modules.page.nodes import short_node
from modules.page.picture import Links, Picture
from modules.processes.cloudcore.control_service import AuditState
from modules.processes.common.doctor.check_result import CheckResult, failed, ok, warning
from modules.processes.common.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from modules.apimachinery.kinds import JsonObject
    from modules.cloud.messages import LinkSession, NodeConnection
    from modules.insight.fleet.devices import DeviceFacts
    from modules.insight.fleet.findings import FleetFinding
    from modules.insight.fleet.jobs import JobRow
    from modules.insight.fleet.lacks import Lack

_DAY: Final = 24 * 3600.0
_MIB: Final = 1024 * 1024
_SOON: Final = 30 * _DAY
"""Seconds before the end of a certificate when warnings begin."""
_FAILURES: Final = ("nodes-lost-together", "node-away", "node-lost", "node-behind", "node-never")
"""Rules whose findings are failures of the cloud or its nodes; the others are warnings."""
_RECENT: Final = 600.0
"""Seconds during which an error of a node is reported."""
_TESTED_KIND: Final = "postgresql"
_TESTED: Final = 15
"""The oldest version of PostgreSQL that is tested."""
_SHOWN: Final = 20
"""Most nodes whose errors are reported, and most pods that are named."""


class DatabaseServer(msgspec.Struct, frozen=True):
    """The server of a database."""

    where: str
    """Its URL, without the password."""
    kind: str
    """`postgresql`, or another dialect of SQLAlchemy."""
    version: tuple[int | str, ...] = ()
    is_verified: bool = True
    """Whether it is on this machine, or has to prove its name."""
    error: str = ""
    """Why it cannot be used."""


class CloudFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The gathered facts about a cloudcore."""

    now: float
    """Seconds since the epoch."""
    process: int = 0
    """Process with the control socket; 0: none."""
    socket: str = ""
    unready: str = ""
    """Why cloudcore is not ready; empty when it is."""
    unanswered: str = ""
    """Why the API server has not told the nodes and pods, as of a cluster that is away; empty if it has."""
    free_bytes: int | None = None
    """Bytes that are free where the database is; None: it is not a file here."""
    database: DatabaseServer | None = None
    """None: the database is a file, or absent."""
    certificates: Mapping[str, float | None] = {}
    """By its file, the end of each certificate in the authority's directory, seconds since the epoch; None: it cannot
    be read."""
    nodes: Sequence[JsonObject] = ()
    pods: Sequence[JsonObject] = ()
    devices: Sequence[DeviceFacts] = ()
    unevaluated: Sequence[str] = ()
    """The names of CustomResourceDefinitions with rules in CEL."""
    lacks: Sequence[Lack] = ()
    """The workloads whose pods cannot be made."""
    jobs: Sequence[JobRow] = ()
    """The jobs of nodes."""
    connections: Sequence[NodeConnection] = ()
    refused: Mapping[str, str] = {}
    """By node, why its connection is refused."""
    sessions: Sequence[LinkSession] = ()
    """The newest connections in the link journal."""
    cloudcores: Cloudcores = Cloudcores("", ())
    audit: AuditState = AuditState()


def check_cloud(facts: CloudFacts) -> list[CheckResult]:
    """Return the result of each check."""
    found = [_process(facts)]
    if facts.free_bytes is not None:
        found.append(_space(facts.free_bytes))
    if facts.database is not None:
        found.append(_server(facts.database))
    found += [_certificate(path, end, facts.now) for path, end in sorted(facts.certificates.items())]
    if facts.audit.path:
        found.append(_audit(facts.audit))
    if facts.unanswered:
        hint = "nodes, pods and devices are not known until it answers; those that run go on"
        found.append(failed("API server", facts.unanswered, hint))
    elif facts.process:
        found += [*_cloudcores(facts.cloudcores), *_definitions(facts.unevaluated), *_nodes(facts), *_pods(facts)]
    return found


def _definitions(unevaluated: Sequence[str]) -> list[CheckResult]:
    if not unevaluated:
        return []
    named = ", ".join(unevaluated[:_SHOWN])
    text = f"rules in CEL are not evaluated ({len(unevaluated)}): {named}{', …' if len(unevaluated) > _SHOWN else ''}"
    hint = "objects that break them are taken here, and refused by a cluster; their controllers may check them"
    return [warning("definitions", text, hint)]


def _audit(log: AuditState) -> CheckResult:
    if not log.dropped:
        return ok("audit log", log.path)
    text = f"{log.path} has gaps: {log.dropped} events are missing{f' ({log.failure})' if log.failure else ''}"
    hint = "free the disk, or give --audit-log-path, --audit-log-maxsize and --audit-log-maxbackup room on another one"
    return (failed if log.failure else warning)("audit log", text, hint)


def _process(facts: CloudFacts) -> CheckResult:
    if not facts.process:
        return failed(
            "cloudcore", f"nothing answers on {facts.socket}", "start it: `cloudcore run`, or name its --root"
        )
    if facts.unready:
        return failed("cloudcore", f"process {facts.process} is not ready: {facts.unready}", "see its log")
    return ok("cloudcore", f"process {facts.process} is ready")


def _space(free: int) -> CheckResult:
    text = f"{free // _MIB} MiB are free where the database is"
    if free < 64 * _MIB:
        return failed("database", text, "free some: cloudcore cannot store without room")
    return warning("database", text, "free some soon") if free < 1024 * _MIB else ok("database", text)


def _server(server: DatabaseServer) -> CheckResult:
    if server.error:
        hint = "is the server running, does this machine reach it, and is the user right? nodes wait until it answers"
        return failed("database", f"{server.where}: {server.error}", hint)
    text = f"{server.where}: {server.kind} {'.'.join(map(str, server.version))}"
    if server.kind != _TESTED_KIND:
        return warning("database", text, "SQLite and PostgreSQL are tested, this one is not")
    if not isinstance(server.version[0], int) or server.version[0] < _TESTED:
        return warning("database", text, f"PostgreSQL {_TESTED} and later are tested")
    if not server.is_verified:
        hint = "add ?sslmode=verify-full to its URL: Secrets pass the network, and any server may answer in its place"
        return warning("database", f"{text}, over the network without proof of its name", hint)
    return ok("database", text)


def _certificate(path: str, end: float | None, now: float) -> CheckResult:
    if end is None:
        hint = "run doctor as the user of cloudcore, or restore the file from a backup"
        return failed("certificate", f"{path} cannot be read", hint)
    left = end - now
    if left <= 0:
        hint = "nodes no longer trust it: restore a backup, or remove the directory and join all nodes again"
        return failed("certificate", f"{path} expired {human_duration(int(-left))} ago", hint)
    text = f"{path} expires in {human_duration(int(left))}"
    return warning("certificate", text, "plan its renewal") if left < _SOON else ok("certificate", text)


def _cloudcores(known: Cloudcores) -> Iterator[CheckResult]:
    if known.cloud:
        yield ok("cloud", f"it is called {known.cloud}")
    if len(known.alive) > 1:
        yield ok("cloudcores", f"{len(known.alive)} are alive: {', '.join(known.alive[:_SHOWN])}; this is {known.own}")


def _nodes(facts: CloudFacts) -> Iterator[CheckResult]:
    ready = sum(node_ready(node).startswith("Ready") for node in facts.nodes)
    yield ok(
        "nodes", f"{ready} of {len(facts.nodes)} are ready, {len(facts.connections)} are connected to this cloudcore"
    )
    found, more = _findings(facts)
    yield from (_result(each) for each in found)
    if more:
        yield failed("nodes", f"{more} more problems", "see `cloudcore page`")
    named = {name for each in found for name in each.nodes}
    errors = [
        warning(f"node {one.node}", f"its last error, {human_duration(int(one.last_error_seconds))} ago: "
                f"{one.last_error}", "see cloudcore's log")
        for one in facts.connections
        if one.last_error and one.last_error_seconds <= _RECENT and one.node not in named
    ]  # fmt: skip
    yield from errors[:_SHOWN]
    if len(errors) > _SHOWN:
        yield warning("nodes", f"{len(errors) - _SHOWN} more nodes had errors", "see `cloudcore nodes`")


def _findings(facts: CloudFacts) -> tuple[Sequence[FleetFinding], int]:
    """Return what needs attention by the rules of the page, and the number of further findings.

    Pods without a node, or of a node that does not exist, are `_pods`'.
    """
    known = {text_at(node, "metadata.name") for node in facts.nodes}
    picture = Picture(lambda: facts.now, version=VERSION)
    picture.put_nodes([short_node(each) for each in facts.nodes])
    picture.put_pods([pod_row(each) for each in facts.pods if text_at(each, "spec.nodeName") in known])
    picture.put_sessions(facts.sessions)
    picture.put_devices(facts.devices)
    picture.put_lacks(facts.lacks)
    picture.put_jobs(facts.jobs)
    picture.put_links(Links({one.node: one for one in facts.connections}, facts.cloudcores.elsewhere(), facts.refused))
    head = picture.changes(0, ()).head
    return (head.findings, head.more) if head is not None else ((), 0)


def _result(finding: FleetFinding) -> CheckResult:
    kind = (
        "pods"
        if finding.pods or finding.workload
        else "devices"
        if finding.devices
        else "jobs"
        if finding.job
        else "nodes"
    )
    check = f"node {finding.nodes[0]}" if len(finding.nodes) == 1 else kind
    text = f"{finding.sentence}: {finding.detail}" if finding.detail else finding.sentence
    made = failed if finding.rule in _FAILURES else warning
    return made(check, text, finding.remedy or f"`{finding.command}` says more")


def _pods(facts: CloudFacts) -> Iterator[CheckResult]:
    known = {str(node["metadata"]["name"]) for node in facts.nodes}
    unbound = [pod for pod in facts.pods if not (pod.get("spec") or {}).get("nodeName")]
    if unbound:
        verb = "has" if len(unbound) == 1 else "have"
        hint = "`cloudcore why pod` says why"
        yield warning("pods", f"{len(unbound)} {verb} no node: {_names(unbound)}", hint)
    lost = [pod for pod in facts.pods if (node := (pod.get("spec") or {}).get("nodeName")) and node not in known]
    if lost:
        hint = "they wait until such a node registers: is its name right?"
        verb = "is" if len(lost) == 1 else "are"
        yield warning("pods", f"{len(lost)} {verb} on nodes that do not exist: {_names(lost)}", hint)


def _names(pods: Sequence[JsonObject]) -> str:
    shown = [f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}" for pod in pods[:_SHOWN]]
    return ", ".join(shown) + (", …" if len(pods) > _SHOWN else "")
