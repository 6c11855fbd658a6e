"""The answer of `/edgecore/state`: the state of the agent that no path of a kubelet has. Times are Unix times."""

from typing import Final

import msgspec

from modules.apimachinery.types.nodes import NodeCondition

PATH: Final = "/edgecore/state"
"""Path on the owner's socket."""


class ModuleReport(msgspec.Struct, frozen=True, gc=False):
    """A module of the bus."""

    state: str
    """`ready`, `not ready`, …, see `beehive.State`."""
    reason: str = ""
    """Why it is not ready."""
    inbox: int = 0
    """Messages that wait in its inbox."""
    restarts: int = 0
    """How often it was started again after a failure."""


class LinkReport(msgspec.Struct, frozen=True, gc=False):
    """The link to the cloud."""

    enabled: bool = False
    """Whether this node has a cloud."""
    server: str = ""
    """Address of the cloud."""
    connected_at: float | None = None
    """When it came up; None while it is down."""
    lost_at: float | None = None
    """When the last link ended; None if there was none."""
    failures: int = 0
    """Attempts in a row that failed."""
    why: str = ""
    """Why the last link ended or did not come up."""
    next_try: float | None = None
    """Seconds until the next attempt; None while one is made or the link is up."""
    replaced_at: float | None = None
    """When the cloud has last ended a link because another connection with the node's name took its place."""
    certificate_ends: float | None = None
    """When the node's certificate ends; None without one."""


class HeldMessages(msgspec.Struct, frozen=True, gc=False):
    """Messages of one class that edgehub holds for the cloud."""

    messages: int
    bytes: int


class WorkReport(msgspec.Struct, frozen=True, gc=False):
    """The queues of the pod workers."""

    waiting: int
    """Pods that wait for a worker."""
    working: int
    """Pods that a worker has."""
    due: dict[str, float]
    """Seconds until a pod is synced next, by uid."""
    failed: tuple[str, ...] = ()
    """Uids of the pods whose last sync failed."""


class AgentState(msgspec.Struct, frozen=True, gc=False):
    """The state of the agent."""

    now: float
    node: str
    version: str
    started_at: float
    runtime: str = ""
    """Name and version of the container runtime; empty before it has answered."""
    capacity: dict[str, str] = {}
    """Capacity of the node: `cpu`, `memory`, `pods`, …"""
    conditions: tuple[NodeCondition, ...] = ()
    """Conditions of the node, as edged last found them; the cloud may not have received them."""
    modules: dict[str, ModuleReport] = {}
    link: LinkReport = LinkReport()
    held: dict[str, HeldMessages] = {}
    """Messages for the cloud, by class."""
    work: WorkReport | None = None
    """None where edged does not run."""
    asked: tuple[str, ...] = ()
    """Resources that metamanager has asked the cloud for without an answer yet; the first `MOST_ASKED`."""


MOST_ASKED: Final = 50
