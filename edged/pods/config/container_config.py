"""The CRI's configuration of a container (kubelet's generateContainerConfig)."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from edged.errors import ConfigError
from edged.pods.config.device_options import DeviceNode, DeviceRunContainerOptions
from edged.pods.config.expansion import LARGEST_START, expand_all, size_of
from edged.pods.config.resources import HostResources, linux_resources
from edged.pods.config.security import ImageUser, check_not_root, container_security
from edged.pods.labels import container_annotations, container_labels
from edged.pods.model import ContainerId
from edged.pods.paths import log_path
from modules.apimachinery.types import Container, Pod
from protos.cri.v1 import api_pb2 as cri


class ContainerContext(Struct, frozen=True):
    """Input of a container's configuration beside the pod.

    Attributes:
        image: the runtime's name of the image (PullImage's or ImageStatus' answer).
        environment: names and values in order, from `environment`; commands may refer to them.
        target: the container whose processes an ephemeral container shares.
        mounts: from `container_mounts`, in the order of their making.
        seccomp_root: directory of the node's seccomp profiles (`<rootDirectory>/seccomp`).
        seccomp_default: whether a container without a profile gets the runtime's.
        devices: settings for its allocated devices.
        users: the pod's own, if it has any; volumes belong to them as they belong to the machine's.
    """

    image: str
    attempt: int
    environment: Mapping[str, str]
    mounts: Sequence[cri.Mount]
    machine: HostResources
    image_user: ImageUser = ImageUser()
    target: ContainerId | None = None
    seccomp_root: PurePosixPath = PurePosixPath("/var/lib/kubelet/seccomp")
    seccomp_default: bool = False
    devices: DeviceRunContainerOptions = DeviceRunContainerOptions()
    users: cri.UserNamespace | None = None


def container_config(pod: Pod, container: Container, context: ContainerContext) -> cri.ContainerConfig:
    """Return the container's configuration. Raises ConfigError for settings that this node cannot apply."""
    check_not_root(pod, container, context.image_user)
    if container.volume_devices:
        raise ConfigError("cannot map block devices", container.name, "volumeDevices is not supported")
    command, args = _command_line(container, context.environment)
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=context.attempt),
        image=cri.ImageSpec(image=context.image, user_specified_image=container.image),
        command=command,
        args=args,
        working_dir=container.working_dir,
        envs=[_variable(name, value) for name, value in context.environment.items()],
        mounts=_mapped([*_device_mounts(context.devices), *context.mounts], context.users),
        labels=container_labels(pod, container),
        annotations={**context.devices.annotations, **container_annotations(pod, container, context.attempt)},
        devices=[_device(node) for node in context.devices.nodes],
        CDI_devices=[cri.CDIDevice(name=name) for name in context.devices.cdi_devices],
        log_path=log_path(container.name, context.attempt),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=cri.LinuxContainerConfig(
            resources=linux_resources(pod, container, context.machine),
            security_context=_security(pod, container, context),
        ),
        stop_signal=_stop_signal(container),
    )


def _security(pod: Pod, container: Container, context: ContainerContext) -> cri.LinuxContainerSecurityContext:
    """Return the security context. A target counts only if containers do not see each other's processes anyway
    (generateLinuxContainerConfig).
    """
    security = container_security(
        pod,
        container,
        context.image_user,
        context.seccomp_root,
        seccomp_default=context.seccomp_default,
        masked=context.machine.masked_paths,
        users=context.users,
    )
    if context.target is not None and security.namespace_options.pid == cri.CONTAINER:
        security.namespace_options.pid = cri.TARGET
        security.namespace_options.target_id = context.target
    return security


def _command_line(container: Container, environment: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return command and arguments with their references expanded.

    Raises:
        TooLargeError: together with the variables they exceed the limit of Linux.
    """
    room = LARGEST_START - sum(size_of(name) + size_of(value) + 2 for name, value in environment.items())
    whole = expand_all((*container.command, *container.args), environment, room)
    return whole[: len(container.command)], whole[len(container.command) :]


def _variable(name: str, value: str) -> cri.KeyValue:
    return cri.KeyValue(key=name, value=value.encode("utf-8", "surrogateescape"))


def _device_mounts(devices: DeviceRunContainerOptions) -> list[cri.Mount]:
    return [
        cri.Mount(container_path=mount.container_path, host_path=mount.host_path, readonly=mount.read_only)
        for mount in devices.mounts
    ]


def _mapped(mounts: list[cri.Mount], users: cri.UserNamespace | None) -> list[cri.Mount]:
    """Return mounts whose owners are mapped as the users of the pod are; an image's are mapped by the runtime."""
    if users is None:
        return mounts
    found = []
    for mount in mounts:
        own = None if mount.HasField("image") else users
        found.append(cri.Mount(uidMappings=own.uids, gidMappings=own.gids) if own else cri.Mount())
        found[-1].MergeFrom(mount)
    return found


def _device(node: DeviceNode) -> cri.Device:
    return cri.Device(container_path=node.container_path, host_path=node.host_path, permissions=node.permissions)


def _stop_signal(container: Container) -> cri.Signal.ValueType:
    name = container.lifecycle.stop_signal if container.lifecycle is not None else None
    if name is None:
        return cri.SIGNAL_RUNTIME_DEFAULT
    key = "SIGNAL_" + name.replace("+", "PLUS").replace("-", "MINUS")
    if key not in cri.Signal.keys():  # noqa: SIM118 - an enum wrapper of protobuf, no dictionary
        raise ConfigError("cannot use the stop signal", repr(name), "a name such as SIGTERM or SIGRTMIN+1 is expected")
    return cri.Signal.Value(key)
