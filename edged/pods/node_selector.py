"""Node selectors and node affinity (nodeaffinity of Kubernetes' component-helpers)."""

from collections.abc import Callable, Mapping

from edged.api import Pod
from edged.api.scheduling import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_NAME_FIELD = "metadata.name"


def pod_fits_node(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether the pod's node selector and its required node affinity both match the node."""
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or selector_matches(required, name, labels)


def selector_matches(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether one of the terms matches. A term without requirements matches no node."""
    return any(_term_matches(term, name, labels) for term in selector.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {_NAME_FIELD: name}
    return all(_holds(requirement, labels) for requirement in term.match_expressions) and all(
        _holds(requirement, fields) for requirement in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a requirement. An unknown operator matches no node."""
    value = labels.get(requirement.key)
    test = _OPERATORS.get(requirement.operator)
    return test is not None and test(value, requirement.values)


def _compare(value: str | None, values: tuple[str, ...]) -> int | None:
    """Return -1, 0 or 1, as the label's number is below, at or above the only value; None when they cannot be
    compared.
    """
    if value is None or len(values) != 1:
        return None
    try:
        difference = int(value) - int(values[0])
    except ValueError:
        return None
    return (difference > 0) - (difference < 0)


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compare(value, values) == 1,
    "Lt": lambda value, values: _compare(value, values) == -1,
}
