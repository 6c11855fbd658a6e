"""The volumes of a pod: what they are to be (`plan_volume`), making them so (`set_up`), and where containers
see them.

Kinds: emptyDir, hostPath, configMap, secret, downwardAPI, projected. Volumes of files change by an atomic
switch.
"""

from edged.volumes.atomic_writer import AtomicWriter
from edged.volumes.errors import MissingContentError, VolumeError
from edged.volumes.mounts import container_mounts, hosts_file, resolve_sub_path
from edged.volumes.payload import Payload, VolumeFile, VolumeSources
from edged.volumes.plan import EmptyDirectory, Files, HostPath, VolumePlan, plan_volume, volume_objects
from edged.volumes.set_up import set_up

__all__ = [
    "AtomicWriter",
    "EmptyDirectory",
    "Files",
    "HostPath",
    "MissingContentError",
    "Payload",
    "VolumeError",
    "VolumeFile",
    "VolumePlan",
    "VolumeSources",
    "container_mounts",
    "hosts_file",
    "plan_volume",
    "resolve_sub_path",
    "set_up",
    "volume_objects",
]
