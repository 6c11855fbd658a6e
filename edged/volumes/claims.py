"""From a claim to its persistent volume: whether the pod may use it on this node, and the plan for it (kubelet's
desired-state-of-world populator).
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec
from msgspec import Struct

from edged.errors import MissingContentError, VolumeError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.csi.model import CsiVolume, inline_handle
from edged.volumes.plan import HostPath, host_path_plan
from modules.apimachinery.generated_names import ephemeral_claim_name
from modules.apimachinery.pods.node_selector import selector_matches
from modules.apimachinery.types import Pod, Quantity, Volume
from modules.apimachinery.types.persistent import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    SecretReference,
)
from modules.apimachinery.types.volumes import CSIVolumeSource

LOCAL_VOLUME = "local-volume"
"""kubelet's name of the kind in a volume's directory."""
_BOUND = "Bound"
_BLOCK = "Block"


class PodClaim(Struct, frozen=True):
    """The claim of a pod's volume."""

    name: str
    read_only: bool = False
    made_for: str = ""
    """The uid of the pod that it must have been made for, as the volume is ephemeral; "" takes any claim."""


class LocalVolume(Struct, frozen=True):
    """A directory of the node that is bind-mounted into the pod's own directory."""

    path: Path
    source: Path
    read_only: bool = False
    """Whether the pod must not change it: then it is not given to the pod's group either."""


PersistentPlan = HostPath | LocalVolume | CsiVolume


class NodeIdentity(msgspec.Struct, frozen=True):
    """The node's name and labels, for the node affinity of volumes, and its resources."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Quantity] = {}
    """In place of a container's missing limit."""


class ClaimSources(Protocol):
    """A source of the claims of the pod's namespace and their volumes from the cloud; None for a missing object."""

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        """Return the claim of that name."""

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """Return the volume of that name."""


def claim_of(pod: Pod, volume: Volume) -> PodClaim | None:
    """Return the claim of a pod's volume; None for a volume of another kind."""
    if (claim := volume.persistent_volume_claim) is not None:
        return PodClaim(claim.claim_name, read_only=claim.read_only)
    if volume.ephemeral is not None:
        return PodClaim(ephemeral_claim_name(pod.metadata.name, volume.name), made_for=pod.metadata.uid)
    return None


def resolve(namespace: str, wanted: PodClaim, sources: ClaimSources, node: NodeIdentity) -> PersistentVolume:
    """Return the claim's volume. Raises VolumeError unless a pod may use it on this node."""
    name = wanted.name
    claim = sources.claim(name)
    if claim is None:
        hint = "the cloud makes it" if wanted.made_for else "create it"
        raise MissingContentError("persistentvolumeclaim not found", f"{namespace}/{name}", hint)
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    if wanted.made_for and (owner is None or owner.uid != wanted.made_for):
        hint = "another pod or person has made it: delete it, or give the pod another name"
        raise VolumeError("PVC was not created for the pod", f"{namespace}/{name}", hint, retryable=True)
    given = bound_volume_name(claim)
    volume = sources.persistent_volume(given)
    if volume is None:
        raise MissingContentError("persistentvolume not found", given, f"the claim {name} names it")
    check_volume(claim, volume, node)
    return volume


def bound_volume_name(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's volume. Raises VolumeError while the claim is not bound."""
    about = f"{claim.metadata.namespace}/{claim.metadata.name}"
    if claim.metadata.deletion_timestamp is not None:
        raise VolumeError("can't start pod because its PVC is being deleted", about, "claim another", retryable=True)
    if claim.status.phase != _BOUND or not claim.spec.volume_name:
        hint = f"its phase is {claim.status.phase or 'unknown'}; somebody has to give it a volume"
        raise VolumeError("PVC is not bound", about, hint, retryable=True)
    return claim.spec.volume_name


def check_volume(claim: PersistentVolumeClaim, volume: PersistentVolume, node: NodeIdentity) -> None:
    """Raise VolumeError unless the volume belongs to the claim, and can be reached from this node."""
    name, owner = volume.metadata.name, volume.spec.claim_ref
    if owner is None or owner.uid != claim.metadata.uid:
        said = "nobody's" if owner is None else f"{owner.namespace}/{owner.name} with uid {owner.uid or 'none'}"
        hint = f"its claimRef is {said}; wanted is uid {claim.metadata.uid}"
        raise VolumeError("the volume is not the claim's", name, hint, retryable=True)
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if required is not None and not selector_matches(required, node.name, node.labels):
        raise VolumeError("storage node affinity check failed", name, "the volume is for other nodes")
    if _BLOCK in (volume.spec.volume_mode, claim.spec.volume_mode):
        raise VolumeError("cannot use the volume", name, "volumeMode Block is not supported")


def persistent_plan(pod: Pod, volume: PersistentVolume, paths: PodPaths, *, read_only: bool) -> PersistentPlan:
    """Return the plan of a persistent volume for a pod. Raises VolumeError for an unsupported kind."""
    spec, name = volume.spec, volume.metadata.name
    if spec.local is not None:
        path = paths.volume(PodUid(pod.metadata.uid), LOCAL_VOLUME, name)
        return LocalVolume(path, _absolute(spec.local.path), read_only=read_only)
    if spec.host_path is not None:
        return host_path_plan(spec.host_path)
    if spec.csi is not None:
        return _csi_volume(name, spec.csi, volume, read_only=read_only)
    raise VolumeError("cannot make the volume", name, "csi, local and hostPath volumes are supported")


def inline_volume(pod: Pod, name: str, source: CSIVolumeSource) -> CsiVolume:
    """Return the plan of a volume that a driver makes for this pod alone."""
    reference = source.node_publish_secret_ref
    return CsiVolume(
        name=name,
        driver=source.driver,
        handle=inline_handle(pod.metadata.uid, name),
        access_modes=("ReadWriteOnce",),
        attributes=source.volume_attributes,
        fs_type=source.fs_type or "",
        read_only=source.read_only is True,
        ephemeral=True,
        publish_secret=SecretReference(reference.name, pod.metadata.namespace) if reference is not None else None,
    )


def _csi_volume(
    name: str, source: CSIPersistentVolumeSource, volume: PersistentVolume, *, read_only: bool
) -> CsiVolume:
    return CsiVolume(
        name=name,
        driver=source.driver,
        handle=source.volume_handle,
        access_modes=volume.spec.access_modes,
        attributes=source.volume_attributes,
        fs_type=source.fs_type,
        mount_flags=volume.spec.mount_options,
        read_only=read_only or source.read_only,
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
    )


def _absolute(path: str) -> Path:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts:
        raise VolumeError("cannot use the local volume", repr(path), "an absolute path without .. is wanted")
    return Path(pure)
