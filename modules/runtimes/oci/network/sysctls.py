"""Writes the sysctls of a sandbox, from inside of its namespaces; `modules.runtimes.oci.spec` has checked them.

`/proc/sys` shows each thread the parameters of its own network and ipc namespaces, so that writing needs no /proc of
the pod.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from modules.runtimes.oci.network.errors import PodNamespaceError
from modules.runtimes.oci.spec import sysctl_parts

INTERFACE: Final = "eth0"
"""Name of a pod's interface. Its own parameters (`net.ipv4.conf.eth0.…`) exist when the pod has a network."""

_LARGEST_GROUP: Final = 2147483647
"""The largest that the kernel takes for `ping_group_range`."""

_ROOT: Final = Path("/proc/sys")
_NETWORK: Final = _ROOT / "net"
_SECONDS: Final = 30.0


def write_sysctls(sysctls: Mapping[str, str], *, network: bool, root: int = 0) -> None:
    """Write parameters of the calling thread's namespaces, but not the pod's interface's.

    Args:
        sysctls: names and values.
        network: whether the network namespace is the pod's.
        root: this process's user that is root in the pod.

    Raises:
        PodNamespaceError: the kernel refuses one.
    """
    wanted = _by_path(sysctls)
    for path, (name, value) in {**(_by_path(_defaults()) if network else {}), **wanted}.items():
        if INTERFACE not in path.parts:
            if root and not path.is_relative_to(_NETWORK):
                _write_as(root, path, name, value)
            else:
                _write(path, name, value, required=path in wanted)


def _defaults() -> dict[str, str]:
    """Return values for pods with a network of their own that set none: port 80 and ping need no capability
    (containerd 2). Groups count only as far as this user namespace has them.
    """
    groups = [line.split() for line in Path("/proc/self/gid_map").read_text().splitlines()]
    largest = max(int(first) + int(count) - 1 for first, _, count in groups)
    return {
        "net.ipv4.ip_unprivileged_port_start": "0",
        "net.ipv4.ping_group_range": f"0 {min(largest, _LARGEST_GROUP)}",
    }


def interface_sysctls(sysctls: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the pod's interface."""
    return {name: value for name, value in sysctls.items() if INTERFACE in sysctl_parts(name)}


def write_interface_sysctls(sysctls: Mapping[str, str]) -> None:
    """Write the parameters of the pod's interface, on a thread in its network. Raises PodNamespaceError."""
    for path, (name, value) in _by_path(interface_sysctls(sysctls)).items():
        _write(path, name, value, required=True)


def _by_path(sysctls: Mapping[str, str]) -> dict[Path, tuple[str, str]]:
    """Return names and values by the files of the parameters: one can be named with dots and with slashes."""
    return {_ROOT.joinpath(*sysctl_parts(name)): (name, value) for name, value in sysctls.items()}


def _write_as(user: int, path: Path, name: str, value: str) -> None:
    """Write a parameter in the name of a user: those of an IPC namespace are its root's alone, whatever capabilities
    another has (`ipc_permissions` of Linux).
    """
    done = subprocess.run(
        ["tee", str(path)], input=value.encode(), user=user, group=user, extra_groups=[], cwd="/", capture_output=True,
        env={"PATH": os.defpath, "LC_ALL": "C"}, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition(": ")[2]
        raise PodNamespaceError(f'set sysctl "{name}" to "{value}"', reason)


def _write(path: Path, name: str, value: str, *, required: bool) -> None:
    try:
        path.write_text(value)
    except FileNotFoundError:
        if required:
            raise PodNamespaceError(f'set sysctl "{name}"', "this kernel does not have it") from None
    except OSError as error:
        raise PodNamespaceError(f'set sysctl "{name}" to "{value}"', error.strerror or str(error)) from error
