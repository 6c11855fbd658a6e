"""Validation of pods, for the fields that this node relies on (Kubernetes' ValidatePodSpec).

An API server has validated its pods; static pods, pods of a store and pods of clouds without validation come as they
are. A number that no kernel accepts would fail at every sync of the pod: the pod is rejected once, in the API server's
words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from edged.api import Container, Pod, parse_quantity
from edged.api.containers import ContainerPort, ResourceRequirements
from edged.api.probes import LifecycleHandler, Probe
from edged.api.quantity import Quantity, QuantityError
from edged.api.volumes import DownwardAPIVolumeFile, KeyToPath, Volume
from edged.pods.kill_options import KillOptions

REASON: Final = "FailedValidation"
"""Reason in the status and the event of an invalid pod (kubelet's)."""

MOST_CONTAINERS: Final = 256
"""Maximum of containers of each kind in a pod. An API server only limits the size of an object, into which twenty
thousand fit; the work for a pod grows with their number squared, for each of them changes a status that lists all.
"""
MOST_VOLUMES: Final = 512
"""Maximum of volumes of a pod."""

_MOST: Final = 20
"""Maximum of field errors in a message."""
_LONGEST_VALUE: Final = 80
_LONGEST_PATH: Final = 4095
_LARGEST_INT32: Final = 2**31 - 1
_LARGEST_INT64: Final = 2**63 - 1
_LARGEST_PORT: Final = 65535
_LARGEST_MODE: Final = 0o777
_TOKEN_SECONDS: Final = (600, 2**32)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")


def validate_pod(pod: Pod) -> KillOptions | None:
    """Return the kill options of an invalid pod, with its field errors; None for a valid one."""
    found = field_errors(pod)
    if not found:
        return None
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    told = ", ".join(found[:_MOST])
    return KillOptions(REASON, f"Pod was rejected: Pod is invalid: {told}{more}", rejected=True)


def field_errors(pod: Pod) -> list[str]:
    """Return the errors of a pod, each with the path of its field (`spec.containers[0].name: Required value`)."""
    return [*_of_spec(pod), *_of_containers(pod), *_of_volumes(pod.spec.volumes)]


def _of_spec(pod: Pod) -> Iterator[str]:
    spec, context = pod.spec, pod.spec.security_context
    if not spec.containers:
        yield "spec.containers: Required value"
    yield from _one_of("spec.restartPolicy", spec.restart_policy, _RESTART_POLICIES)
    grace = pod.metadata.deletion_grace_period_seconds
    yield from _between("metadata.deletionGracePeriodSeconds", grace, -_LARGEST_INT64, _LARGEST_INT64)
    grace = spec.termination_grace_period_seconds
    yield from _between("spec.terminationGracePeriodSeconds", grace, -_LARGEST_INT64, _LARGEST_INT64)
    yield from _between("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1, _LARGEST_INT32)
    yield from _between("spec.priority", spec.priority, -(2**31), _LARGEST_INT32)
    yield from _amounts("spec.overhead", spec.overhead)
    if spec.resources is not None:
        yield from _resources("spec.resources", spec.resources)
    if context is not None:
        path = "spec.securityContext"
        yield from _identity(f"{path}.runAsUser", context.run_as_user)
        yield from _identity(f"{path}.runAsGroup", context.run_as_group)
        yield from _identity(f"{path}.fsGroup", context.fs_group)
        for index, group in enumerate(context.supplemental_groups):
            yield from _identity(f"{path}.supplementalGroups[{index}]", group)


def _of_containers(pod: Pod) -> Iterator[str]:
    count = len(pod.spec.all_containers)
    if count > MOST_CONTAINERS:
        yield f"spec.containers: Too many: {count}: must have at most {MOST_CONTAINERS} items"
        return
    names: set[str] = set()
    for kind, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
        ("ephemeralContainers", pod.spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            path = f"spec.{kind}[{index}]"
            yield from _name(f"{path}.name", container.name, names)
            yield from _of_container(path, container)


def _of_container(path: str, container: Container) -> Iterator[str]:
    for index, port in enumerate(container.ports):
        yield from _of_port(f"{path}.ports[{index}]", port)
    for index, mount in enumerate(container.volume_mounts):
        yield from _plain(f"{path}.volumeMounts[{index}].mountPath", mount.mount_path)
        yield from _plain(f"{path}.volumeMounts[{index}].subPath", mount.sub_path)
        yield from _plain(f"{path}.volumeMounts[{index}].subPathExpr", mount.sub_path_expr)
    yield from _plain(f"{path}.workingDir", container.working_dir)
    yield from _plain(f"{path}.terminationMessagePath", container.termination_message_path)
    yield from _resources(f"{path}.resources", container.resources)
    if container.security_context is not None:
        yield from _identity(f"{path}.securityContext.runAsUser", container.security_context.run_as_user)
        yield from _identity(f"{path}.securityContext.runAsGroup", container.security_context.run_as_group)
    for name in ("liveness_probe", "readiness_probe", "startup_probe"):
        probe: Probe | None = getattr(container, name)
        if probe is not None:
            yield from _of_probe(f"{path}.{name.removesuffix('_probe')}Probe", probe)
    if container.lifecycle is not None:
        for name, hook in (("postStart", container.lifecycle.post_start), ("preStop", container.lifecycle.pre_stop)):
            if hook is not None:
                yield from _of_action(f"{path}.lifecycle.{name}", hook)


def _of_port(path: str, port: ContainerPort) -> Iterator[str]:
    yield from _between(f"{path}.containerPort", port.container_port, 1, _LARGEST_PORT)
    yield from _between(f"{path}.hostPort", port.host_port, 0, _LARGEST_PORT)
    yield from _one_of(f"{path}.protocol", port.protocol, _PROTOCOLS)
    if port.host_ip and not _is_address(port.host_ip):
        yield _fault(f"{path}.hostIP", port.host_ip, "must be a valid IP address")


def _of_probe(path: str, probe: Probe) -> Iterator[str]:
    for name, seconds in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        yield from _between(f"{path}.{name}", seconds, 0, _LARGEST_INT32)
    grace = probe.termination_grace_period_seconds
    yield from _between(f"{path}.terminationGracePeriodSeconds", grace, 1, _LARGEST_INT64)
    if probe.grpc is not None:
        yield from _between(f"{path}.grpc.port", probe.grpc.port, 1, _LARGEST_PORT)
    yield from _of_action(path, probe)


def _of_action(path: str, action: Probe | LifecycleHandler) -> Iterator[str]:
    """Check the port of a probe or hook. A port by name is looked up when it is used."""
    for name, port in (
        ("httpGet", action.http_get.port if action.http_get is not None else None),
        ("tcpSocket", action.tcp_socket.port if action.tcp_socket is not None else None),
    ):
        if isinstance(port, int):
            yield from _between(f"{path}.{name}.port", port, 1, _LARGEST_PORT)
    if isinstance(action, LifecycleHandler) and action.sleep is not None:
        yield from _between(f"{path}.sleep.seconds", action.sleep.seconds, 0, _LARGEST_INT32)


def _of_volumes(volumes: Sequence[Volume]) -> Iterator[str]:
    if len(volumes) > MOST_VOLUMES:
        yield f"spec.volumes: Too many: {len(volumes)}: must have at most {MOST_VOLUMES} items"
        return
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        yield from _name(f"{path}.name", volume.name, names)
        yield from _of_volume(path, volume)


def _of_volume(path: str, volume: Volume) -> Iterator[str]:
    if volume.host_path is not None:
        yield from _plain(f"{path}.hostPath.path", volume.host_path.path)
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        yield from _amount(f"{path}.emptyDir.sizeLimit", volume.empty_dir.size_limit)
    for kind, source in (
        ("configMap", volume.config_map),
        ("secret", volume.secret),
        ("downwardAPI", volume.downward_api),
    ):
        if source is not None:
            yield from _mode(f"{path}.{kind}.defaultMode", source.default_mode)
            yield from _modes(f"{path}.{kind}.items", source.items)
    if volume.projected is None:
        return
    yield from _mode(f"{path}.projected.defaultMode", volume.projected.default_mode)
    for index, part in enumerate(volume.projected.sources):
        within = f"{path}.projected.sources[{index}]"
        for kind, projection in (
            ("configMap", part.config_map),
            ("secret", part.secret),
            ("downwardAPI", part.downward_api),
        ):
            if projection is not None:
                yield from _modes(f"{within}.{kind}.items", projection.items)
        if part.service_account_token is not None:
            seconds = part.service_account_token.expiration_seconds
            yield from _between(f"{within}.serviceAccountToken.expirationSeconds", seconds, *_TOKEN_SECONDS)
            yield from _plain(f"{within}.serviceAccountToken.path", part.service_account_token.path)


def _modes(path: str, items: Iterable[KeyToPath | DownwardAPIVolumeFile]) -> Iterator[str]:
    for index, item in enumerate(items):
        yield from _plain(f"{path}[{index}].path", item.path)
        yield from _mode(f"{path}[{index}].mode", item.mode)


def _plain(path: str, text: str) -> Iterator[str]:
    """Check a path for the kernel's limits."""
    if "\0" in text:
        yield _fault(path, text, "must not contain a zero byte")
    if len(text) > _LONGEST_PATH or len(text.encode()) > _LONGEST_PATH:
        yield f"{path}: Too long: may not be more than {_LONGEST_PATH} bytes"


def _mode(path: str, mode: int | None) -> Iterator[str]:
    if mode is not None and not 0 <= mode <= _LARGEST_MODE:
        yield _fault(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _resources(path: str, resources: ResourceRequirements) -> Iterator[str]:
    yield from _amounts(f"{path}.limits", resources.limits)
    yield from _amounts(f"{path}.requests", resources.requests)


def _amounts(path: str, amounts: dict[str, Quantity]) -> Iterator[str]:
    for name, amount in amounts.items():
        yield from _amount(f"{path}[{name[:_LONGEST_VALUE]}]", amount)


def _amount(path: str, amount: Quantity) -> Iterator[str]:
    try:
        if parse_quantity(amount) < 0:
            yield _fault(path, amount, "must be greater than or equal to 0")
    except QuantityError:
        yield _fault(path, amount, "quantities must match the regular expression of Kubernetes, as 500m or 1.5Gi")


def _identity(path: str, number: int | None) -> Iterator[str]:
    return _between(path, number, 0, _LARGEST_INT32)


def _between(path: str, number: int | None, least: int, most: int) -> Iterator[str]:
    if number is not None and not least <= number <= most:
        yield _fault(path, number, f"must be between {least} and {most}, inclusive")


def _one_of(path: str, word: str, known: Sequence[str]) -> Iterator[str]:
    """Check a value of an enumeration; empty means the default."""
    if word and word not in known:
        supported = ", ".join(f'"{each}"' for each in known)
        yield f"{path}: Unsupported value: {_shown(word)}: supported values: {supported}"


def _name(path: str, name: str, taken: set[str]) -> Iterator[str]:
    """Check that a name is a DNS label and unique of its kind; files are named after it."""
    if not name:
        yield f"{path}: Required value"
    elif _LABEL.fullmatch(name) is None:
        yield _fault(path, name, "a lowercase RFC 1123 label of at most 63 characters is wanted")
    elif name in taken:
        yield f"{path}: Duplicate value: {_shown(name)}"
    taken.add(name)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _fault(path: str, value: object, rule: str) -> str:
    return f"{path}: Invalid value: {_shown(value)}: {rule}"


def _shown(value: object) -> str:
    """Return a value as the API server shows it, truncated."""
    text = str(value)
    cut = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
    return f'"{cut}"' if isinstance(value, str) else cut
