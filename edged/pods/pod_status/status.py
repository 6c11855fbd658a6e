"""The status of a pod for the cloud (kubelet's generateAPIPodStatus)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from edged.pods.actions import ContainerWait
from edged.pods.addresses import sort_pod_ips
from edged.pods.config.sandbox_config import runtime_handler
from edged.pods.kill_options import KillOptions
from edged.pods.model import PodFacts, PodRef, ProbeFacts
from edged.pods.pod_status.conditions import pod_conditions
from edged.pods.pod_status.container_status import (
    StatusInput,
    ephemeral_statuses,
    init_statuses,
    lost,
    regular_statuses,
)
from edged.pods.pod_status.phase import Phase, has_started, pod_phase
from modules.apimachinery.pods.qos import qos_class
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Nanoseconds,
    Pod,
    PodIP,
    PodStatus,
    format_time,
    seconds,
)

CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
ERR_IMAGE_PULL = "ErrImagePull"
IMAGE_INSPECT_ERROR = "ImageInspectError"
REGISTRY_UNAVAILABLE = "RegistryUnavailable"
SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"
ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
INVALID_IMAGE_NAME = "InvalidImageName"
CREATE_CONFIG_ERROR = "CreateContainerConfigError"
CREATE_ERROR = "CreateContainerError"
RUN_ERROR = "RunContainerError"
POST_START_ERROR = "PostStartHookError"

LONGEST_OF_POD = 12 * 1024
"""Bytes that all containers of a pod share evenly (MaxPodTerminationMessageLogLength)."""


class NodeView(Struct, frozen=True, gc=False):
    """The node's part of a pod's status: its addresses, primary first, the runtime's name (`containerd`), and its
    handlers with recursive read-only mounts.
    """

    ips: tuple[str, ...]
    runtime: str
    recursive_read_only: frozenset[str] = frozenset()


def pod_status(
    pod: Pod,
    facts: PodFacts,
    node: NodeView,
    now: Nanoseconds,
    *,
    old: PodStatus | None = None,
    probes: ProbeFacts | None = None,
    waiting_reasons: Mapping[str, ContainerStateWaiting] | None = None,
    ended: bool = False,
    kill: KillOptions | None = None,
    is_on_hold: bool = False,
) -> PodStatus:
    """Return the whole status of the pod.

    Args:
        old: the last reported status (the pod's own when omitted); times and exits carry over from it.
        waiting_reasons: by container name, why a worker could not start it (see `crash_loop`).
        ended: the pod was killed for good: its containers will not be started again.
        kill: set when this node ends the pod. Phase, reason and message then change together, once `ended` is true:
            until then the containers' exits do not change the phase.
        is_on_hold: whether the pod waits for a release by the owner of the node.
    """
    before = pod.status if old is None else old
    if kill is not None and kill.rejected and ended:
        return _rejected(pod, before, kill, now)
    if _had_no_containers(pod, facts, before):
        return before
    is_recursive = runtime_handler(pod) in node.recursive_read_only
    given = StatusInput(pod, facts, probes or ProbeFacts(), node.runtime, waiting_reasons or {}, is_recursive)
    status = PodStatus(
        observed_generation=pod.metadata.generation,
        container_statuses=regular_statuses(given, before.container_statuses),
        init_container_statuses=init_statuses(given, before.init_container_statuses),
        ephemeral_container_statuses=ephemeral_statuses(given, before.ephemeral_container_statuses),
        host_ip=node.ips[0] if node.ips else "",
        host_ips=tuple(HostIP(ip=ip) for ip in node.ips),
        start_time=before.start_time or format_time(now),
        qos_class=before.qos_class or qos_class(pod),
    )
    status = _with_short_messages(pod, status)
    if ended:
        status = _without_open_ends(pod, status)
    phase = pod_phase(pod, status, ended=ended, replaced=_replaced(pod, facts))
    if ended and (kill is not None or not phase.final):
        phase = Phase.FAILED
    status = _with_phase(status, before, phase, ended=ended, kill=kill)
    ips = _pod_ips(pod, facts, node, before)
    return replace(
        status,
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        conditions=pod_conditions(pod, facts, status, before, format_time(now), kill, is_on_hold=is_on_hold),
    )


def crash_loop(ref: PodRef, wait: ContainerWait) -> ContainerStateWaiting:
    """Return the waiting reason of a container in back-off."""
    message = f"back-off {go_duration(wait.delay)} restarting failed container={wait.container.name} pod={ref.with_uid}"
    return ContainerStateWaiting(reason=CRASH_LOOP_BACK_OFF, message=message)


def go_duration(length: Nanoseconds) -> str:
    """Format whole seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(length // seconds(1), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _replaced(pod: Pod, facts: PodFacts) -> frozenset[str]:
    newest = (facts.newest(container.name) for container in pod.spec.containers)
    return frozenset(each.name for each in newest if each is not None and each.replaced)


def _had_no_containers(pod: Pod, facts: PodFacts, before: PodStatus) -> bool:
    """Return whether a pod is at its end for a reason, and never had containers: admission has rejected it."""
    is_over = bool(before.phase and before.reason) and Phase(before.phase).final and not before.container_statuses
    return is_over and all(facts.newest(each.name) is None for each in pod.spec.containers)


def _rejected(pod: Pod, before: PodStatus, kill: KillOptions, now: Nanoseconds) -> PodStatus:
    """Return the status of a pod that admission has rejected."""
    return PodStatus(
        phase=Phase.FAILED,
        reason=kill.reason,
        message=kill.message,
        qos_class=before.qos_class or qos_class(pod),
        start_time=before.start_time or format_time(now),
        conditions=before.conditions,
    )


def _with_phase(
    status: PodStatus, before: PodStatus, phase: Phase, *, ended: bool, kill: KillOptions | None
) -> PodStatus:
    """Return the status with its phase and the phase's reason and message. No phase is final while a container could
    run (kubelet's mergePodStatus): others would take its place.
    """
    if phase.final and not ended and (kill is not None or _any_runs(status)):
        phase = Phase(before.phase or Phase.PENDING)
    lasting = _lasting_phase(before, phase)
    if lasting == before.phase:
        return replace(status, phase=lasting, reason=before.reason, message=before.message)
    if ended and kill is not None:
        return replace(status, phase=lasting, reason=kill.reason, message=kill.message)
    return replace(status, phase=lasting)


def _any_runs(status: PodStatus) -> bool:
    """Return whether a container still runs: sidecars of a pod whose init container has failed, ephemeral ones."""
    lists = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return any(each.state.running for some in lists for each in some)


def _lasting_phase(before: PodStatus, phase: Phase) -> str:
    """Return the phase; a final one is never left, whatever the runtime reports later."""
    return before.phase if before.phase in (Phase.SUCCEEDED, Phase.FAILED) else phase


def _pod_ips(pod: Pod, facts: PodFacts, node: NodeView, before: PodStatus) -> Sequence[str]:
    """Return the pod's addresses: the sandbox's; on the host's network the node's; the reported ones when the runtime
    has none.

    A pod that is ending keeps its reported addresses.
    """
    if pod.spec.host_network:
        return _host_network_ips(node, before)
    ready = next((sandbox for sandbox in facts.sandboxes if sandbox.ready), None)
    found = sort_pod_ips(ready.ips, node.ips[0] if node.ips else "") if ready is not None and ready.ips else ()
    return found or [ip.ip for ip in before.pod_ips]


def _host_network_ips(node: NodeView, before: PodStatus) -> Sequence[str]:
    """Return the reported addresses, or else the node's first, and its second one of the other IP version, which it
    may have got later (kubelet's generateAPIPodStatus).
    """
    ips = [ip.ip for ip in before.pod_ips] or list(node.ips[:1])
    return ips + [ip for ip in node.ips[1:2] if len(ips) == 1 and (":" in ip) != (":" in ips[0])]


def share_of_message(pod: Pod) -> int:
    """Return the longest message of one container in the pod's status, in bytes."""
    return LONGEST_OF_POD // max(len(pod.spec.all_containers), 1)


def shortened(statuses: Sequence[ContainerStatus], limit: int) -> tuple[ContainerStatus, ...]:
    """Return the statuses with their messages cut to `limit` bytes."""
    return tuple(
        replace(status, state=_short(status.state, limit), last_state=_short(status.last_state, limit))
        for status in statuses
    )


def _short(state: ContainerState, limit: int) -> ContainerState:
    ending = state.terminated
    if ending is None or len(ending.message) * 4 <= limit or len(encoded := ending.message.encode()) <= limit:
        return state
    message = encoded[:limit].decode(errors="ignore")
    return replace(state, terminated=replace(ending, message=message))


def _with_short_messages(pod: Pod, status: PodStatus) -> PodStatus:
    limit = share_of_message(pod)
    return replace(
        status,
        container_statuses=shortened(status.container_statuses, limit),
        init_container_statuses=shortened(status.init_container_statuses, limit),
        ephemeral_container_statuses=shortened(status.ephemeral_container_statuses, limit),
    )


def _without_open_ends(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the status of an ended pod, with a terminated state, if only an unknown one, for every container that its
    initialization has reached (kubelet's TerminatePod). Init containers are reached up to the last one with a start,
    and the first in any case.
    """
    inits = status.init_container_statuses
    reached = max((index for index, each in enumerate(inits) if has_started(each)), default=0)
    initialized = _has_initialized(pod, status)
    return replace(
        status,
        container_statuses=tuple(_closed(s) if initialized else s for s in status.container_statuses),
        ephemeral_container_statuses=tuple(_closed(s) for s in status.ephemeral_container_statuses),
        init_container_statuses=(*map(_closed, inits[: reached + 1]), *inits[reached + 1 :]),
    )


def _has_initialized(pod: Pod, status: PodStatus) -> bool:
    """Return whether the initialization of an ended pod was complete (kubelet's hasPodInitialized)."""
    if not pod.spec.init_containers or any(map(has_started, status.container_statuses)):
        return True
    last = status.init_container_statuses[-1]
    ends = (last.state.terminated, last.last_state.terminated)
    if is_sidecar(pod.spec.init_containers[-1]):
        return has_started(last)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _closed(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return replace(status, state=lost(), ready=False, started=False)
