"""The decisions of `cloudcore doctor` about a cluster: from the gathered facts to results."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from modules.apimachinery.printing.ages import human_duration
from modules.cloud.edgecontroller.state import node_states
from modules.processes.cloudcore.cluster_rights import OPTIONAL, Right
from modules.processes.common.doctor.check_result import CheckResult, failed, ok, unknown, warning

_OLDEST: Final = (1, 22)
"""KubeEdge of 2026 supports 1.30 and later; the kinds and verbs that cloudcore uses are from 1.22."""
_SKEW: Final = 10.0
"""Seconds that clocks may differ: leases of nodes live 40 s, tokens minutes."""
_SHOWN: Final = 10
_SOON: Final = 30 * 24 * 3600.0
"""Seconds before the end of a certificate when warnings begin."""
_OLDER: Final = 3
"""Minor versions that a kubelet may be older than the API server (Kubernetes' version skew policy); none newer."""
_DEVICES: Final = "devices.kubeedge.io"
_STATE_GROUP: Final = node_states.API_VERSION.partition("/")[0]


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The gathered facts about a cluster."""

    where: str
    """The kubeconfig and its context, or that it is the pod's cluster."""
    error: str = ""
    """Why the API server could not be asked."""
    version: str = ""
    """`gitVersion` of the API server."""
    skew: float | None = None
    """Seconds that the API server's clock is ahead; None: it did not say."""
    denied: Sequence[Right] = ()
    asked: int = 0
    """Rights that were asked for."""
    unanswered: str = ""
    """Why rights could not be asked for."""
    lacking_roles: Sequence[str] = ()
    """Optional roles whose rights the user does not have."""
    node_versions: Mapping[str, int] = {}
    """The kubelet versions of edge nodes, and how many nodes have each."""
    groups: Container[str] = ()
    """The API groups of the cluster."""
    certificate_left: float | None = None
    """Seconds until the kubeconfig's client certificate ends; None without one."""
    device_kinds: Mapping[str, int] = {}
    """The HTTP status of a list of each kind of devices, by plural."""


def check_cluster(facts: ClusterFacts, *, keeps_state: bool = False) -> list[CheckResult]:
    """Return the result of each check.

    Args:
        facts: about the cluster.
        keeps_state: whether cloudcore runs with `--state cluster`.
    """
    certificate = list(_certificate(facts.certificate_left))
    if facts.error:
        hint = "does this machine reach the API server, and is the user of the kubeconfig right?"
        return [failed("cluster", f"{facts.where}: {facts.error}", hint), *certificate]
    return [
        _version(facts), *certificate, *_clock(facts.skew), *_rights(facts), *_optional_roles(facts),
        *(_state(facts) if keeps_state else ()), *_nodes(facts), _devices(facts.device_kinds),
    ]  # fmt: skip


def _certificate(left: float | None) -> Iterator[CheckResult]:
    """Yield the state of the kubeconfig's client certificate."""
    if left is None:
        return
    hint = "issue a new one, or use a token; cloudcore reads the file again when it changes"
    if left <= 0:
        yield failed("kubeconfig", f"its client certificate expired {human_duration(int(-left))} ago", hint)
    elif left < _SOON:
        yield warning("kubeconfig", f"its client certificate expires in {human_duration(int(left))}", hint)
    else:
        yield ok("kubeconfig", f"its client certificate expires in {human_duration(int(left))}")


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


def _optional_roles(facts: ClusterFacts) -> Iterator[CheckResult]:
    for name in facts.lacking_roles:
        if OPTIONAL[name].group != _DEVICES or 403 not in facts.device_kinds.values():
            hint = f"if a node needs this, apply the role {name} of deploy/cloudcore.yaml and bind it to this user"
            yield warning("rights", f"not all of {name}: {OPTIONAL[name].lack}", hint)


def _state(facts: ClusterFacts) -> Iterator[CheckResult]:
    if _STATE_GROUP in facts.groups:
        yield ok("state", "NodeStates are defined")
    else:
        text = "the cluster does not define NodeStates: after each start nodes are sent everything again"
        yield failed("state", text, "apply the CustomResourceDefinition of deploy/cloudcore.yaml")


def _nodes(facts: ClusterFacts) -> Iterator[CheckResult]:
    if not facts.node_versions:
        hint = "run edgecore on a machine, with this cloudcore as its server"
        yield warning("edge nodes", "none has registered in the cluster", hint)
        return
    yield ok("edge nodes", f"{sum(facts.node_versions.values())} in the cluster")
    server = _number(facts.version)
    strange = [_counted(*each) for each in sorted(facts.node_versions.items()) if not _fits(each[0], server)]
    if strange:
        text = f"outside of Kubernetes' version skew policy for an API server {facts.version}: {', '.join(strange)}"
        hint = f"a kubelet may be up to {_OLDER} minor versions older than the API server, and not newer"
        yield warning("node versions", text, hint)


def _fits(version: str, server: tuple[int, int] | None) -> bool:
    number = _number(version)
    if number is None or server is None:
        return server is None
    return number[0] == server[0] and server[1] - _OLDER <= number[1] <= server[1]


def _counted(version: str, nodes: int) -> str:
    return f"{version[:40] or 'none'} ({nodes} node{'s' if nodes > 1 else ''})"


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
