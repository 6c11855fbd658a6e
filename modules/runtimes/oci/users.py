"""The users of a pod with a user namespace of its own: as its sandbox asks, or an ordinary user's sub-ids."""

import os
from pathlib import Path

from beehive.node_namespaces import POD_IDS, POD_ROOT, namespaces_id
from modules.runtimes.oci.images import MappedRoot
from modules.runtimes.oci.network.user_namespaces import IdRange, UserMapping
from protos.cri.v1 import api_pb2 as cri


def user_mapping(config: cri.PodSandboxConfig) -> UserMapping | None:
    """Return the mapping of a sandbox whose configuration was checked; None for the machine's users.

    Without root each pod has a namespace, and all have the same users: one user of a machine has sub-ids for one range.
    """
    if namespaces_id():
        return UserMapping(*(IdRange(POD_ROOT, POD_IDS) for _ in range(2)))
    options = config.linux.security_context.namespace_options
    if not options.HasField("userns_options") or options.userns_options.mode != cri.POD:
        return None
    users, groups = options.userns_options.uids[0], options.userns_options.gids[0]
    return UserMapping(IdRange(users.host_id, users.length), IdRange(groups.host_id, groups.length))


def mapped_root(config: cri.PodSandboxConfig, namespace: Path | None) -> MappedRoot | None:
    """Return the user that is root in a sandbox, and the file of its user namespace; None for the machine's root."""
    mapping = user_mapping(config)
    if mapping is None or namespace is None:
        return None
    return MappedRoot(None if namespaces_id() else namespace, mapping.users.host, mapping.groups.host)


def give_to_root(config: cri.PodSandboxConfig, *paths: str) -> None:
    """Give files to the root of a sandbox, if that is not the machine's. Raises OSError."""
    mapping = user_mapping(config)
    if mapping is not None:
        for path in paths:
            os.chown(path, mapping.users.host, mapping.groups.host)
