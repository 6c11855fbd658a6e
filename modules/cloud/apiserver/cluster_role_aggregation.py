"""Aggregated ClusterRoles, as kube-controller-manager's controller `clusterrole-aggregation` fills them."""

from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.apiserver.cluster import Cluster

CLUSTER_ROLE: Final = "ClusterRole"
_ROUNDS: Final = 4
"""Aggregated roles may select aggregated ones, as `edit` selects the roles of `view`."""


def aggregate_roles(cluster: Cluster) -> None:
    """Give each ClusterRole with an `aggregationRule` the rules of the ones that it selects, in the order of names."""
    for _ in range(_ROUNDS):
        roles = cluster.storage.list(kind_named(CLUSTER_ROLE))
        changed = [new for role in roles if (new := _aggregated(role, roles)) is not role]
        for new in changed:
            cluster.replace(new)
        if not changed:
            return


def _aggregated(role: JsonObject, roles: list[JsonObject]) -> JsonObject:
    selectors = [matcher_of(each) for each in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()]
    if not selectors:
        return role
    found = dict[bytes, JsonObject]()
    for other in roles:
        labels = other["metadata"].get("labels") or {}
        if other is not role and any(matches(labels) for matches in selectors):
            found |= {msgspec.json.encode(rule, order="sorted"): rule for rule in other.get("rules") or ()}
    rules = [*found.values()]
    return role if rules == (role.get("rules") or []) else {**role, "rules": rules}
