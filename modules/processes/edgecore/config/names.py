"""Kinds of names, addresses and endpoints, as Kubernetes and KubeEdge allow them."""

import os
from typing import Final

from modules.apimachinery.node_job_kinds import JobKind
from modules.processes.edgecore.config.value_kinds import Text, UnfitError

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_IPV4: Final = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV6: Final = r"[0-9a-fA-F:]{2,39}"
_HOST_LABEL: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST: Final = rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL}){{0,126}}|\[{_IPV6}\])"
_PORT: Final = r"(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_QUALIFIED: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

PROCESS_ENDPOINT: Final = "embedded://"
"""Endpoint that selects the container runtime inside edgecore whose containers are processes."""

OCI_ENDPOINT: Final = "embedded://oci"
"""Endpoint that selects the container runtime inside edgecore whose containers crun isolates."""

DOCKER_ENDPOINT: Final = "embedded://docker"
"""Endpoint that selects the container runtime inside edgecore whose containers are Docker Engine's."""

INSIDE: Final = (PROCESS_ENDPOINT, OCI_ENDPOINT, DOCKER_ENDPOINT)
"""Endpoints of container runtimes inside edgecore."""

NODE_NAME: Final = Text(
    "a node name (lower case letters, digits, hyphens, dots), or empty", rf"(?:{_SUBDOMAIN})?", most=253
)
"""`metadata.name` of a Node (DNS-1123 subdomain). Empty stands for the host name."""

"""DNS-1123 label."""

DNS_DOMAIN: Final = Text("a DNS domain, or empty", rf"(?:{_SUBDOMAIN})?", most=253)

IP_ADDRESS: Final = Text("an IP address", rf"{_IPV4}|{_IPV6}")

OPTIONAL_IP_ADDRESS: Final = Text("an IP address, or empty", rf"(?:{_IPV4}|{_IPV6})?")

OPTIONAL_PATH: Final = Text("an absolute path, or empty", r"(?:/[^\x00]*)?")

PROJECT_ID: Final = Text("letters, digits, hyphens, underscores and dots", r"[A-Za-z0-9._-]{1,128}")
"""A part of the websocket's URL, so without characters that need quoting."""

CGROUP: Final = Text(
    "a cgroup such as /edge (plain names with slashes between them), or empty",
    r"(?:/?(?!\.{1,2}(?:/|$))[A-Za-z0-9_.@:-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9_.@:-]+)*/?|/)?",
)

RESOURCE: Final = Text(
    "cpu, memory, ephemeral-storage, pid or a hugepages- size",
    r"cpu|memory|ephemeral-storage|pid|hugepages-[1-9][0-9]*[KMG]i",
)

PUBLIC_KEY: Final = Text("an Ed25519 public key in base64 (44 characters)", r"[A-Za-z0-9+/]{43}=")

JOB_KIND: Final = Text("a kind of job: " + ", ".join(JobKind), "|".join(JobKind))

SETTING_KEY: Final = Text(
    "a setting such as modules.edgeHub.heartbeat, none of upgrade and modules.taskManager",
    r"(?!(?i:upgrade|modules\.taskmanager)(?:\.|$))[A-Za-z0-9]{1,64}(?:\.[A-Za-z0-9]{1,64}){0,8}",
)

BUNDLE_SOURCE: Final = Text("cloudcore, or an absolute path", r"cloudcore|/[^\x00]*")

QUANTITY: Final = Text("quantities such as 500m or 1Gi", r"[0-9]+(?:\.[0-9]+)?(?:m|k|[MGTPE]|[KMGTPE]i)?", most=32)

ENFORCED: Final = Text("pods, kube-reserved, system-reserved or none", r"pods|kube-reserved|system-reserved|none")

SYSCTL_PATTERN: Final = Text("a sysctl such as kernel.msgmax or net.*", r"[a-z0-9](?:[-_a-z0-9./]*)(?:\*)?", most=253)

LABEL_KEY: Final = Text("label names", rf"(?:{_SUBDOMAIN}/)?{_QUALIFIED}", most=317)

LABEL_VALUE: Final = Text(
    "label values (at most 63 letters, digits, hyphens, underscores, dots)", rf"(?:{_QUALIFIED})?"
)

LISTEN_ADDRESS: Final = Text("an IP address and a port, such as 127.0.0.1:10550", rf"(?:{_IPV4}|\[{_IPV6}\]):{_PORT}")

WEBSOCKET_SERVER: Final = Text(
    "host:port, or ws://host:port for a connection without TLS", rf"(?:wss?://)?{_HOST}:{_PORT}"
)

HTTPS_URL: Final = Text("a URL such as https://host:10002", rf"https?://{_HOST}(?::{_PORT})?/?")

MQTT_SERVER: Final = Text("a URL such as tcp://host:1883 or ssl://host:8883", rf"(?:tcp|ssl)://{_HOST}:{_PORT}")


class _Endpoint(Text):
    """A CRI endpoint: a unix socket, or a runtime inside edgecore."""

    def read(self, value: object) -> str:
        """Read an endpoint; a bare path becomes a URL, as in the kubelet (but without its deprecation warning)."""
        if isinstance(value, str) and value.startswith("/"):
            value = "unix://" + value
        if isinstance(value, str) and value.startswith(("tcp://", "npipe://")):
            raise UnfitError("only unix sockets exist on Linux")
        return super().read(value)


_UNIX: Final = r"unix:///[^\x00-\x1f\x7f]{1,106}"

UNIX_SOCKET: Final = Text("unix:///path/of/socket", _UNIX)

_ANY: Final = "|".join((_UNIX, *INSIDE))

_KINDS: Final = f"unix:///path/of/socket, {OCI_ENDPOINT}, {DOCKER_ENDPOINT}"

RUNTIME_ENDPOINT: Final = _Endpoint(f"{_KINDS} or {PROCESS_ENDPOINT}", _ANY)

IMAGE_ENDPOINT: Final = _Endpoint(f"{_KINDS}, {PROCESS_ENDPOINT}, or empty", rf"(?:{_ANY})?")


def host_name() -> str:
    """Return the host name as the kubelet derives a node's name from it: trimmed, in lower case."""
    return os.uname().nodename.strip().lower()


def node_name_from(host: str) -> str:
    """Return the nearest allowed node name for a host name; `edge-node` if none of it can be kept."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "-.") else "-" for char in host.lower())
    labels = (label[:63].strip("-") for label in kept.split("."))
    return ".".join(label for label in labels if label)[:253].rstrip("-.") or "edge-node"
