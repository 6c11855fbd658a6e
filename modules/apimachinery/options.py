"""Options of get, list and watch."""

import re
from collections.abc import Container, Iterable
from enum import Enum
from typing import Final

import msgspec

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.go_durations import duration_error
from modules.apimachinery.go_json import int64_error
from modules.apimachinery.resources import Resource
from modules.apimachinery.selectors import Selector, parse_selector
from modules.apimachinery.validation.causes import Causes, forbidden, unsupported

WATCH_SECONDS: Final = 3600
"""Duration of a watch without `timeoutSeconds` (an API server: half an hour to an hour)."""

_JSON: Final = ("application/json", "application/*", "*/*", "")
_OFFERED: Final = "application/json, application/yaml"
_MATCH: Final = "resourceVersionMatch"
EXACT: Final = "Exact"
_NOT_OLDER: Final = "NotOlderThan"
_CONTINUED: Final = "resourceVersionMatch is forbidden when continue is provided"
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")
"""A weight in an Accept header (RFC 9110, 12.4.2)."""
_INCLUDED: Final = ("Metadata", "Object", "None")


class Form(Enum):
    """Form of the objects in a response."""

    OBJECT = "as they are"
    TABLE = "kubectl's rows"
    METADATA = "without spec and status"


_FORMS: Final = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}


_WITHOUT_TABLES: Final = (Form.OBJECT, Form.METADATA)
"""The forms of a watch that begins with the present objects on request."""


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of a get, list or watch."""

    form: Form = Form.OBJECT
    included: str = "Metadata"
    """Part of the object in a table's row."""
    selector: Selector = Selector()
    limit: int = 0
    """Objects in one response; 0: all."""
    continued: str = ""
    """The continue parameter of a list."""
    watch: bool = False
    revision: str = ""
    """Revision after which a watch begins; empty or `0` begins with the present objects."""
    bookmarks: bool = False
    initial_events: bool | None = None
    """Whether a watch begins with the present objects; None: `revision` decides."""
    seconds: int = WATCH_SECONDS
    """Duration of a watch."""


def check_timeout(request: Request) -> None:
    """Check the `timeout` of a request that is no watch and no stream (kube-apiserver's WithRequestDeadline). Its value
    changes nothing here: the server has a deadline of its own.

    Raises:
        ApiStatusError: 400; it is no duration.
    """
    text = request.first("timeout")
    if text and (why := duration_error(text)):
        raise ApiStatusError(400, f"invalid timeout specified in the request URL - {why}")


def read_options(request: Request, resource: Resource, *, is_collection: bool) -> ReadOptions:
    """Return the options of a request.

    Args:
        request: the request.
        resource: what it is for.
        is_collection: whether it is a list or a watch; a get has no ListOptions, and what stands for them is ignored.

    Raises:
        ApiStatusError: one of them cannot be read, or the client accepts no known form.
    """
    included = request.first("includeObject") or "Metadata"
    initial_events = request.flag("sendInitialEvents") if request.all("sendInitialEvents") else None
    begins = initial_events and request.flag("watch")
    form = form_of(request.header("accept"), _WITHOUT_TABLES if begins else frozenset(Form))
    if form is Form.TABLE and included not in _INCLUDED:
        why = f"Invalid value: \"{included[:40]}\": must be 'Metadata', 'Object', 'None', or empty"
        raise ApiStatusError(400, f"Unable to convert to Table as requested: includeObject: {why}")
    if not is_collection:
        if request.flag("export"):
            raise ApiStatusError(400, "the export parameter, deprecated since v1.14, is no longer supported")
        return ReadOptions(form=form, included=included)
    seconds, limit = _number(request, "timeoutSeconds", 0), _number(request, "limit", 0)
    check_list_options(request)
    return ReadOptions(
        form=form,
        included=included,
        selector=parse_selector(resource, request.first("labelSelector"), request.first("fieldSelector")),
        limit=limit,
        continued=request.first("continue"),
        watch=request.flag("watch"),
        revision=request.first("resourceVersion"),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial_events,
        seconds=seconds or WATCH_SECONDS,
    )


