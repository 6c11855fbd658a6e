"""Node selectors and node affinity (nodeaffinity of Kubernetes' component-helpers)."""

from collections.abc import Callable, Mapping

from modules.apimachinery.types import Pod
from modules.apimachinery.types.scheduling import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_NAME_FIELD = "metadata.name"
_LONGEST_LABEL = 63


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


def int64(text: str) -> int | None:
    """Return the number of a label's text as Go's `strconv.ParseInt` reads it; None for anything else, such as `1_000`
    or a number that needs more than 64 bits.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_LABEL):
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _compare(value: str | None, values: tuple[str, ...]) -> int | None:
    """Return -1, 0 or 1, as the label's number is below, at or above the only value; None when they cannot be
    compared.
    """
    if value is None or len(values) != 1:
        return None
    number, bound = int64(value), int64(values[0])
    if number is None or bound is None:
        return None
    return (number > bound) - (number < bound)


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compare(value, values) == 1,
    "Lt": lambda value, values: _compare(value, values) == -1,
}
