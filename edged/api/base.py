"""The common shape of every Kubernetes type of this package.

The types are msgspec structs: frozen, because desired state is shared between actors; without
garbage-collector tracking, because they form trees; and lenient towards keys they do not know, as Go's
decoder is. What is written follows Go's `omitempty`: a field whose default is a plain value is left out when
it holds that value; a field that Go writes always has a `default_factory` (which msgspec never leaves out for
scalars and structs).
"""

from msgspec import Struct

_ACRONYMS = {
    "api": "API",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "fqdn": "FQDN",
    "id": "ID",
    "ip": "IP",
    "ipc": "IPC",
    "ips": "IPs",
    "pid": "PID",
    "uid": "UID",
    "uuid": "UUID",
}


def kube_name(attribute: str) -> str:
    """The JSON key of an attribute: camel case with Kubernetes' acronyms (`pod_ips` → `podIPs`, `uid` →
    `uid`).
    """
    first, *rest = attribute.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class KubeStruct(Struct, frozen=True, omit_defaults=True, gc=False, rename=kube_name):
    """Base of the Kubernetes types: immutable, Kubernetes' JSON names."""
