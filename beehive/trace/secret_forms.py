"""Removes what is a secret by its form from texts for people: credentials in URLs and headers, private keys, JSON Web
Tokens, and values beside a name such as `password=`.

Values of secrets that the process knows are replaced wherever they are, see `beehive.trace.redact`.
"""

import re
from typing import TYPE_CHECKING, Final

from beehive.patterns import pattern

if TYPE_CHECKING:
    from beehive.trace.redact import Redactor

CUT: Final = "(left out)"

_KEY: Final = "-----{} [A-Z ]{{0,30}}PRIVATE KEY-----"

_FORMS: Final = (
    re.compile(r"(?<=://)[^/@\s\"'<>]{1,400}(?=@)"),
    re.compile(r"(?<=\b[Bb]earer )[\w.~+/=-]{8,4096}|(?<=\b[Bb]asic )[\w+/=-]{8,4096}"),
    re.compile(rf"{_KEY.format('BEGIN')}(?:[^-]|-(?!----)){{0,20000}}{_KEY.format('END')}"),
    re.compile(rf"\A[\w+/=\s\\]{{0,20000}}{_KEY.format('END')}|{_KEY.format('BEGIN')}[\w+/=\s\\]{{0,20000}}\Z"),
    re.compile(r"\beyJ[\w-]{8,4096}\.[\w-]{2,8192}\.[\w-]{0,2048}"),
)
_NAMED: Final = pattern(
    r"((?:passw(?:or)?d|token|api_?key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?)[^\s\"',;&(]{1,400}", re.IGNORECASE
)


def without_forms(text: str) -> str:
    """Return a text without the parts whose form tells that they are secret; it may begin or end within a key."""
    for form in _FORMS:
        text = form.sub(CUT, text)
    return _NAMED.sub(rf"\1{CUT}", text)


def without_secrets(text: str, redactor: "Redactor") -> str:
    """Return a text without the secrets that the redactor knows, and without what is a secret by its form."""
    return redactor.text(without_forms(text))
