"""Resource strings: the parsed subject of a message (docs/protocol.md, "Resource strings").

The edge uses `namespace/type[/name]`; the cloud puts `node/NODE/` before it. Strings of other forms (device paths,
rules, tasks, the bare `node` of a keepalive) are kept whole as `tail`, so that every string of a peer can be routed and
printed back unchanged.
"""

from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

from beehive.cache import LONGEST
from beehive.errors import ResourceError

NULL_NAMESPACE = "null"
"""Stand-in for the namespace of a cluster-scoped object (KubeEdge's NullNamespace)."""

_DEVICE_TYPES = frozenset({"membership", "device", "twin"})
_RULE_TYPES = frozenset({"rule", "ruleendpoint"})


class Side(Enum):
    """The side whose grammar a resource string follows."""

    EDGE = "edge"
    CLOUD = "cloud"


class Form(Enum):
    """The production of the grammar that a resource string matches."""

    OBJECT = "object"
    """`namespace/type[/name]`, on the cloud with `node/NODE/` before it."""
    DEVICE = "device"
    """Cloud: `node/NODE/membership|device|twin[/…]`, without a namespace."""
    RULE = "rule"
    """Cloud: `rule/NAME`, `ruleendpoint/NAME`."""
    TASK = "task"
    """Cloud and edge: `task/ID/node/NODE` or `GROUP/VERSION/KIND/JOB/node/NODE`."""
    NODE = "node"
    """`node` (keepalive) or, on the cloud, `node/NODE` (connection events)."""
    OTHER = "other"
    """Anything else: a topic, a `port:path`, a device path on the edge."""


class Resource(msgspec.Struct, frozen=True, gc=False):
    """A parsed resource string; `str(resource)` returns the string."""

    type: str
    """The type token; empty for the forms NODE and OTHER."""
    namespace: str = ""
    name: str = ""
    """Empty if the string names a whole collection."""
    node: str = ""
    """Node id; only on the cloud side."""
    tail: str = ""
    """The unparsed rest, in all forms but OBJECT."""
    form: Form = Form.OBJECT

    @classmethod
    def parse(cls, text: str, side: Side = Side.EDGE) -> "Resource":
        """Parse a resource string.

        Raises:
            ResourceError: the string is empty or has an empty token.
        """
        resource = cls.read(text, side)
        if resource.form is Form.OTHER and "" in text.split("/"):
            hint = "namespace/type[/name], on the cloud node/NODE/namespace/type[/name]"
            raise ResourceError("cannot parse a resource", repr(text[:200]), hint)
        return resource

    @classmethod
    def read(cls, text: str, side: Side = Side.EDGE) -> "Resource":
        """Parse a resource string; one outside the grammar has no type, and is kept whole as `tail`."""
        parse = READERS[side]
        return parse(text) if len(text) <= LONGEST else parse.__wrapped__(text)

    @classmethod
    def of(cls, kind: str, namespace: str, name: str = "") -> "Resource":
        """Make the resource of a Kubernetes object on the edge side; a cluster-scoped one has the namespace `null`.

        Raises:
            ResourceError: a part contains a slash, or the type is empty.
        """
        if not kind or "/" in kind + namespace + name:
            raise ResourceError(
                "cannot build a resource", f"{namespace!r} {kind!r} {name!r}", "no slash, no empty type"
            )
        return cls(type=kind, namespace=namespace or NULL_NAMESPACE, name=name)

    def on_node(self, node: str) -> "Resource":
        """Return the resource of this object on the cloud side.

        Raises:
            ResourceError: the node is empty or contains a slash.
        """
        if not node or "/" in node:
            raise ResourceError("cannot address a node", repr(node), "a node id without a slash is wanted")
        return msgspec.structs.replace(self, node=node)

    def __str__(self) -> str:
        prefix = f"node/{self.node}/" if self.node else ""
        if self.form is not Form.OBJECT:
            return (prefix + self.tail).rstrip("/")
        name = f"/{self.name}" if self.name else ""
        return f"{prefix}{self.namespace}/{self.type}{name}"


def trim_node(text: str) -> str:
    """Return a cloud resource as the edge receives it: without its first two tokens if it starts with `node`.

    With fewer than three tokens it is unchanged (KubeEdge's TrimMessage).
    """
    tokens = text.split("/", 2)
    return tokens[2] if len(tokens) == 3 and tokens[0] == "node" else text


def type_of(text: str, side: Side) -> str:
    """Return the type token that selects handlers, or ""."""
    return Resource.read(text, side).type


def _parse_edge(text: str) -> Resource:
    """Parse two or three tokens as an object, as metamanager's parseResource does; other strings have no type."""
    tokens = text.split("/")
    if len(tokens) in (2, 3) and "" not in tokens:
        return Resource(type=tokens[1], namespace=tokens[0], name="/".join(tokens[2:]))
    return _other(text, tokens)


def _parse_cloud(text: str) -> Resource:
    tokens = text.split("/")
    if tokens[0] == "node" and len(tokens) >= 3 and "" not in tokens:
        return _parse_on_node(tokens[1], tokens[2:])
    if tokens[0] in _RULE_TYPES and len(tokens) == 2 and tokens[1]:
        return Resource(type=tokens[0], name=tokens[1], tail=text, form=Form.RULE)
    return _other(text, tokens)


READERS: Final = {Side.EDGE: lru_cache(1024)(_parse_edge), Side.CLOUD: lru_cache(1024)(_parse_cloud)}
"""`Resource.read` by side, for texts of up to `LONGEST` characters: a peer's longer ones could fill the memory."""


def _parse_on_node(node: str, rest: list[str]) -> Resource:
    if rest[0] in _DEVICE_TYPES and (len(rest) == 1 or len(rest) >= 4 or rest == ["membership", "detail"]):
        return Resource(type=rest[0], node=node, tail="/".join(rest), form=Form.DEVICE)
    if len(rest) in (2, 3):
        return Resource(type=rest[1], namespace=rest[0], name="/".join(rest[2:]), node=node)
    return Resource(type="", node=node, tail="/".join(rest), form=Form.OTHER)


def _other(text: str, tokens: list[str]) -> Resource:
    if "" in tokens:
        return Resource(type="", tail=text, form=Form.OTHER)
    if tokens[0] == "node" and len(tokens) <= 2:
        return Resource(type="", tail=text, form=Form.NODE)
    if len(tokens) >= 4 and tokens[-2] == "node" and (tokens[0] == "task" or len(tokens) == 6):
        return Resource(type="", tail=text, form=Form.TASK)
    return Resource(type="", tail=text, form=Form.OTHER)
