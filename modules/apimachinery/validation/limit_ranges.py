"""The rules of LimitRanges."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from modules.apimachinery.types.quantity import canonical_quantity, parse_quantity
from modules.apimachinery.validation.causes import Causes, duplicate, forbidden, invalid, required
from modules.apimachinery.validation.names import faults_of_label_key
from modules.apimachinery.validation.resources import container_resource, may_overcommit, resource_name

MAPS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
"""The members of a limit that have amounts by the names of resources."""
_STANDARD: Final = ("Pod", "Container", "PersistentVolumeClaim")
_DEFAULTS: Final = ("default", "defaultRequest")
_STORAGE: Final = "storage"
_LONGEST: Final = 253
_COMPARED: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""What may not be greater than what, the field that is named, and the words."""
_Amounts = Mapping[str, Any]


def limit_range(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a LimitRange."""
    root, types = f"{path}.spec.limits".lstrip("."), set[str]()
    for place, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        where, of_type = f"{root}[{place}]", str(limit.get("type") or "")
        _type(of_type, f"{where}.type", found)
        if of_type in types:
            found.append(duplicate(f"{where}.type", of_type))
        types.add(of_type)
        _limit(limit, of_type, where, found)


def _type(name: str, path: str, found: Causes) -> None:
    faults = [*faults_of_label_key(name)]
    for why in faults:
        found.append(invalid(path, name, why))
    if not faults and "/" not in name and name not in _STANDARD:
        found.append(invalid(path, name, "must be a standard limit type or fully qualified"))


def _limit(limit: Mapping[str, Any], of_type: str, path: str, found: Causes) -> None:
    check_name: Callable[[str, str, Causes], Any] = (
        container_resource if of_type in ("Pod", "Container") else resource_name
    )
    given = {field: limit.get(field) or {} for field in MAPS}
    if of_type == "PersistentVolumeClaim" and _STORAGE not in {*given["min"], *given["max"]}:
        why = "either minimum or maximum storage value is required, but neither was provided"
        found.append(required(f"{path}.limits", why))
    for field, amounts in given.items():
        if field in _DEFAULTS and of_type == "Pod":
            if amounts:
                found.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            given[field] = {}
            continue
        for name in amounts:
            check_name(name, f"{path}.{field}[{name[:_LONGEST]}]", found)
    for name in sorted({name for amounts in given.values() for name in amounts}):
        _compared(name, {field: amounts[name] for field, amounts in given.items() if name in amounts}, path, found)


def _compared(name: str, amounts: _Amounts, path: str, found: Causes) -> None:
    """Check the amounts of one resource against each other."""
    values = {field: parse_quantity(amount) for field, amount in amounts.items()}
    texts = {field: canonical_quantity(amount) for field, amount in amounts.items()}

    def wrong(field: str, why: str, value: str = "") -> None:
        found.append(invalid(f"{path}.{field}[{name[:_LONGEST]}]", texts[value or field], why))

    for one, other, field, words in _COMPARED:
        if one in values and other in values and values[one] > values[other]:
            bound = other if one == field else one
            wrong(field, words.format(texts[one], texts[other]), bound if field == "default" else field)
    ratio = values.get("maxLimitRequestRatio")
    if ratio is not None:
        _ratio(ratio, values, texts["maxLimitRequestRatio"], lambda why: wrong("maxLimitRequestRatio", why))
    default, wanted = values.get("default"), values.get("defaultRequest")
    if default is not None and wanted is not None and default != wanted and not may_overcommit(name):
        why = f"default value {texts['default']} must equal to defaultRequest value {texts['defaultRequest']} in {name}"
        wrong("defaultRequest", why)


def _ratio(ratio: Fraction, values: Mapping[str, Fraction], text: str, wrong: Callable[[str], None]) -> None:
    if ratio < 1:
        wrong(f"ratio {text} is less than 1")
    least, most = values.get("min"), values.get("max")
    if least and most is not None and ratio > most / least:
        wrong(f"ratio {text} is greater than max/min = {float(most / least):f}")
