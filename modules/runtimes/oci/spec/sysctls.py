"""Kernel parameters of a pod: only parameters that its own namespaces have."""

from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError
from protos.cri.v1 import api_pb2 as cri

_NAME: Final = pattern(r"[a-z0-9_-]{1,64}([./][A-Za-z0-9_@:-]{1,64}){1,12}")
_OF_IPC: Final = pattern(r"kernel\.shm\w*|kernel\.msg\w*|kernel\.sem\w*|fs\.mqueue\.\w+")
_LONGEST: Final = 4096
_MOST: Final = 1024


def check_sysctls(attempt: str, config: cri.PodSandboxConfig) -> None:
    """Refuse parameters that are the machine's, or whose namespace the pod shares with it. Raises BadRequestError."""
    options = config.linux.security_context.namespace_options
    if len(config.linux.sysctls) > _MOST:
        raise BadRequestError(attempt, f"it has more than {_MOST} sysctls")
    for name, value in config.linux.sysctls.items():
        dotted = ".".join(sysctl_parts(name))
        if len(value) > _LONGEST or "\0" in value or "\n" in value:
            raise BadRequestError(attempt, f"the value of the sysctl {name} is too long or has several lines")
        shared = None
        if dotted.startswith("net."):
            shared = "network" if options.network == cri.NODE else None
        elif _OF_IPC.fullmatch(dotted):
            shared = "IPC" if options.ipc == cri.NODE else None
        else:
            raise BadRequestError(attempt, f"the sysctl {name} is not namespaced: it would change the whole machine")
        if shared:
            raise BadRequestError(attempt, f"the sysctl {name} is the machine's for a pod with its {shared} namespace")


def sysctl_parts(name: str) -> list[str]:
    """Return the components of a parameter's path below /proc/sys. Raises BadRequestError if it is no name.

    The first separator of the name decides which of `.` and `/` separates, as for sysctl(8).
    """
    if not _NAME.fullmatch(name) or ".." in name:
        hint = "net.ipv4.tcp_fin_timeout is one"
        raise BadRequestError(f"set sysctl {name[:60]!r}", "this is no name of a sysctl", hint)
    first = next(character for character in name if character in "./")
    return [part if first == "/" else part.replace("/", ".") for part in name.split(first)]
