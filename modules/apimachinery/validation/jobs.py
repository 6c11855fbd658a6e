"""The rules of a Job's policies: failures of pods, success, limits by index (Kubernetes 1.32, `ValidateJobSpec`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.validation.causes import (
    Causes,
    contradictory,
    duplicate,
    invalid,
    required,
    too_long,
    unsupported,
)
from modules.apimachinery.validation.names import faults_of_label_key, faults_of_subdomain
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Row,
    Rule,
    anything,
    needed,
    non_negative,
    one_of,
    or_zero,
    pointer,
)

_MOST_INDEXES: Final = 100_000
_MOST_WITH_MANY: Final = 10_000
"""Most failed indexes, and most pods at a time, of a Job with more completions than `_MOST_INDEXES`."""
_MOST_RULES: Final = 20
_MOST_PATTERNS: Final = 20
_MOST_CODES: Final = 255
_LONGEST_INDEXES: Final = 64 * 1024
_LONGEST_MANAGER: Final = 63
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_NOT_INDEXED: Final = "requires indexed completion mode"


class IndexesError(ValueError):
    """A text that is no list of indexes."""


def index_spans(text: str, completions: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each part of `0-2,5`. Raise IndexesError with Kubernetes' words."""
    last = -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            why = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise IndexesError(f'the fragment "{part[:40]}" {why}')
        numbers = [whole_number(end) for end in ends]
        for end, number in zip(ends, numbers, strict=True):
            if number is None:
                raise IndexesError(f'cannot convert string to integer for index: "{end[:40]}"')
            if number >= completions:
                raise IndexesError(f'too large index: "{end}"')
        first, least = numbers[0] or 0, last
        last = numbers[-1] or 0
        if len(ends) == 2 and first >= last:
            raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
        if first <= least:
            raise IndexesError(f"non-increasing order, previous: {least}, current: {first}")
        yield first, last


def _exit_codes(value: Mapping[str, Any], path: str, found: Causes) -> None:
    codes: Sequence[int] = value.get("values") or ()
    if not codes:
        found.append(invalid(f"{path}.values", value.get("values"), "at least one value is required"))
    seen = set[int]()
    for number, code in enumerate(codes[:_MOST_CODES]):
        where = f"{path}.values[{number}]"
        if value.get("operator") == "In" and code == 0:
            found.append(invalid(where, code, "must not be 0 for the In operator"))
        if code in seen:
            found.append(duplicate(where, code))
        seen.add(code)
    if list(codes) != sorted(codes):
        found.append(invalid(f"{path}.values", codes, "must be ordered"))


def _condition_type(value: str, path: str, found: Causes) -> None:
    for why in faults_of_label_key(value):
        found.append(invalid(path, value, why))


