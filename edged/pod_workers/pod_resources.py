"""Resources of pods on the node beside sandboxes and containers."""

from msgspec import Struct

from edged.cgroups.pod_cgroups import PodCgroups
from edged.devices.manager import DeviceManager
from edged.pod_workers.pod_directories import PodDirectories
from edged.pod_workers.service_account_tokens import TokenManager
from edged.pods.config.resources import HostResources
from edged.pods.model import PodRef
from metamanager.client import MetaClient


class PodResources(Struct, frozen=True):
    """The parts that give pods directories, control groups, devices and objects of the API, and take them back."""

    directories: PodDirectories
    cgroups: PodCgroups
    devices: DeviceManager
    meta: MetaClient
    tokens: TokenManager
    host: HostResources
    """Resources of the host that containers' limits are computed from."""

    def release(self, ref: PodRef) -> None:
        """Take back the control group, devices and volumes of a pod that has ended. Its logs and termination messages
        stay until it is deleted, its volumes do not (a kubelet's volume manager unmounts the volumes of terminated
        pods): a full disk would stay full. Raises VolumeError, OSError.
        """
        self.cgroups.remove(ref.uid)
        self.devices.release(ref.uid)
        self.directories.remove_volumes(ref)

    def remove(self, ref: PodRef) -> None:
        """Take back everything of a pod that leaves the node. Raises VolumeError, OSError."""
        self.cgroups.remove(ref.uid)
        self.devices.release(ref.uid)
        self.directories.remove(ref)
        self.cgroups.forget_pod(ref.uid)
        self.tokens.forget_pod(ref.uid)
