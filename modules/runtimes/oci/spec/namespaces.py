"""Namespaces of a container: which it has for itself, shares with its pod, or shares with the machine."""

from collections.abc import Iterator
from pathlib import Path

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.machine import CgroupLayout, Machine
from modules.runtimes.oci.spec.model import Json, NamespacePaths
from modules.runtimes.oci.spec.without_root import check_sandbox_without_root
from protos.cri.v1 import api_pb2 as cri


def check_namespaces(attempt: str, options: cri.NamespaceOption, machine: Machine, *, of_sandbox: bool) -> None:
    """Refuse modes that CRI does not define, and user namespaces that cannot be.

    Raises:
        BadRequestError: the request is wrong.
        WrongStateError: the kernel has no user namespaces for pods.
    """
    modes = {"network": (cri.POD, cri.NODE), "ipc": (cri.POD, cri.NODE), "pid": (cri.POD, cri.CONTAINER, cri.NODE)}
    if not of_sandbox:
        modes["pid"] += (cri.TARGET,)
    for kind, known in modes.items():
        if getattr(options, kind) not in known:
            raise BadRequestError(attempt, f"the {kind} namespace has the mode {getattr(options, kind)}")
    if options.pid == cri.TARGET and not options.target_id:
        raise BadRequestError(attempt, "the process namespace of a target without target_id")
    if machine.rootless:
        check_sandbox_without_root(attempt, options)
    _check_user_namespace(attempt, options, machine)


def _check_user_namespace(attempt: str, options: cri.NamespaceOption, machine: Machine) -> None:
    user = options.userns_options
    if not options.HasField("userns_options") or user.mode == cri.NODE:
        return
    if user.mode != cri.POD:
        raise BadRequestError(attempt, "a user namespace can be the pod's or the machine's only")
    for mappings in (user.uids, user.gids):
        if len(mappings) != 1 or mappings[0].container_id != 0 or not mappings[0].length:
            raise BadRequestError(attempt, "a user namespace needs exactly one mapping, of container id 0")
    if not machine.user_namespaces:
        needs = "crun, Linux 5.19 with id-mapped mounts, and user.max_user_namespaces above 0"
        raise WrongStateError(attempt, f"user namespaces of pods need {needs}", "leave hostUsers: false out")
    if cri.NODE in (options.network, options.ipc, options.pid):
        raise BadRequestError(attempt, "a user namespace cannot be with the machine's network, IPC or processes")


def namespace_options(request: cri.CreateContainerRequest, paths: NamespacePaths) -> cri.NamespaceOption:
    """Return the container's options, by default its sandbox's. Then processes are shared with the pod
    if the pod has a namespace for them.
    """
    security = request.config.linux.security_context
    if security.HasField("namespace_options"):
        return security.namespace_options
    options = cri.NamespaceOption()
    options.CopyFrom(request.sandbox_config.linux.security_context.namespace_options)
    if options.pid != cri.NODE:
        options.pid = cri.CONTAINER if paths.pid is None else cri.POD
    return options


def container_namespaces(
    attempt: str, options: cri.NamespaceOption, paths: NamespacePaths, machine: Machine, *, privileged: bool
) -> list[Json]:
    """Return OCI's `linux.namespaces`: joined with a path, new without one, the machine's if not listed.

    Raises WrongStateError when the process namespace to join is missing: a new one would hide its processes.
    """
    found: list[Json] = [{"type": "mount"}]
    if paths.user is not None:
        found.append(_namespace("user", paths.user))
    if options.network != cri.NODE:
        found += [_namespace("network", paths.network), _namespace("uts", paths.uts)]
    if options.ipc != cri.NODE:
        found.append(_namespace("ipc", paths.ipc))
    found += _pid(attempt, options, paths.pid)
    if machine.cgroup_layout is CgroupLayout.UNIFIED and not privileged:
        found.append({"type": "cgroup"})
    return found


def sets_hostname(options: cri.NamespaceOption, paths: NamespacePaths) -> bool:
    """Return whether the runtime must set the hostname: only in a new namespace, as the pod's has it already."""
    return options.network != cri.NODE and paths.uts is None


def _pid(attempt: str, options: cri.NamespaceOption, path: Path | None) -> Iterator[Json]:
    if options.pid == cri.NODE:
        return
    if options.pid == cri.CONTAINER:
        yield {"type": "pid"}
        return
    if path is None:
        whose = "the target container" if options.pid == cri.TARGET else "the pod"
        raise WrongStateError(attempt, f"the process namespace of {whose} is gone")
    yield _namespace("pid", path)


def _namespace(kind: str, path: Path | None) -> Json:
    return {"type": kind} if path is None else {"type": kind, "path": str(path)}
