"""The rules of certificate requests (Kubernetes' `certificates/validation`)."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from modules.apimachinery.validation.causes import Causes, duplicate, invalid, required, too_long, unsupported
from modules.apimachinery.validation.names import faults_of_label, faults_of_subdomain
from modules.apimachinery.validation.rules import Fields, at_least, needed, or_zero, pointer

_PEM: Final = re.compile(rb"^-----(BEGIN|END) ([^\r\n]*)-----[ \t]*\r?$", re.MULTILINE)
"""A line that begins or ends a block."""
_REQUEST: Final = b"CERTIFICATE REQUEST"
_CERTIFICATE: Final = b"CERTIFICATE"
_HIDDEN: Final = "<certificate data>"
"""Stands for a certificate in a refusal."""
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_LONGEST_DOMAIN: Final = 253
_LONGEST_SIGNER: Final = _LONGEST_DOMAIN + 1 + 253 + 63 + 1
_LEAST_SECONDS: Final = 600


def _pem(value: str, path: str, found: Causes) -> None:
    """Check that a request is in PEM; its content is for the signer to check."""
    try:
        first = next(_types_of_blocks(b64decode(value)), b"")
    except (binascii.Error, ValueError):
        first = b""
    if first != _REQUEST:
        found.append(invalid(path, value, "PEM block type must be CERTIFICATE REQUEST"))


def issued_certificate(value: str, path: str, found: Causes) -> None:
    """Check that a certificate is in PEM, and nothing else with it; its content is its signer's."""
    blocks = [*_types_of_blocks(b64decode(value))]
    others = [block for block in blocks if block != _CERTIFICATE]
    if others:
        name = others[0].decode("utf-8", "replace")[:_LONGEST_DOMAIN]
        found.append(invalid(path, _HIDDEN, f'only CERTIFICATE PEM blocks are allowed, found "{name}"'))
    elif not blocks:
        found.append(invalid(path, _HIDDEN, "must contain at least one CERTIFICATE PEM block"))


def _types_of_blocks(text: bytes) -> Iterator[bytes]:
    """Yield the types of the PEM blocks in a text, which is read once: each block ends at the next end of its type, and
    none is within another (Go's `pem.Decode`, without the square of CVE-2025-61723).
    """
    begun: bytes | None = None
    for mark in _PEM.finditer(text):
        if mark[1] == b"END" and mark[2] == begun:
            yield mark[2]
        begun = mark[2] if mark[1] == b"BEGIN" else None


def _usages(value: Sequence[str], path: str, found: Causes) -> None:
    seen = set[str]()
    for index, usage in enumerate(value):
        if usage not in _USAGES:
            found.append(unsupported(f"{path}[{index}]", usage, _USAGES))
        if usage in seen:
            found.append(duplicate(f"{path}[{index}]", usage))
        seen.add(usage)


def signer_name(value: str, path: str, found: Causes) -> None:
    """Check the name of a signer: a domain and a path, such as `example.com/own`."""
    domain, _, rest = value.partition("/")
    if value.count("/") != 1:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        found.append(invalid(path, value, why))
        return
    if len(domain) > _LONGEST_DOMAIN:
        found.append(too_long(path, _LONGEST_DOMAIN))
    labels = domain.split(".")
    _labels(domain, labels, faults_of_label, path, found)
    if len(labels) < 2:
        why = "should be a domain with at least two segments separated by dots"
        found.append(invalid(path, domain, why))
    _labels(rest, rest.split("."), faults_of_subdomain, path, found)
    if len(value) > _LONGEST_SIGNER:
        found.append(too_long(path, _LONGEST_SIGNER))


def _labels(text: str, labels: Sequence[str], faults: Any, path: str, found: Causes) -> None:
    """Check the parts of a text; only the first bad one is reported."""
    for label in labels:
        whys = list(faults(label))
        for why in whys:
            found.append(invalid(path, text, f'validating label "{label[:63]}": {why}'))
        if whys:
            return


def _signer(value: Mapping[str, Any], path: str, found: Causes) -> None:
    name = value.get("signerName") or ""
    if name == _LEGACY:
        found.append(invalid(f"{path}.signerName", name, "the legacy signerName is not allowed via this API version"))
    elif name:
        signer_name(name, f"{path}.signerName", found)
    else:
        found.append(required(f"{path}.signerName"))


_SPEC: Final = Fields({"request": or_zero(_pem, ""), "usages": needed(_usages)}, _signer)
_LONG_ENOUGH: Final = at_least(_LEAST_SECONDS, "may not specify a duration less than 600 seconds (10 minutes)")
certificate_request = Fields(
    {"spec": or_zero(Fields({}, _SPEC, Fields({"expirationSeconds": pointer(_LONG_ENOUGH)})), {})}
)
