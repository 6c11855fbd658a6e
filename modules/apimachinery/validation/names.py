"""The formats of Kubernetes' names, keys and labels, in the words of its validation (apimachinery's `util/validation`).

Each function yields the errors of a text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

Faults = Callable[[str], Iterable[str]]
"""Yields the errors of a text."""

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_DATA_KEY: Final = r"[-._a-zA-Z0-9]+"
_HEADER: Final = r"[-A-Za-z0-9]+"
_READ_NAME, _READ_SUBDOMAIN, _READ_LABEL, _READ_DATA_KEY, _READ_1035, _READ_HEADER = map(
    re.compile, (_NAME, _SUBDOMAIN, _LABEL, _DATA_KEY, _DNS_1035, _HEADER)
)
_READ_PORT_NAME: Final = re.compile("[-a-z0-9]+")
_READ_VARIABLE: Final = re.compile("[ -<>-~]+")
_LONGEST_NAME: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_PORT_NAME: Final = 15
_OF_NAMES: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)


def faults_of_subdomain(text: str) -> Iterator[str]:
    """Yield the faults of an object's name."""
    if len(text) > _LONGEST_SUBDOMAIN:
        yield _too_long(_LONGEST_SUBDOMAIN)
    if not _READ_SUBDOMAIN.fullmatch(text):
        rule = "must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an"
        example = f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        yield f"a lowercase RFC 1123 subdomain {rule} alphanumeric character {example}"


def faults_of_wildcard(text: str) -> Iterator[str]:
    """Yield the faults of a name that stands for all hosts of a domain: `*.example.com`."""
    if len(text) > _LONGEST_SUBDOMAIN:
        yield _too_long(_LONGEST_SUBDOMAIN)
    if not text.startswith("*.") or not _READ_SUBDOMAIN.fullmatch(text[2:]):
        rule = "must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric"
        ends = "characters, '-' or '.' and end with an alphanumeric character"
        example = f"(e.g. '*.example.com', regex used for validation is '\\*\\.{_SUBDOMAIN}')"
        yield f"a wildcard DNS-1123 subdomain {rule} {ends} {example}"


def faults_of_label(text: str) -> Iterator[str]:
    """Yield the faults of the name of a namespace, container or volume."""
    if len(text) > _LONGEST_NAME:
        yield _too_long(_LONGEST_NAME)
    if _READ_LABEL.fullmatch(text):
        return
    if _READ_SUBDOMAIN.fullmatch(text):
        yield "must not contain dots"
        return
    rule = "must consist of lower case alphanumeric characters or '-', and must start and end with an"
    example = f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
    yield f"a lowercase RFC 1123 label {rule} alphanumeric character {example}"


def faults_of_dns_1035_label(text: str) -> Iterator[str]:
    """Yield the faults of the name of a Service."""
    if len(text) > _LONGEST_NAME:
        yield _too_long(_LONGEST_NAME)
    if not _READ_1035.fullmatch(text):
        rule = "must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end"
        example = f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS_1035}')"
        yield f"a DNS-1035 label {rule} with an alphanumeric character {example}"


def faults_of_label_key(key: str) -> Iterator[str]:
    """Yield the faults of a label's key: a name, perhaps with a DNS subdomain before it."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield f"a qualified name {_OF_NAMES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        for fault in faults_of_subdomain(prefix):
            yield f"prefix part {fault}"
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _LONGEST_NAME:
        yield f"name part {_too_long(_LONGEST_NAME)}"
    if not _READ_NAME.fullmatch(name):
        yield f"name part {_OF_NAMES}"


def faults_of_label_value(value: str) -> Iterator[str]:
    """Yield the faults of a label's value."""
    if len(value) > _LONGEST_NAME:
        yield _too_long(_LONGEST_NAME)
    if value and not _READ_NAME.fullmatch(value):
        rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
        example = f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
        yield f"{rule} start and end with an alphanumeric character {example}"


def faults_of_data_key(key: str) -> Iterator[str]:
    """Yield the faults of a key in the data of a ConfigMap or Secret."""
    if len(key) > _LONGEST_SUBDOMAIN:
        yield _too_long(_LONGEST_SUBDOMAIN)
    if not _READ_DATA_KEY.fullmatch(key):
        example = "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is"
        yield f"a valid config key must consist of alphanumeric characters, '-', '_' or '.' {example} '{_DATA_KEY}')"
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def faults_of_port_name(name: str) -> Iterator[str]:
    """Yield the faults of a port's name (IANA_SVC_NAME)."""
    if len(name) > _LONGEST_PORT_NAME:
        yield _too_long(_LONGEST_PORT_NAME)
    if not _READ_PORT_NAME.fullmatch(name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not any("a" <= letter <= "z" for letter in name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def faults_of_variable(name: str) -> Iterator[str]:
    """Yield the faults of an environment variable's name (IsRelaxedEnvVarName, the rule since Kubernetes 1.32)."""
    if not _READ_VARIABLE.fullmatch(name):
        yield "a valid environment variable name must consist only of printable ASCII characters other than '='"


def faults_of_header(name: str) -> Iterator[str]:
    """Yield the faults of an HTTP header's name."""
    if not _READ_HEADER.fullmatch(name):
        example = f"(e.g. 'X-Header-Name', regex used for validation is '{_HEADER}')"
        yield f"a valid HTTP header must consist of alphanumeric characters or '-' {example}"


def _too_long(most: int) -> str:
    return f"must be no more than {most} characters"
