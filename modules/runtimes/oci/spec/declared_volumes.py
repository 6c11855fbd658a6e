"""The volumes that an image declares (`VOLUME`): each container has a directory of its own there, as in containerd."""

from typing import Final

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.model import ImageDefaults
from modules.runtimes.oci.spec.paths import checked_path, is_below_any
from protos.cri.v1 import api_pb2 as cri

_MOST: Final = 100
_KERNEL: Final = frozenset(("/proc", "/sys", "/dev"))
_SANDBOX: Final = frozenset(("/etc/hostname", "/etc/hosts", "/etc/resolv.conf"))


def declared_volumes(attempt: str, config: cri.ContainerConfig, image: ImageDefaults) -> tuple[str, ...]:
    """Return the paths of a container's own directories.

    They are left out where CRI mounts something, where the sandbox's files are, and among the kernel's file systems.

    Raises:
        BadRequestError: the image declares too many volumes, or impossible ones.
    """
    if not image.volumes:
        return ()
    if len(image.volumes) > _MOST:
        raise BadRequestError(attempt, f"its image declares {len(image.volumes)} volumes, more than {_MOST}")
    declared = {checked_path(attempt, f"/{path}", "the image's volume") for path in image.volumes}
    if "/" in declared:
        raise BadRequestError(attempt, 'its image declares the volume "/"', "use another image")
    mounted = {checked_path(attempt, mount.container_path, "the mount path") for mount in config.mounts}
    left = declared - mounted - _SANDBOX - _KERNEL
    return tuple(sorted(path for path in left if not is_below_any(path, _KERNEL)))
