"""The fingerprint of a container's definition, which decides what is restarted when a pod changes.

It covers what the process can see: image, command, environment, mounts, resources, security. It leaves out
what can be applied to a running container (probes, hooks, pull policy, where its last words are read). A
kubelet of today hashes only name and image, because an API server lets nothing else change; a cloud without
one lets every field change.

The fingerprint is stored with the container and compared by a later version of the agent. It is therefore
made from an explicit list of fields in sorted JSON without empty fields: a field that a later version learns
to read changes the fingerprint only of containers that use it.
"""

import hashlib

import msgspec

from edged.api import Container, to_value

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


def container_hash(container: Container) -> str:
    """Sixteen hexadecimal digits that change with everything the container's process can see."""
    fields = to_value(container)
    seen = {name: fields[name] for name in _SEEN_BY_THE_PROCESS if fields.get(name)}
    return hashlib.blake2s(msgspec.json.encode(seen, order="sorted"), digest_size=_DIGITS // 2).hexdigest()


def differs(recorded: str, container: Container) -> bool:
    """Whether a recorded fingerprint is one of ours and of another definition.

    A kubelet's is shorter and says nothing here: containers that an agent of another kind left running are
    adopted.
    """
    return len(recorded) == _DIGITS and recorded != container_hash(container)
