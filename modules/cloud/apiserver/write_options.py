"""The options of writes, checked as an API server does (apimachinery's `apis/meta/v1/validation`)."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import ConflictError
from modules.apimachinery.graceful_deletion import BACKGROUND, FOREGROUND, ORPHAN
from modules.apimachinery.kinds import JsonObject, uid_of, version_of
from modules.apimachinery.validation.causes import Cause, forbidden, required, shown
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiserver.fields.validation import IGNORE, STRICT, WARN
from modules.cloud.client.calls import APPLY, ApiCall

_META: Final = "meta.k8s.io"
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_DELETES: Final = ("delete", "deletecollection")
_ALL: Final = "All"
_LONGEST_MANAGER: Final = 128
_PROPAGATIONS: Final = (FOREGROUND, BACKGROUND, ORPHAN)
_VALIDATIONS: Final = ("", IGNORE, STRICT, WARN)


def check_options(request: ApiCall) -> None:
    """Check the options of a write.

    Raises:
        InvalidFieldsError: an option has a value that no API server takes.
    """
    if not request.options:
        return
    if request.verb in _DELETES:
        check_delete_options(request.options)
    elif kind := _KINDS.get(request.verb, ""):
        _refuse(kind, [*_faults_of_write(request), *_faults_of_dry_run(request.options)])


def check_delete_options(options: JsonObject) -> None:
    """Check the options of a deletion.

    Raises:
        InvalidFieldsError: an option has a value that no API server takes.
    """
    _refuse("DeleteOptions", [*_faults_of_delete(options), *_faults_of_dry_run(options)])


def _refuse(kind: str, causes: Sequence[Cause]) -> None:
    if causes:
        raise InvalidFieldsError(kind, _META, "", causes)


def check_uid(preconditions: JsonObject, live: JsonObject) -> None:
    """Check that the preconditions of a deletion name this object, or none. An empty text names another.

    Raises:
        ConflictError: they name another.
    """
    _check_precondition("UID", preconditions.get("uid"), live, uid_of(live), "deleted and then recreated")


def check_resource_version(preconditions: JsonObject, live: JsonObject) -> None:
    """Check that the preconditions of a deletion name this state of an object, or none. Here `0` is a state that no
    object has, as an empty text is.

    Raises:
        ConflictError: they name another.
    """
    _check_precondition("ResourceVersion", preconditions.get("resourceVersion"), live, version_of(live), "modified")


def _check_precondition(field: str, wanted: str | None, live: JsonObject, present: str, happened: str) -> None:
    """Refuse a deletion in the words of kube-apiserver's BeforeDelete."""
    if wanted is not None and wanted != present:
        record = f"the {field} in the precondition ({wanted[:40]}) does not match the {field} in record"
        why = f"{record} ({present}). The object might have been {happened}"
        group = str(live["apiVersion"]).rpartition("/")[0]
        raise ConflictError(live["kind"], live["metadata"]["name"], why, group)


def check_manager(patch_type: str, options: JsonObject) -> None:
    """Check that a client names itself in a server-side apply; calls inside cloudcore need no name.

    Raises:
        InvalidFieldsError: it does not.
    """
    if patch_type == APPLY and not options.get("fieldManager"):
        missing = required("fieldManager", "is required for apply patch")
        raise InvalidFieldsError(_KINDS["patch"], _META, "", [missing])


def _faults_of_write(request: ApiCall) -> Iterator[Cause]:
    options = request.options
    manager, validation = str(options.get("fieldManager") or ""), str(options.get("fieldValidation") or "")
    if request.verb == "patch" and request.patch_type != APPLY and options.get("force") is not None:
        yield forbidden("force", "may not be specified for non-apply patch")
    if len(manager) > _LONGEST_MANAGER:
        yield Cause("fieldManager", f"Too long: may not be more than {_LONGEST_MANAGER} bytes", "FieldValueTooLong")
    for at, each in enumerate(manager[:_LONGEST_MANAGER]):
        if not each.isprintable():
            why = f"invalid character U+{ord(each):04X} (at position {len(manager[:at].encode())})"
            yield Cause("fieldManager", f"Invalid value: {shown(manager)}: {why}")
    if validation not in _VALIDATIONS:
        yield _unsupported("fieldValidation", shown(validation), _VALIDATIONS)


def _faults_of_dry_run(options: JsonObject) -> Iterator[Cause]:
    asked = options.get("dryRun")
    if asked and asked != [_ALL]:
        values = [str(each) for each in asked] if isinstance(asked, list) else [str(asked)]
        if any(each != _ALL for each in values):
            yield _unsupported("dryRun", f"[]string{{{', '.join(map(shown, values))}}}", (_ALL,))


def _faults_of_delete(options: JsonObject) -> Iterator[Cause]:
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    if policy is not None and orphans is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        yield Cause("propagationPolicy", f"Invalid value: {shown(policy)}: {why}")
    if policy is not None and policy not in _PROPAGATIONS:
        yield _unsupported("propagationPolicy", shown(policy), (*_PROPAGATIONS, "nil"))


def propagation_policy(options: JsonObject) -> str | None:
    """Return the propagation policy in checked DeleteOptions; the older `orphanDependents` means one, too. None: they
    have none.
    """
    orphans = options.get("orphanDependents")
    if orphans is not None:
        return ORPHAN if orphans else BACKGROUND
    policy = options.get("propagationPolicy")
    return policy if isinstance(policy, str) else None


def _unsupported(field: str, value: str, known: tuple[str, ...]) -> Cause:
    words = ", ".join(msgspec.json.encode(each).decode() for each in known)
    return Cause(field, f"Unsupported value: {value}: supported values: {words}", "FieldValueNotSupported")


def is_dry_run(request: ApiCall) -> bool:
    """Return whether a write, whose options were checked, is to change nothing. An Eviction has options of its own."""
    inner: Any = request.body.get("deleteOptions") if isinstance(request.body, dict) else None
    evicts = request.subresource == "eviction" and isinstance(inner, dict)
    return bool(request.options.get("dryRun") or (evicts and inner.get("dryRun")))
