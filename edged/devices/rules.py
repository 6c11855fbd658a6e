"""The rules of device plug-ins: which ones may register, and which resources of a container are devices."""

from collections.abc import Iterable
from pathlib import Path

from beehive.patterns import pattern
from edged.errors import RegistrationError
from modules.apimachinery.types import Container, parse_quantity

VERSION = "v1beta1"
"""Version of the device plug-in API, the only one that kubelet accepts."""
SOCKET = "kubelet.sock"
"""Name of the registration socket, in the directory of the plug-ins' own sockets."""
CHECKPOINT = "kubelet_internal_checkpoint"
"""Name of the checkpoint file beside it."""
_NOT_SOCKETS = frozenset({"", ".", "..", SOCKET, CHECKPOINT})
_LONGEST_PATH = 107
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63
_REGISTER = "register a device plug-in"
_NAME = pattern(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN = pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is neither Kubernetes' own nor a quota's (Kubernetes' IsExtendedResourceName).

    It has the form `domain/name`, and the domain is not of `kubernetes.io`.
    """
    domain, slash, kind = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    prefix = f"requests.{domain}"  # the name in a quota must be valid
    valid_prefix = len(prefix) <= _LONGEST_PREFIX and _DOMAIN.fullmatch(prefix) is not None
    return valid_prefix and len(kind) <= _LONGEST_NAME and _NAME.fullmatch(kind) is not None


def requested_devices(container: Container) -> dict[str, int]:
    """Return the number of devices by extended resource from the container's limits, sorted by name."""
    limits = {name: parse_quantity(quantity) for name, quantity in sorted(container.resources.limits.items())}
    return {name: int(amount) for name, amount in limits.items() if is_extended_resource(name) and amount >= 1}


def check_resource(resource: str, versions: Iterable[str]) -> None:
    """Check a registration. Raises RegistrationError with kubelet's words."""
    versions = tuple(versions)
    if VERSION not in versions:
        said = ", ".join(versions) or "none"
        hint = f"requested API version {said!r} is not supported; supported version is {VERSION!r}"
        raise RegistrationError(_REGISTER, resource, hint)
    if not is_extended_resource(resource):
        hint = f"the ResourceName {resource!r} is invalid: it must be as vendor-domain/resource"
        raise RegistrationError(_REGISTER, resource, hint)


def endpoint_in(directory: Path, endpoint: str, resource: str) -> Path:
    """Return the path of the plug-in's socket, which must be in the directory. Raises RegistrationError."""
    path = directory / endpoint
    if endpoint in _NOT_SOCKETS or "/" in endpoint or "\0" in endpoint:
        hint = f"the endpoint {endpoint!r} must be the name of a socket in {directory}"
        raise RegistrationError(_REGISTER, resource, hint)
    if len(bytes(path)) > _LONGEST_PATH:
        raise RegistrationError(_REGISTER, resource, f"the path of its socket has more than {_LONGEST_PATH} bytes")
    return path
