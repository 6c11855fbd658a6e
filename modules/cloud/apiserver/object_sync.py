"""KubeEdge's resource ObjectSync: an object that a node has, or is to have."""

import msgspec

from modules.cloud.apiserver.kinds import ObjectKey


class ObjectSync(msgspec.Struct, frozen=True):
    """One object on one node. Stored by node and by the object's uid."""

    key: ObjectKey
    version: int = 0
    """The newest resourceVersion that the node has acknowledged; 0: none yet."""
