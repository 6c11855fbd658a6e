"""The rules of a CSIDriver object, kubelet's, as pure functions."""

from edged.errors import VolumeError
from edged.volumes.csi.model import CsiVolume
from modules.apimachinery.types import Pod
from modules.apimachinery.types.persistent import CSIDriver

_PREFIX = "csi.storage.k8s.io"


def must_be_attached(driver: CSIDriver | None) -> bool:
    """Return whether the cloud attaches the driver's volumes before they are mounted; True without a CSIDriver object
    (kubelet's skipAttach).
    """
    return driver is None or driver.spec.attach_required is not False


def requires_republish(driver: CSIDriver | None) -> bool:
    """Return whether a volume is published again with every sync, so that the driver may change its content."""
    return driver is not None and driver.spec.requires_republish is True


def check_lifecycle(driver: CSIDriver | None, volume: CsiVolume) -> None:
    """Raise VolumeError when the driver has no volumes of this kind; without a CSIDriver object it has only persistent
    ones.
    """
    modes = (driver.spec.volume_lifecycle_modes if driver is not None else ()) or ("Persistent",)
    wanted = "Ephemeral" if volume.ephemeral else "Persistent"
    if wanted not in modes:
        hint = f"volumeLifecycleModes of its CSIDriver object are {', '.join(modes)}"
        raise VolumeError(f"volume mode {wanted} not supported by driver {volume.driver}", "", hint, retryable=True)


def pod_attributes(driver: CSIDriver | None, pod: Pod, volume: CsiVolume) -> dict[str, str]:
    """Return the facts about the pod for a driver that requests them (podInfoOnMount)."""
    if driver is None or driver.spec.pod_info_on_mount is not True:
        return {}
    return {
        f"{_PREFIX}/pod.name": pod.metadata.name,
        f"{_PREFIX}/pod.namespace": pod.metadata.namespace,
        f"{_PREFIX}/pod.uid": pod.metadata.uid,
        f"{_PREFIX}/serviceAccount.name": pod.spec.service_account_name or "default",
        f"{_PREFIX}/ephemeral": "true" if volume.ephemeral else "false",
    }


def supports_fs_group(driver: CSIDriver | None, volume: CsiVolume) -> bool:
    """Return whether this agent gives the volume to the pod's fsGroup (fsGroupPolicy, kubelet's supportsFSGroup)."""
    policy = (driver.spec.fs_group_policy if driver is not None else None) or "ReadWriteOnceWithFSType"
    if volume.read_only or policy == "None":
        return False
    if policy == "File":
        return True
    once = not {"ReadWriteOnce", "ReadWriteOncePod"}.isdisjoint(volume.access_modes)
    return bool(volume.fs_type) and (volume.ephemeral or once)
