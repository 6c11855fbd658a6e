"""The part of a fleet that a user may see; in place of a hidden part stands the right that is missing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from modules.apimachinery.node_jobs import API_VERSION
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.jobs import JOBS
from modules.insight.fleet.lacks import WORKLOADS

NODES: Final = "nodes"
PODS: Final = "pods"
DEVICES: Final = "devices"
"""The parts that the pages are made of."""
DEVICE_GROUP: Final = "devices.kubeedge.io"
DEVICE_KINDS: Final = ("devices", "devicemodels", "devicestatuses")
CHANGES_PATH: Final = "/cloudcore/changes"
"""The path of the change journal."""
MOST_NAMESPACES: Final = 200
"""Namespaces whose rights are looked up."""
_NAMED: Final = 5

Refusal = Callable[[AccessRequest], str]
"""Returns why a user may not do something; "" if the user may."""


class Sight(NamedTuple):
    """The kinds and namespaces that a user may see."""

    has_nodes: bool = True
    """Whether the Nodes, and cloudcore's own facts about their links."""
    pods_in: frozenset[str] | None = None
    """The namespaces whose pods are seen; None for all."""
    devices_in: frozenset[str] | None = None
    """The namespaces whose Devices, DeviceModels and DeviceStatuses are seen; None for all."""

    has_jobs: bool = True
    """Whether the jobs of nodes."""
    has_workloads: bool = True
    """Whether the workloads of all namespaces: only they say which pods could not be made."""

    @property
    def is_whole(self) -> bool:
        """Whether the links of all nodes and all pods are seen."""
        return self.has_nodes and self.pods_in is None

    def has_pods(self, namespace: str) -> bool:
        """Return whether the pods of a namespace are seen."""
        return self.pods_in is None or namespace in self.pods_in

    def has_devices(self, namespace: str) -> bool:
        """Return whether the devices of a namespace are seen."""
        return self.devices_in is None or namespace in self.devices_in


class UserSight(NamedTuple):
    """The part of a picture that a user sees, and why not more."""

    sight: Sight
    forbidden: Mapping[str, str]
    """By part, the right that is missing for all of it."""


def nothing_refused(asked: AccessRequest) -> str:  # noqa: ARG001 - a `Refusal`
    """Refuse nothing: the owner of a command may see everything."""
    return ""


def seen_by(
    refusal: Refusal,
    pods: Callable[[], Iterable[str]],
    devices: Callable[[], Iterable[str]],
    most: int = MOST_NAMESPACES,
) -> UserSight:
    """Return the part of the fleet that a user sees.

    Args:
        refusal: the user's rights.
        pods: returns the namespaces with pods, for a user who may not list pods in all namespaces.
        devices: returns the namespaces with devices, likewise.
        most: namespaces of each whose rights are looked up.
    """
    nodes = refusal(_listing("", NODES, ""))
    pods_in, of_pods = _namespaces(refusal, (("", PODS),), pods, most)
    devices_in, of_devices = _namespaces(refusal, tuple((DEVICE_GROUP, each) for each in DEVICE_KINDS), devices, most)
    workloads = any(refusal(_listing("batch" if each == "jobs" else "apps", each, "")) for each in WORKLOADS)
    group, _, _ = API_VERSION.partition("/")
    jobs = any(refusal(_listing(group, kind.plural, "")) for kind in JOBS.values())
    refused = {NODES: nodes, PODS: of_pods, DEVICES: of_devices}
    return UserSight(
        Sight(not nodes, pods_in, devices_in, not jobs, not workloads),
        {part: why for part, why in refused.items() if why},
    )


def _namespaces(
    refusal: Refusal, kinds: Iterable[tuple[str, str]], namespaces: Callable[[], Iterable[str]], most: int
) -> tuple[frozenset[str] | None, str]:
    """Return the namespaces where a user may list all of some kinds, None for all, and why not all."""
    why = next((text for group, kind in kinds if (text := refusal(_listing(group, kind, "")))), "")
    if not why:
        return None, ""
    known = sorted(namespaces())
    found = [each for each in known[:most] if not any(refusal(_listing(group, kind, each)) for group, kind in kinds)]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = f"; shown are those in {', '.join(found[:_NAMED])}{more}" if found else ""
    unread = f"; {len(known) - most} namespaces were not looked at" if len(known) > most else ""
    return frozenset(found), f"{why}{shown}{unread}"


def _listing(group: str, kind: str, namespace: str) -> AccessRequest:
    return AccessRequest(verb="list", group=group, resource=kind, namespace=namespace)
