"""The CDI devices that a container asks for. What reads their files is imported with the first of them."""

from typing import Final

from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import Json
from protos.cri.v1 import api_pb2 as cri

_ANNOTATIONS: Final = "cdi.k8s.io/"


def cdi_names(config: cri.ContainerConfig) -> list[str]:
    """Return the devices that a container asks for, each once: CRI's, then those of its annotations
    (`cdi.k8s.io/…: NAME,NAME`), where a device plugin names them for runtimes that lack CRI's field.
    """
    noted = [config.annotations[key] for key in sorted(config.annotations) if key.startswith(_ANNOTATIONS)]
    names = [device.name for device in config.CDI_devices]
    return list(dict.fromkeys((*names, *(name for text in noted for name in text.split(",")))))


def check_cdi(attempt: str, config: cri.ContainerConfig, machine: Machine) -> None:
    """Refuse devices that no file describes. Raises as `with_cdi_devices`."""
    empty: Json = {"process": {"env": [], "user": {"additionalGids": []}}, "mounts": [], "linux": {"devices": []}}
    empty["linux"]["resources"] = {"devices": []}
    with_cdi_devices(attempt, empty, config, machine)


def with_cdi_devices(attempt: str, spec: Json, config: cri.ContainerConfig, machine: Machine) -> Json:
    """Return a specification with the changes of the container's CDI devices.

    Raises:
        BadRequestError: an invalid name.
        WrongStateError: a device that no file describes, or a file with a wrong change.
    """
    names = cdi_names(config)
    if not names:
        return spec
    from modules.runtimes.oci.spec.cdi_changes import with_changes  # noqa: PLC0415 - few nodes have such devices

    return with_changes(attempt, spec, names, machine.cdi_directories)
