"""Label selectors in the form of workloads (metav1.LabelSelector): `matchLabels` and `matchExpressions`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject

Labels = Mapping[str, str]
_WITH_LABELS: Final = "ReplicationController"
"""The kind whose selector is a table of labels."""


def selector_of(workload: JsonObject) -> Any:
    """Return the selector of a workload, in the form of the others where its kind has labels only."""
    selector = (workload.get("spec") or {}).get("selector")
    return {"matchLabels": selector} if workload["kind"] == _WITH_LABELS else selector


def matcher_of(selector: Any) -> Callable[[Labels], bool]:
    """Return the function that decides whether labels match a selector. An empty one, or one with an operator that
    Kubernetes does not have, matches nothing: a workload would take all pods of its namespace.
    """
    if not isinstance(selector, dict):
        return _nothing
    exact = selector.get("matchLabels") or {}
    expressions = [_expression(each) for each in selector.get("matchExpressions") or ()]
    if not exact and not expressions:
        return _nothing

    def matches(labels: Labels) -> bool:
        is_exact = all(labels.get(key) == value for key, value in exact.items())
        return is_exact and all(holds(labels) for holds in expressions)

    return matches


def _nothing(_labels: Labels) -> bool:
    return False


def _expression(expression: JsonObject) -> Callable[[Labels], bool]:
    key, values = expression.get("key", ""), frozenset(expression.get("values") or ())
    match expression.get("operator"):
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
    return _nothing
