"""The decisions of `cloudcore doctor` about a cluster: from the gathered facts to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.processes.edgecore.doctor.check_result import CheckResult, failed, ok, unknown, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from modules.processes.cloudcore.cluster_rights import Right

_OLDEST: Final = (1, 22)
"""KubeEdge of 2026 supports 1.30 and later; the kinds and verbs that cloudcore uses are those of 1.22."""
_SKEW: Final = 10.0
"""Seconds that clocks may differ: leases of nodes live 40 s, tokens minutes."""
_SHOWN: Final = 10


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The gathered facts about a cluster."""

    where: str
    """The kubeconfig and its context, or that it is the pod's cluster."""
    error: str = ""
    """Why the API server could not be asked."""
    version: str = ""
    """`gitVersion` of the API server."""
    skew: float | None = None
    """Seconds by which the API server's clock is ahead of this one; None: it did not say."""
    denied: Sequence[Right] = ()
    asked: int = 0
    """Rights that were asked for."""
    unanswered: str = ""
    """Why rights could not be asked for."""
    edge_nodes: int = 0
    """Nodes of the cluster that are edge nodes."""
    device_kinds: Mapping[str, int] = {}
    """The HTTP status of a list of each kind of devices, by plural."""


def check_cluster(facts: ClusterFacts) -> list[CheckResult]:
    """Return the result of each check."""
    if facts.error:
        hint = "does this machine reach the API server, and is the user of the kubeconfig right?"
        return [failed("cluster", f"{facts.where}: {facts.error}", hint)]
    return [_version(facts), *_clock(facts.skew), *_rights(facts), _nodes(facts), _devices(facts.device_kinds)]


def _version(facts: ClusterFacts) -> CheckResult:
    text = f"{facts.where}: Kubernetes {facts.version}"
    number = _number(facts.version)
    if number is None:
        return warning("cluster", f"{facts.where}: its version is {facts.version[:40]!r}", "is it a Kubernetes API?")
    if number < _OLDEST:
        return failed("cluster", text, f"cloudcore needs {_OLDEST[0]}.{_OLDEST[1]} or later")
    return ok("cluster", text)


def _number(version: str) -> tuple[int, int] | None:
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _clock(skew: float | None) -> Iterator[CheckResult]:
    if skew is not None and abs(skew) > _SKEW:
        word = "ahead of" if skew > 0 else "behind"
        text = f"the API server's is {abs(skew):.0f} s {word} this machine's"
        yield warning("clock", text, "set both by NTP: certificates, tokens and leases go by them")


def _rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    if facts.unanswered:
        yield unknown("rights", facts.unanswered, "SelfSubjectAccessReview must be allowed")
        return
    if not facts.denied:
        yield ok("rights", f"all {facts.asked} that cloudcore uses are granted")
        return
    shown = ", ".join(f"{right.verb} {_resource(right)}" for right in facts.denied[:_SHOWN])
    more = f" and {len(facts.denied) - _SHOWN} more" if len(facts.denied) > _SHOWN else ""
    hint = "apply the roles of deploy/cloudcore.yaml and bind them to this user"
    yield failed("rights", f"missing: {shown}{more}", hint)


def _resource(right: Right) -> str:
    name, slash, subresource = right.resource.partition("/")
    text = f"{name}.{right.group}{slash}{subresource}" if right.group else right.resource
    return f"{text} in {right.namespace}" if right.namespace else text


def _nodes(facts: ClusterFacts) -> CheckResult:
    if not facts.edge_nodes:
        hint = "run edgecore on a machine, with this cloudcore as its server"
        return warning("edge nodes", "none has registered in the cluster", hint)
    return ok("edge nodes", f"{facts.edge_nodes} in the cluster")


def _devices(kinds: Mapping[str, int]) -> CheckResult:
    """Return whether devices are served, which a cluster need not have."""
    absent, refused = ([name for name, status in kinds.items() if status == code] for code in (404, 403))
    if refused:
        hint = "apply the role cloudcore-devices of deploy/cloudcore.yaml and bind it to this user"
        return warning("devices", f"not served: {', '.join(refused)} may not be listed", hint)
    if absent == ["devicestatuses"]:
        text = "what nodes report of them is not stored: the cluster has no DeviceStatuses"
        return warning("devices", text, "apply deploy/devices.yaml")
    return ok("devices", "none: the cluster does not define their kinds" if absent else "their kinds are defined")