def _one_of_two(value: Mapping[str, Any], path: str, found: Causes) -> None:
    has_codes, has_conditions = value.get("onExitCodes") is not None, bool(value.get("onPodConditions"))
    if has_codes and has_conditions:
        found.append(contradictory(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if not has_codes and not has_conditions:
        found.append(contradictory(path, "specifying one of OnExitCodes and OnPodConditions is required"))


_FAILURE_RULES: Final = Each(
    Fields(
        {
            "action": needed(one_of(*_ACTIONS), 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'),
            "onExitCodes": Fields(
                {
                    "operator": needed(one_of("In", "NotIn"), 'valid values: ["In" "NotIn"]'),
                    "values": Each(anything, most=_MOST_CODES),
                },
                _exit_codes,
            ),
            "onPodConditions": Each(
                Fields({"type": or_zero(_condition_type, ""), "status": one_of("False", "True", "Unknown")}),
                most=_MOST_PATTERNS,
            ),
        },
        _one_of_two,
    ),
    most=_MOST_RULES,
)


def _failure_policy(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a failure policy together with the rest of the spec."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    template = (spec.get("template") or {}).get("spec") or {}
    names = {each.get("name") for field in ("containers", "initContainers") for each in template.get(field) or ()}
    for number, rule in enumerate((policy.get("rules") or ())[:_MOST_RULES]):
        where = f"{path}.podFailurePolicy.rules[{number}]"
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            found.append(invalid(f"{where}.action", "FailIndex", "requires the backoffLimitPerIndex to be set"))
        named = (rule.get("onExitCodes") or {}).get("containerName")
        if named is not None and named not in names:
            why = "must be one of the container or initContainer names in the pod template"
            found.append(invalid(f"{where}.onExitCodes.containerName", named, why))
    if spec.get("podReplacementPolicy") not in (None, "Failed"):
        found.append(unsupported(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], ["Failed"]))
    restart = template.get("restartPolicy")
    if restart == "OnFailure":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(invalid(f"{path}.template.spec.restartPolicy", restart, why))


def _success_policy(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    policy, where = spec.get("successPolicy"), f"{path}.successPolicy"
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        found.append(invalid(where, policy, _NOT_INDEXED))
        return
    rules = policy.get("rules") or ()
    if not rules:
        found.append(
            required(f"{where}.rules", "at least one rules must be specified when the successPolicy is specified")
        )
    Each(anything, most=_MOST_RULES)(rules, f"{where}.rules", found)
    for number, rule in enumerate(rules[:_MOST_RULES]):
        _success_rule(rule, int(spec.get("completions") or 0), f"{where}.rules[{number}]", found)


def _success_rule(rule: Mapping[str, Any], completions: int, path: str, found: Causes) -> None:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        found.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        if len(indexes) > _LONGEST_INDEXES:
            found.append(too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES))
            return
        try:
            total = sum(last - first + 1 for first, last in index_spans(indexes, completions))
        except IndexesError as error:
            found.append(invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return
    non_negative(count, f"{path}.succeededCount", found)
    if count > completions:
        why = f"must be less than or equal to {completions} (the number of specified completions)"
        found.append(invalid(f"{path}.succeededCount", count, why))
    if indexes is not None and count > total:
        why = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        found.append(invalid(f"{path}.succeededCount", count, why))


def _limits(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the limits by index, and what an indexed Job may have at all."""
    per_index, most = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if most is not None and per_index is None:
        found.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("completionMode") != "Indexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                found.append(invalid(f"{path}.{name}", spec[name], _NOT_INDEXED))
        return
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    if completions is None:
        found.append(required(f"{path}.completions", "when completion mode is Indexed"))
        return
    if parallelism > _MOST_INDEXES:
        why = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        found.append(invalid(f"{path}.parallelism", parallelism, why))
    if most is not None and most > completions:
        found.append(invalid(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions"))
    if most is not None and most > _MOST_INDEXES:
        found.append(invalid(f"{path}.maxFailedIndexes", most, f"must be less than or equal to {_MOST_INDEXES}"))
    if completions > _MOST_INDEXES and per_index is not None:
        _many_completions(parallelism, most, path, found)


def _many_completions(parallelism: int, most: int | None, path: str, found: Causes) -> None:
    if most is None:
        why = f"must be specified when completions is above {_MOST_INDEXES}"
        found.append(required(f"{path}.maxFailedIndexes", why))
    why = (
        f"must be less than or equal to {_MOST_WITH_MANY} when completions are above {_MOST_INDEXES} and used with "
        "backoff limit per index"
    )
    for name, number in (("parallelism", parallelism), ("maxFailedIndexes", most or 0)):
        if number > _MOST_WITH_MANY:
            found.append(invalid(f"{path}.{name}", number, why))


def _manager(value: str, path: str, found: Causes) -> None:
    """Check the name of another controller: a path after a domain."""
    domain, slash, rest = value.partition("/")
    if not slash or not domain or not rest:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        found.append(invalid(path, value, why))
    else:
        for fault in faults_of_subdomain(domain):
            found.append(invalid(path, value, fault))
    if len(value) > _LONGEST_MANAGER:
        found.append(too_long(path, _LONGEST_MANAGER))


POLICY_FIELDS: Final[dict[str, Rule | Row]] = {
    "backoffLimitPerIndex": pointer(non_negative),
    "maxFailedIndexes": pointer(non_negative),
    "managedBy": pointer(_manager),
    "podFailurePolicy": Fields({"rules": _FAILURE_RULES}),
}
"""The rules of single fields."""


def job_policies(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the fields of a Job's spec that depend on each other."""
    _limits(spec, path, found)
    _failure_policy(spec, path, found)
    _success_policy(spec, path, found)
