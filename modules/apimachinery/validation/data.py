"""The rules of ConfigMaps and Secrets."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from beehive.decoding import decode_json
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.limits import DATA_BYTES
from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required, too_long
from modules.apimachinery.validation.metadata import bytes_of, immutable
from modules.apimachinery.validation.names import faults_of_data_key

_OF_ACCOUNTS: Final = "kubernetes.io/service-account-token"
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that a Secret of a type must have."""
_BASIC: Final = ("username", "password")
_LONGEST_KEY: Final = 253
_IMMUTABLE: Final = "field is immutable when `immutable` is set"


def _keys(value: Mapping[str, str], path: str, found: Causes) -> None:
    for key in value:
        for why in faults_of_data_key(key):
            found.append(invalid(f"{path}[{key[:_LONGEST_KEY]}]", key, why))


def _decoded_size(data: Mapping[str, str]) -> int:
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in data.values())


def config_map(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a ConfigMap."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    _keys(data, f"{path}.data", found)
    for key in data:
        if key in binary:
            found.append(invalid(f"{path}.data[{key[:_LONGEST_KEY]}]", key, "duplicate of key present in binaryData"))
    _keys(binary, f"{path}.binaryData", found)
    if sum(map(bytes_of, data.values())) + _decoded_size(binary) > DATA_BYTES:
        found.append(too_long("[]", DATA_BYTES))


def secret(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a Secret, whose `stringData` has become `data`."""
    data, kind = obj.get("data") or {}, obj.get("type") or ""
    _keys(data, f"{path}.data", found)
    if _decoded_size(data) > DATA_BYTES:
        found.append(too_long(f"{path}.data", DATA_BYTES))
    for key in _KEYS.get(kind, ()):
        if key not in data:
            found.append(required(f"{path}.data[{key}]"))
        elif key.startswith(".docker"):
            _json(data[key], f"{path}.data[{key}]", found)
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC):
        for key in _BASIC:
            found.append(required(f"{path}.data[{key}]"))
    if kind == _OF_ACCOUNTS and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        found.append(required(f"metadata.annotations[{_ACCOUNT}]"))


def _json(text: str, path: str, found: Causes) -> None:
    try:
        content = decode_json(base64.b64decode(text))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        found.append(invalid(path, "<secret contents redacted>", "it is not a JSON object"))


def data_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a change of a ConfigMap or Secret: `immutable` stays, and its data with it; a Secret's type stays."""
    if new["kind"] == "Secret":
        immutable(new.get("type") or "", live.get("type") or "", "type", found)
    if not live.get("immutable"):
        return
    if not new.get("immutable"):
        found.append(forbidden("immutable", _IMMUTABLE))
    for field in ("data", "binaryData"):
        if (new.get(field) or {}) != (live.get(field) or {}):
            found.append(forbidden(field, _IMMUTABLE))
