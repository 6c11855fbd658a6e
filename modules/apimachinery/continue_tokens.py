"""The continue tokens of lists in parts, in the form of an API server on etcd (apiserver's `storage/continue.go`)."""

import base64
import re
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.go_json import syntax_error, type_error

_VERSION: Final = "meta.k8s.io/v1"
_ALPHABET: Final = re.compile(rb"[-_A-Za-z0-9]*")
_INVALID: Final = "continue key is not valid"
_LONGEST: Final = 2048
"""Characters of a token: two names of 253 bytes, and the JSON around them."""


def write_continue(version: int, start: str) -> str:
    """Return the token of a list of a version, which goes on at a key."""
    text = msgspec.json.encode({"v": _VERSION, "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_continue(token: str) -> tuple[int, str]:
    """Return version and key of a token; the version is below zero for the present state.

    Raises:
        ValueError: it is no continue token; the text has the reason in an API server's words.
    """
    found = _json_of(_plain(token))
    version, start = found.get("rv") or 0, found.get("start") or ""
    if found.get("v") != _VERSION:
        raise ValueError(f"{_INVALID}: server does not recognize this encoded version {str(found.get('v') or '')[:40]}")
    if not isinstance(version, int) or not version:
        raise ValueError(f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not isinstance(start, str) or not start:
        raise ValueError(f"{_INVALID}: encoded start key empty (version {_VERSION})")
    if {"", ".", ".."} & set(start.removeprefix("/").split("/")):
        raise ValueError(f"{_INVALID}: {start[:40]}")
    return version, start


def _plain(token: str) -> bytes:
    text = token[:_LONGEST].encode("utf-8", "replace")
    read = _ALPHABET.match(text)
    good = len(read[0]) if read else 0
    if good < len(text) or good % 4 == 1 or len(token) > _LONGEST:
        at = good - 1 if good == len(text) else good
        raise ValueError(f"{_INVALID}: illegal base64 data at input byte {at}")
    return base64.urlsafe_b64decode(text + b"=" * (-good % 4))


def _json_of(text: bytes) -> dict[str, Any]:
    fault = syntax_error(text)
    found = None if fault else decode_json(text.decode("utf-8", "replace"))
    if isinstance(found, dict):
        return found
    raise ValueError(f"{_INVALID}: {fault or type_error(found, 'storage.continueToken')}")
