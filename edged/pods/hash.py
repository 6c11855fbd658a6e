"""The hashes of a container's definition, which decide whether a changed pod restarts the container.

Each container carries two, as annotations:

- the kubelet's own, of its name and image. A kubelet that takes over the node (KubeEdge's edgecore) compares it, and
  restarts containers with another one.
- this agent's, of everything that the process can see: image, command, environment, mounts, resources, security. It
  leaves out fields that apply to a running container (probes, hooks, pull policy, where its termination message is). A
  kubelet needs no more than name and image, because an API server lets nothing else change; a cloud without an API
  server lets every field change.

The agent's hash is compared by later versions of the agent. It is therefore made from an explicit list of fields, in
sorted JSON without empty fields: a field that a later version adds changes the hash only of containers that use it.
"""

import hashlib

import msgspec

from modules.apimachinery.types import Container, to_value

_SEEN_BY_THE_PROCESS = (
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "volumeMounts",
    "volumeDevices",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
)


_DIGITS = 16
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_WORD = 0xFFFFFFFF
_HUB = ("index.docker.io/", "docker.io/", "library/")


def container_hash(container: Container) -> str:
    """Return sixteen hexadecimal digits that change with everything the container's process can see."""
    fields = to_value(container)
    seen = {name: fields[name] for name in _SEEN_BY_THE_PROCESS if fields.get(name)}
    return hashlib.blake2s(msgspec.json.encode(seen, order="sorted"), digest_size=_DIGITS // 2).hexdigest()


def kubelet_hash(container: Container) -> str:
    """Return the hash that a kubelet of Kubernetes 1.31 or later records: FNV-1a of 32 bits, in hexadecimal without
    leading zeros.

    It is made from the JSON of name and image, each byte written as a decimal number as Go's spew prints a slice.
    """
    picked = msgspec.json.encode({"image": container.image, "name": container.name})
    value = _FNV_OFFSET
    for byte in f"([]uint8)[{' '.join(map(str, picked))}]".encode():
        value = (value ^ byte) * _FNV_PRIME & _WORD
    return f"{value:x}"


def differs(recorded: str, container: Container, image: str = "") -> bool:
    """Return whether a container was made from another definition.

    This agent's hash decides alone. With a kubelet's hash, the definition differs if both hash and image do: kubelets
    before 1.31 hash all fields in another way, and their containers are adopted as well.

    Args:
        recorded: the hash that was recorded with the container, this agent's if it has one; "" without any.
        container: the definition now.
        image: the name of the container's image in the runtime; "" if it is not known.
    """
    if len(recorded) == _DIGITS:
        return recorded != container_hash(container)
    return bool(recorded) and recorded != kubelet_hash(container) and _are_other_images(image, container.image)


def _are_other_images(present: str, wanted: str) -> bool:
    """Return whether two names mean different images for sure; an image's id or digest does not show its name."""
    if not present or ":" not in present or present.startswith("sha256:") or "@" in present + wanted:
        return False
    return _short(present) != _short(wanted)


def _short(image: str) -> str:
    """Return the name without Docker Hub's prefixes, with a tag."""
    for prefix in _HUB:
        image = image.removeprefix(prefix)
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"