def check_list_options(request: Request) -> None:
    """Refuse the combinations of `sendInitialEvents`, `resourceVersionMatch` and others that an API server refuses
    (ValidateListOptions).
    """
    match, is_asked = request.first(_MATCH), bool(request.all("sendInitialEvents"))
    if request.flag("watch"):
        found = _watch_faults(match, is_asked=is_asked, has_token=bool(request.first("continue")))
    else:
        found = match_faults(match, request.first("resourceVersion"), has_token=bool(request.first("continue")))
        if is_asked:
            found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if found:
        causes = [{"reason": one.reason, "message": one.message, "field": one.field} for one in found]
        told = str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]"
        details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
        raise ApiStatusError(422, f'ListOptions.meta.k8s.io "" is invalid: {told}', details)


def match_faults(match: str, version: str, *, has_token: bool) -> Causes:
    """Return why the `resourceVersionMatch` of a list does not fit its other options.

    Args:
        match: the option; "" for none.
        version: the `resourceVersion`.
        has_token: whether the list is to be continued.
    """
    found = Causes()
    if not match:
        return found
    if not version:
        found.append(forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if has_token:
        found.append(forbidden(_MATCH, _CONTINUED))
    if match not in (EXACT, _NOT_OLDER):
        found.append(unsupported(_MATCH, match, [EXACT, _NOT_OLDER, ""]))
    if match == EXACT and version == "0":
        found.append(forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return found


def _watch_faults(match: str, *, is_asked: bool, has_token: bool) -> Causes:
    found = Causes()
    if is_asked and match != _NOT_OLDER:
        found.append(forbidden(_MATCH, f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"))
    if match and not is_asked:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        found.append(forbidden(_MATCH, why))
    if match not in ("", _NOT_OLDER):
        found.append(unsupported(_MATCH, match, [_NOT_OLDER]))
    if match and has_token:
        found.append(forbidden(_MATCH, _CONTINUED))
    return found


def form_of(accept: str, forms: Container[Form] = frozenset(Form)) -> Form:
    """Return the known form that an Accept header prefers.

    Args:
        accept: the header.
        forms: the forms that are served.

    Raises:
        ApiStatusError: 406; the header accepts no JSON, only protobuf for instance.
    """
    is_offered = False
    given = accept.split(",")
    has_ranks = len(given) > 1 and ("q=" in accept or "*" in accept)
    for each in sorted(given, key=rank) if has_ranks else given:
        media, *parameters = (part.strip() for part in each.split(";"))
        form = _form(parameters)
        is_offered = is_offered or media in _JSON
        if media in _JSON and form is not None and form in forms:
            return form
    if is_offered:
        raise ApiStatusError(406, f"only the following media types are accepted: {_OFFERED}")
    raise ApiStatusError(406, f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}")


def _form(parameters: Iterable[str]) -> Form | None:
    """Return the form that the parameters of a media type name; None for an unknown one."""
    given = dict(text.split("=", 1) for text in parameters if "=" in text)
    if not given.keys() & {"as", "g", "v"}:
        return Form.OBJECT
    is_known = given.get("g") == "meta.k8s.io" and given.get("v") in ("v1", "v1beta1")
    return _FORMS.get(given.get("as", "")) if is_known else None


def rank(accepted: str) -> tuple[float, bool, bool]:
    """Return the place of a media type among others: by its weight, and those without wildcards first (goautoneg)."""
    media, *parameters = (part.strip() for part in accepted.split(";"))
    kind, _, inner = media.partition("/")
    weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
    return -float(weight) if _WEIGHT.fullmatch(weight) else 0.0, kind == "*", inner == "*"


def check_plain(accept: str) -> None:
    """Check that a client accepts a document as it is: a review has no table, for instance.

    Raises:
        ApiStatusError: 406; it does not.
    """
    form_of(accept, (Form.OBJECT,))


def _number(request: Request, name: str, otherwise: int) -> int:
    """Return a number of the query; one below zero is as good as none, as in an API server."""
    text = next(iter(request.all(name)), None)
    if text is None:
        return otherwise
    if why := int64_error(text):
        raise ApiStatusError(400, why)
    return max(int(text), 0)
