"""The hash of a container's definition, which decides whether a changed pod restarts the container.

It covers everything that the process can see: image, command, environment, mounts, resources, security. It leaves out
fields that apply to a running container (probes, hooks, pull policy, where its termination message is). Today's kubelet
hashes only name and image, because an API server lets nothing else change; a cloud without an API server lets every
field change.

The hash is stored with the container and compared by later versions of the agent. It is therefore made from an explicit
list of fields, in sorted JSON without empty fields: a field that a later version adds changes the hash only of
containers that use it.
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
    """Return sixteen hexadecimal digits that change with everything the container's process can see."""
    fields = to_value(container)
    seen = {name: fields[name] for name in _SEEN_BY_THE_PROCESS if fields.get(name)}
    return hashlib.blake2s(msgspec.json.encode(seen, order="sorted"), digest_size=_DIGITS // 2).hexdigest()


def differs(recorded: str, container: Container) -> bool:
    """Whether a recorded hash was made by this agent from another definition.

    A kubelet's hash is shorter and never differs: containers that another kind of agent left running are adopted.
    """
    return len(recorded) == _DIGITS and recorded != container_hash(container)
