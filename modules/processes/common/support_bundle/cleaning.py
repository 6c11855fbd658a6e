"""Removes values from the objects of a support bundle that no form shows to be secret, as `beehive.trace.secret_forms`
does with others.
"""

from typing import Any, Final

from beehive.trace.secret_forms import CUT

_VALUES: Final = {"env": "value", "httpHeaders": "value"}
"""Fields of a container whose entries have values that may be secret, see `core/v1` Container and HTTPGetAction."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with a whole object, values of variables included."""


def without_values(value: Any) -> Any:
    """Return a pod, as JSON, without the values of variables and headers."""
    if isinstance(value, list):
        return [without_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_value(item, _VALUES[name])
        if name in _VALUES
        else CUT
        if name == _LAST_APPLIED
        else without_values(item)
        for name, item in value.items()
    }


def _without_value(entries: Any, field: str) -> Any:
    if not isinstance(entries, list):
        return CUT
    return [
        {name: CUT if name == field else item for name, item in entry.items()} if isinstance(entry, dict) else CUT
        for entry in entries
    ]
