"""KubeEdge's resource ObjectSync: an object that a node has, or is to have; and to which node it belongs."""

import msgspec

from modules.cloud.apiserver.kinds import ObjectKey


class ObjectSync(msgspec.Struct, frozen=True, gc=False):
    """One object on one node. Stored by node and by the object's uid."""

    key: ObjectKey
    version: int = 0
    """The newest resourceVersion that the node has acknowledged; 0: none yet."""


class NodeState(msgspec.Struct, frozen=True):
    """The Node object and the epoch to which the ObjectSyncs of a node belong."""

    uid: str = ""
    """Uid of the Node object; "" while there is none, and in a database of an earlier cloudcore."""
    epoch: int = 0
    """The epoch in which the acknowledged versions were given."""


class Epoch(msgspec.Struct, frozen=True):
    """A time in which the API server gives no version twice. A restore of etcd begins the next one."""

    number: int = 0
    newest: int = 0
    """The newest resourceVersion that was seen in it."""
