"""The watches of nodes' metaservers: KubeEdge's SelectorListeners."""

import msgspec

from modules.apimachinery.api_errors import BadRequestError, TooManyRequestsError
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey
from modules.apimachinery.selectors import Selector, parse_selector
from modules.apimachinery.served_resources import resource_of
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.client.calls import MOST_WATCHES, ApiCall
from modules.cloud.edgecontroller.downstream_messages import is_sent_by_watch


class NodeWatch(msgspec.Struct, frozen=True):
    """The kind, namespace and selector of a watch."""

    of: Kind
    namespace: str
    """Empty: all."""
    selector: Selector

    @property
    def kind(self) -> str:
        """The kind as in keys."""
        return self.of.key_name

    def selects(self, obj: JsonObject) -> bool:
        """Return whether it selects an object of its kind."""
        namespace = str(obj["metadata"].get("namespace") or "")
        return self.namespace in ("", namespace) and self.selector.selects(obj)


def _watch_of(kind: Kind, call: ApiCall) -> NodeWatch:
    """Return the watch of a call.

    Raises:
        BadRequestError: a selector cannot be read.
    """
    labels, fields = (str(call.options.get(name) or "") for name in ("labelSelector", "fieldSelector"))
    try:
        selector = parse_selector(resource_of(kind), labels, fields)
    except ApiStatusError as error:
        raise BadRequestError(error.message) from error
    return NodeWatch(kind, call.namespace, selector.named(call.name) if call.name else selector)


class NodeWatches:
    """The watches of each node, in memory: an edge repeats them when it connects to another cloudcore, and only then.
    So they outlive a restart of edgecontroller, which ends no connection.
    """

    def __init__(self) -> None:
        self._kinds = ServedKinds({})
        self._of: dict[str, dict[tuple[str, str, str, str], NodeWatch]] = {}
        """Watches by node, and by the fields that make two watches equal."""

    def add(self, call: ApiCall, kind: Kind | None = None) -> NodeWatch | None:
        """Add a node's watch, and return it; None for a kind that is sent to nodes without a watch.

        Args:
            call: the watch.
            kind: its kind, if edgecontroller does not know it from the start.

        Raises:
            UnknownKindError: there is no such kind.
            BadRequestError: a selector cannot be read.
            TooManyRequestsError: the node has too many watches.
        """
        kind = kind or self._kinds.at(call.api_version, call.plural)
        watch = _watch_of(kind, call)
        if not is_sent_by_watch(kind.key_name):
            return None
        options = call.options
        fields = f"{call.name} {options.get('fieldSelector') or ''}"
        key = (kind.key_name, call.namespace, str(options.get("labelSelector") or ""), fields)
        mine = self._of.setdefault(call.node, {})
        if key not in mine and len(mine) >= MOST_WATCHES:
            raise TooManyRequestsError(f"the node has {MOST_WATCHES} watches; end one first")
        mine[key] = watch
        return watch

    def of(self, node: str) -> list[NodeWatch]:
        """Return a node's watches."""
        return list(self._of.get(node, {}).values())

    def kinds(self) -> list[Kind]:
        """Return the kinds that nodes watch."""
        found = {watch.kind: watch.of for watches in self._of.values() for watch in watches.values()}
        return list(found.values())

    def may_have(self, node: str, key: ObjectKey) -> bool:
        """Return whether a node watches the kind of an object in its namespace. The selector does not matter, because
        the metaserver must also be told of objects that its watch no longer selects.
        """
        return any(one.kind == key.kind and one.namespace in ("", key.namespace) for one in self.of(node))

    def forget(self, node: str) -> None:
        """Forget the watches of a node: it has restarted, was deleted, or names its present ones."""
        self._of.pop(node, None)

    def nodes_that_watch(self, kind: str, obj: JsonObject) -> list[str]:
        """Return the nodes with a watch that selects an object."""
        if not is_sent_by_watch(kind):
            return []
        return [
            node
            for node, watches in self._of.items()
            if any(watch.kind == kind and watch.selects(obj) for watch in watches.values())
        ]
