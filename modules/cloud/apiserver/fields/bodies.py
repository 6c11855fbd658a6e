"""The bodies of requests as Go's decoder reads them, also of kinds that are not stored."""

from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.kinds import KINDS, JsonObject, Kind
from modules.apimachinery.validation.causes import shown
from modules.cloud.apiserver.fields.types import decoded
from modules.cloud.apiserver.fields.validation import IGNORE
from modules.cloud.apiserver.unreadable_bodies import not_an_object, without_kind

SCALE: Final = Kind("Scale", "autoscaling/v1", "scales")
BINDING: Final = Kind("Binding", "v1", "bindings")
EVICTION: Final = Kind("Eviction", "policy/v1", "evictions")
TOKEN_REQUEST: Final = Kind("TokenRequest", "authentication.k8s.io/v1", "tokenrequests")
DELETE_OPTIONS: Final = Kind("DeleteOptions", "v1", "deleteoptions")
_OLDER: Final = {"Eviction": "policy/v1beta1"}
"""Versions of kinds that clients may still send: kubectl before 1.22 evicts so."""
LONGEST_SHOWN: Final = 240
"""Characters of what a sender has written in the message of a refusal."""


def read_body(kind: Kind, body: Any) -> JsonObject:
    """Return a body as an object of a kind.

    Raises:
        BadRequestError: it is no object, or names another kind.
        DecodingError: a field has another type.
    """
    if not isinstance(body, dict):
        raise not_an_object(body, kind.name)
    check_kind(kind, body)
    return decoded(kind, body)


def check_kind(kind: Kind, obj: JsonObject) -> None:
    """Check that an object names no other kind than the one that is wanted.

    Raises:
        BadRequestError, InvalidError: it does.
    """
    given, version = (str(obj.get(field) or "")[:LONGEST_SHOWN] for field in ("kind", "apiVersion"))
    given, version = given or kind.name, version or kind.api_version
    if given == kind.name and version in (kind.api_version, _OLDER.get(given)):
        return
    if kind.is_custom and version != kind.api_version:
        raise _of_another_version(version, kind.api_version)
    if kind.is_custom:
        metadata = obj.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        why = f"Invalid value: {shown(given)}: must be {kind.name}"
        raise InvalidError(given, name[:LONGEST_SHOWN], "kind", why, kind.api_group)
    of = version.rpartition("/")[2]
    if any((one.name, one.api_version) == (given, version) for one in KINDS):
        group = kind.api_group.partition(".")[0] or "core"
        why = f"converting ({of}.{given}) to ({group}.{kind.name}): unknown conversion"
    else:
        why = f'no kind "{given}" is registered for version "{version}"'
    raise BadRequestError(f'{given} in version "{of}" cannot be handled as a {kind.name}: {why}')


def check_custom_type(kind: str, version: str, body: Any, validation: str) -> None:
    """Check that the body of a request names the kind and version of a custom object, which only built-in ones may
    leave out.

    Args:
        kind: the kind that is wanted.
        version: its API version.
        body: the body.
        validation: the request's `fieldValidation`.

    Raises:
        BadRequestError: it names none, or another version.
    """
    if not isinstance(body, dict):
        return
    if not body.get("kind"):
        raise without_kind(kind, version, msgspec.json.encode(body), is_read=validation == IGNORE)
    if not body.get("apiVersion"):
        raise _of_another_version("", version)


def _of_another_version(given: str, wanted: str) -> BadRequestError:
    data = f"the API version in the data ({given})"
    return BadRequestError(f"{data} does not match the expected API version ({wanted})")
