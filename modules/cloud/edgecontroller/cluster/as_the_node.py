"""Calls of nodes that the API server of a cluster decides on: they are made in the node's name, by impersonation.

docs/authorization.md has a node's rights on the objects that nodes hold; they do not depend on the cluster. The page
says nothing about other resources, such as custom ones: RBAC decides which of them the group `system:nodes`, or the
node's user, may read. (A watch begins with a review in the node's name; see `watches`.)
"""

from typing import Final

from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.client.calls import WATCH, ApiCall

_READS: Final = ("get", "list", WATCH)
_DECIDED: Final = (*_READS, "create")
_SIGNING_REQUESTS: Final = "certificatesigningrequests"


def is_decided(call: ApiCall) -> bool:
    """Return whether the API server decides on a node's call."""
    if call.verb not in _DECIDED:  # as are the renewals of leases
        return False
    if access_reviews.is_review(call):
        asked = access_reviews.attributes_of_review(call)
        is_unknown = asked is not None and _has_no_rule(asked.verb, asked.group, asked.resource)
        return access_reviews.is_about_others(call) or is_unknown
    group, slash, _ = call.api_version.partition("/")
    if call.verb == WATCH and not slash:
        return False
    return not call.subresource and _has_no_rule(call.verb, group if slash else "", call.plural)


def asks_for_certificate(call: ApiCall) -> bool:
    """Return whether a node's call asks for a certificate: it is made in its name, as the API server notes who asks."""
    return call.plural == _SIGNING_REQUESTS and call.verb == "create"


def _has_no_rule(verb: str, group: str, resource: str) -> bool:
    return verb in _READS and "/" not in resource and (group, resource) not in RULES
