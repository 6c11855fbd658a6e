"""Removes secrets from the texts of a support bundle.

Values of secrets that are known, from the configuration and the store, are replaced by marks wherever they are
(`beehive.trace.redact`). What is a secret by its form is cut out whether it is known or not: credentials in URLs and
headers, private keys, and JSON Web Tokens.
"""

import re
from typing import Any, Final

from beehive.trace.redact import Redactor

CUT: Final = "(left out)"

_FORMS: Final = (
    re.compile(r"(?<=://)[^/@\s\"'<>]{1,400}(?=@)"),
    re.compile(r"(?<=\b[Bb]earer )[\w.~+/=-]{8,4096}|(?<=\b[Bb]asic )[\w+/=-]{8,4096}"),
    re.compile(
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----"
    ),
    re.compile(r"\beyJ[\w-]{8,4096}\.[\w-]{2,8192}\.[\w-]{0,2048}"),
)
_VALUES: Final = {"env": "value", "httpHeaders": "value"}
"""Fields of a container whose entries have values that may be secret, see `core/v1` Container and HTTPGetAction."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with a whole object, values of variables included."""


def without_secrets(text: str, redactor: Redactor) -> str:
    """Return a text without the secrets that the redactor knows, and without what is a secret by its form."""
    for form in _FORMS:
        text = form.sub(CUT, text)
    return redactor.text(text)


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
