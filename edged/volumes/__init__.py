"""The volumes of a pod: planned (`plan_volume`), set up (`set_up`), and mounted into containers.

Kinds: emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim, csi. Volumes of files
change by an atomic switch.
"""

from edged.errors import MissingContentError, VolumeError
from edged.volumes.atomic_writer import AtomicWriter
from edged.volumes.mounting import KernelMounts, MemoryMounts, Mounts, points_below
from edged.volumes.mounts import container_mounts, host_hosts_file, hosts_file
from edged.volumes.payload import Payload, VolumeFile, VolumeSources
from edged.volumes.plan import EmptyDirectory, Files, HostPath, MemoryDirectory, VolumePlan, plan_volume
from edged.volumes.pod_volumes import PodVolumes, PodVolumeSources
from edged.volumes.set_up import set_up
from edged.volumes.sub_path import resolve_sub_path

__all__ = [
    "AtomicWriter",
    "EmptyDirectory",
    "Files",
    "HostPath",
    "KernelMounts",
    "MemoryDirectory",
    "MemoryMounts",
    "MissingContentError",
    "Mounts",
    "Payload",
    "PodVolumeSources",
    "PodVolumes",
    "VolumeError",
    "VolumeFile",
    "VolumePlan",
    "VolumeSources",
    "container_mounts",
    "host_hosts_file",
    "hosts_file",
    "plan_volume",
    "points_below",
    "resolve_sub_path",
    "set_up",
]
