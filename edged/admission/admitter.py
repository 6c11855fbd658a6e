"""Admission of pods to this node (kubelet's canAdmitPod)."""

from fractions import Fraction

from msgspec.structs import replace

from edged.admission.admit import NodeInfo, refusal
from edged.admission.preemption import PREEMPTED, pods_to_preempt
from edged.admission.validation import validate_pod
from edged.devices.node_devices import NodeDevices
from edged.node.state import LocalNode
from edged.pods.critical import is_critical
from edged.pods.kill_options import KillCause, KillOptions, KillPod
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager, PodRecord
from edged.pods.restart import is_terminal
from edged.pods.taken_room import demand_of
from edged.settings import EdgedSettings
from modules.apimachinery.pods.general_predicates import insufficient_amounts
from modules.apimachinery.types import Pod


class PodAdmitter:
    """The admission of pods by this node. Lives on the edged module's thread.

    Args:
        settings: the node's name and the sysctls that it allows.
        pods: the pods of this node, which take room from a new one.
        node: the state of this node.
        devices: the devices of this node.
    """

    def __init__(self, settings: EdgedSettings, pods: PodManager, node: LocalNode, devices: NodeDevices) -> None:
        self._settings = settings
        self._pods = pods
        self._node = node
        self._devices = devices

    def rejection(self, record: PodRecord, node_info: NodeInfo | None) -> KillOptions | None:
        """Return why the node does not run a pod that was not known to edged before; None if it does.

        A pod that has been on the node before (its status has a start time) may be running, so its resources are not
        checked again; but it must still be valid. Ending pods do not take resources from new ones: a kubelet counts
        them, and would reject their successor for good.

        Args:
            record: of the pod.
            node_info: the node, as `node_info_for` returns it for the pod.
        """
        if not record.may_be_killed:
            return None
        invalid = validate_pod(record.pod)
        if invalid is not None:
            return replace(invalid, rejected=node_info is not None)
        demand, room = demand_of(record.pod), self._pods.taken_room
        refused = None if node_info is None else refusal(record.pod, demand, room, node_info)
        if refused is None:
            room.put(record.ref.uid, demand)
        return refused

    def preemption(self, record: PodRecord, node_info: NodeInfo | None) -> list[KillPod]:
        """Return the requests to end pods that make room for a critical one, which nothing else keeps out (kubelet's
        CriticalPodAdmissionHandler).
        """
        pod = record.pod
        if node_info is None or not record.may_be_killed or not is_critical(pod) or validate_pod(pod) is not None:
            return []
        demand, room = demand_of(pod), self._pods.taken_room
        requests, used, there = demand.requests, room.used, node_info.allocatable
        missing = {
            name: used.get(name, 0) + requests.get(name, Fraction(1)) - there.get(name, 0)
            for name, _ in insufficient_amounts(requests, used, there)
        }
        if not missing or refusal(pod, demand, room, replace(node_info, allocatable={})) is not None:
            return []
        others = [each.pod for each in self._pods if each.ref.uid in room]
        return [
            KillPod(ref_of(each).uid, PREEMPTED, KillCause.PREEMPTION) for each in pods_to_preempt(pod, missing, others)
        ]

    def fault(self, pod: Pod) -> KillOptions | None:
        """Return why the node runs a pod no longer in its new state: it must still be valid, unless it ends anyway."""
        if pod.metadata.deletion_timestamp is not None:
            return None
        invalid = validate_pod(pod)
        if invalid is not None:
            return replace(invalid, rejected=False)
        room, uid = self._pods.taken_room, ref_of(pod).uid
        if uid in room:
            room.put(uid, demand_of(pod))
        return None

    def node_info_for(self, pod: Pod) -> NodeInfo | None:
        """Return the state of the node that decides about a new pod; None for a pod that needs no admission. The node's
        resources are known after its first report.
        """
        if was_admitted(pod):
            return None
        state = self._node.state
        return NodeInfo(
            self._settings.node_name,
            self._devices.expected_allocatable(self._node.allocatable()),
            state.known,
            self._settings.allowed_unsafe_sysctls,
            state.pressures,
            state.is_shutting_down,
            state.report is None or state.report.machine.has_apparmor,
        )


def was_admitted(pod: Pod) -> bool:
    """Return whether a pod needs no admission: it has started or ended before, or its end is requested."""
    return pod.metadata.deletion_timestamp is not None or is_terminal(pod) or bool(pod.status.start_time)
