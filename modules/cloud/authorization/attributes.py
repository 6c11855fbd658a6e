"""The attributes of a node's request that the authorizer decides on (Kubernetes' authorizer.Attributes)."""

from typing import Any, Final

import msgspec

from modules.cloud.client.calls import ApiCall

NODE_GROUPS: Final = ("system:nodes", "system:authenticated")
"""The groups of a node's Kubernetes user."""
_USER: Final = "system:node:"
_BY_NAME: Final = "metadata.name="
_NODES: Final = ("v1", "nodes")


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """The node, the verb and the resource of a request."""

    node: str
    verb: str
    group: str = ""
    """API group; empty: the core."""
    resource: str
    """Plural, with the subresource: `pods`, `pods/status`."""
    namespace: str = ""
    name: str = ""
    body: Any = None
    """The TokenRequest of `serviceaccounts/token`; otherwise None."""
    field_selector: str = ""

    @property
    def user(self) -> str:
        """The node's Kubernetes user."""
        return user_of(self.node)


def user_of(node: str) -> str:
    """Return the Kubernetes user of a node; its group is `system:nodes`."""
    return _USER + node


def _name_of(call: ApiCall, fields: str) -> str:
    """Return the name of the only object that a call concerns (Kubernetes' RequestInfo); "" if a list or watch can have
    several, also one of that name in each namespace.
    """
    name = fields.removeprefix(_BY_NAME)
    is_one = call.verb in ("list", "watch") and name != fields and "," not in name
    return name if is_one and (call.namespace or (call.api_version, call.plural) == _NODES) else ""


def of_call(node: str, call: ApiCall) -> Attributes:
    """Return the attributes of an API call of a node's metaserver; its verb `updatestatus` is an update of `status`."""
    group, slash, _ = call.api_version.partition("/")
    of_status = call.verb == "updatestatus"
    subresource = call.subresource or ("status" if of_status else "")
    fields = str(call.options.get("fieldSelector") or "")
    is_named = bool(call.name) and call.verb != "list"  # a list is of the collection, whatever name the call has
    return Attributes(
        node=node,
        verb="update" if of_status else call.verb,
        group=group if slash else "",
        resource=f"{call.plural}/{subresource}" if subresource else call.plural,
        namespace=call.namespace,
        name=call.name if is_named else _name_of(call, fields),
        field_selector=fields,
    )
