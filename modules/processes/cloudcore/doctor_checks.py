"""The decisions of `cloudcore doctor`: from the gathered facts to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.cloud.messages import Cloudcores
from modules.processes.common.doctor.check_result import CheckResult, failed, ok, warning
from modules.tools.printing.ages import human_duration
from modules.tools.printing.columns import node_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from modules.apimachinery.kinds import JsonObject
    from modules.cloud.messages import NodeConnection

_DAY: Final = 24 * 3600.0
_MIB: Final = 1024 * 1024
_SOON: Final = 30 * _DAY
"""Seconds before the end of a certificate when warnings begin."""
_UNACKNOWLEDGED: Final = 60.0
"""Seconds that a node may take to acknowledge a message; cloudcore repeats it each five."""
_RECENT: Final = 600.0
"""Seconds during which an error of a node is reported."""
_TESTED_KIND: Final = "postgresql"
_TESTED: Final = 15
"""The oldest version of PostgreSQL that is tested."""
_SHOWN: Final = 20
"""Most nodes whose problems are reported, and most pods that are named."""


class DatabaseServer(msgspec.Struct, frozen=True):
    """The server of a database."""

    where: str
    """Its URL, without the password."""
    kind: str
    """`postgresql`, or another dialect of SQLAlchemy."""
    version: tuple[int | str, ...] = ()
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
    free_bytes: int | None = None
    """Bytes that are free where the database is; None: it is not a file here."""
    database: DatabaseServer | None = None
    """None: the database is a file, or absent."""
    certificates: Mapping[str, float | None] = {}
    """By its file, the end of each certificate in the authority's directory, seconds since the epoch; None: it cannot
    be read."""
    nodes: Sequence[JsonObject] = ()
    pods: Sequence[JsonObject] = ()
    connections: Sequence[NodeConnection] = ()
    cloudcores: Cloudcores = Cloudcores("", ())


def check_cloud(facts: CloudFacts) -> list[CheckResult]:
    """Return the result of each check."""
    found = [_process(facts)]
    if facts.free_bytes is not None:
        found.append(_space(facts.free_bytes))
    if facts.database is not None:
        found.append(_server(facts.database))
    found += [_certificate(path, end, facts.now) for path, end in sorted(facts.certificates.items())]
    if facts.process:
        found += [*_cloudcores(facts.cloudcores), *_nodes(facts), *_pods(facts)]
    return found


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
    if len(known.alive) > 1:
        yield ok("cloudcores", f"{len(known.alive)} are alive: {', '.join(known.alive[:_SHOWN])}; this is {known.own}")


def _nodes(facts: CloudFacts) -> Iterator[CheckResult]:
    ready = sum(node_ready(node).startswith("Ready") for node in facts.nodes)
    yield ok(
        "nodes", f"{ready} of {len(facts.nodes)} are ready, {len(facts.connections)} are connected to this cloudcore"
    )
    connections = {one.node: one for one in facts.connections}
    elsewhere = facts.cloudcores.elsewhere()
    troubled = [
        result
        for node in facts.nodes
        for result in _node(node, connections.get(node["metadata"]["name"]), elsewhere.get(node["metadata"]["name"]))
    ]
    names = {str(node["metadata"]["name"]) for node in facts.nodes}
    for name in sorted(connections.keys() - names):
        hint = "it may not register: edgecore's log says why"
        troubled.append(warning(f"node {name}", "it is connected and has not registered", hint))
    yield from troubled[:_SHOWN]
    if len(troubled) > _SHOWN:
        yield warning("nodes", f"{len(troubled) - _SHOWN} more problems of nodes", "see `cloudcore nodes`")


def _node(node: JsonObject, connection: NodeConnection | None, holder: str | None) -> Iterator[CheckResult]:
    check = f"node {node['metadata']['name']}"
    status = node_ready(node)
    if connection is None and not status.startswith("Ready"):
        hint = "is edgecore running there, and does it reach this cloud? `edgecore doctor` says, on the node"
        yield failed(check, f"{status}, and not connected", hint)
        return
    if not status.startswith("Ready"):
        yield failed(check, f"{status}, and connected", "`edgecore doctor` on the node says what it lacks")
    if connection is None:
        if holder is None:
            yield warning(check, "it is not connected to this cloudcore", "it may be connected to another one")
        return
    if connection.unacknowledged and connection.oldest_seconds >= _UNACKNOWLEDGED:
        text = f"it has not acknowledged {connection.unacknowledged} messages, the oldest for "
        hint = "it may be unable to store them: is its disk full? `edgecore doctor` says, on the node"
        yield failed(check, text + human_duration(int(connection.oldest_seconds)), hint)
    if connection.is_behind:
        yield warning(
            check, f"it reads slowly; {connection.waiting} messages wait", "its link is slower than its changes"
        )
    if connection.last_error and connection.last_error_seconds <= _RECENT:
        ago = human_duration(int(connection.last_error_seconds))
        yield warning(check, f"its last error, {ago} ago: {connection.last_error}", "see cloudcore's log")


def _pods(facts: CloudFacts) -> Iterator[CheckResult]:
    known = {str(node["metadata"]["name"]) for node in facts.nodes}
    unbound = [pod for pod in facts.pods if not (pod.get("spec") or {}).get("nodeName")]
    if unbound:
        hint = "`cloudcore describe pod` says why"
        yield warning("pods", f"{len(unbound)} have no node: {_names(unbound)}", hint)
    lost = [pod for pod in facts.pods if (node := (pod.get("spec") or {}).get("nodeName")) and node not in known]
    if lost:
        hint = "they wait until such a node registers: is its name right?"
        yield warning("pods", f"{len(lost)} are on nodes that do not exist: {_names(lost)}", hint)


def _names(pods: Sequence[JsonObject]) -> str:
    shown = [f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}" for pod in pods[:_SHOWN]]
    return ", ".join(shown) + (", …" if len(pods) > _SHOWN else "")
