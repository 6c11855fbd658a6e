"""The controller of ClusterRoles with an `aggregationRule`: they have the rules of the roles that it selects (KCM 1.32,
`pkg/controller/clusterroleaggregation`).
"""

from itertools import product

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.controllers.plan import NOTHING, ReconcilePlan, update
from modules.cloud.controllers.view import View

KIND = "ClusterRole"


def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
    """Return the plan for a ClusterRole. Its rules are in the order of the selectors, then of the roles' names, each
    once.
    """
    role = view.find(key)
    if role is None or not is_aggregated(role):
        return NOTHING
    matchers = [matcher_of(each) for each in role["aggregationRule"].get("clusterRoleSelectors") or ()]
    found = dict[bytes, JsonObject]()
    others = sorted(view.all_of(KIND), key=lambda each: str(each["metadata"]["name"]))
    for matches, other in product(matchers, others):
        if other is not role and matches(other["metadata"].get("labels") or {}):
            found |= {msgspec.json.encode(rule, order="sorted"): rule for rule in other.get("rules") or ()}
    rules = [*found.values()]
    return NOTHING if rules == (role.get("rules") or []) else ReconcilePlan((update({**role, "rules": rules}),))


def is_aggregated(role: JsonObject) -> bool:
    """Return whether a ClusterRole has the rules of others."""
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
