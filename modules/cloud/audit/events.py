"""The events of the audit log, at Kubernetes' level Metadata: without bodies, and without values that may be secret.

The form is that of `Event` in the group audit.k8s.io/v1 (Kubernetes' reference, kube-apiserver Audit Configuration).
"""

from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from beehive.printable import printable
from modules.apimachinery.types.times import format_micro_time, seconds
from modules.cloud.authentication.users import User, groups_of
from modules.cloud.authorization.rbac.rules import AccessRequest

STARTED: Final = "ResponseStarted"
"""Of a stream, such as a watch or a command in a container."""
COMPLETE: Final = "ResponseComplete"
ALLOW: Final = "allow"
FORBID: Final = "forbid"
DECISION: Final = "authorization.k8s.io/decision"
DROPPED: Final = "audit.edgecore.io/dropped"
"""The annotation of an event before which so many were left out."""

_API_VERSION: Final = "audit.k8s.io/v1"
_LEVEL: Final = "Metadata"
_LONGEST_PATH: Final = 2048
_LONGEST: Final = 253
_LONGEST_AGENT: Final = 256
_MOST_GROUPS: Final = 32
_MOST_PARAMETERS: Final = 32
_MOST_BODY: Final = 256 * 1024
_FAILURE: Final = "Failure"
_REDACTED: Final = "redacted"
_SHOWN: Final = frozenset(
    {
        "allowWatchBookmarks", "container", "dryRun", "fieldManager", "fieldSelector", "fieldValidation", "follow",
        "force", "gracePeriodSeconds", "labelSelector", "limit", "limitBytes", "orphanDependents", "ports",
        "pretty", "previous", "propagationPolicy", "reason", "resourceVersion", "resourceVersionMatch",
        "sendInitialEvents", "sinceSeconds", "sinceTime", "stderr", "stdin", "stdout", "tailLines", "timeout",
        "timeoutSeconds", "timestamps", "tty", "watch",
    }
)  # fmt: skip
"""Parameters of the query whose values are shown: Kubernetes' own, without `command`, whose arguments may be secret."""


class AuditUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user (authentication/v1 UserInfo)."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class AuditObject(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object, or the kind of objects, of a request (ObjectReference)."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class AuditStatus(msgspec.Struct, frozen=True):
    """The response (metav1.Status); its message is left out, which may quote the request."""

    metadata: dict[str, str]
    status: str | msgspec.UnsetType
    code: int


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="kind", tag="Event"):
    """An event, whose fields have Kubernetes' names and order."""

    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: AuditUser
    impersonated_user: AuditUser | None = None
    source_ips: tuple[str, ...] = msgspec.field(name="sourceIPs", default=())
    user_agent: str = ""
    object_ref: AuditObject | None = None
    response_status: AuditStatus | None = None
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    annotations: dict[str, str] = {}


class _CreatedMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Created(msgspec.Struct, frozen=True):
    metadata: _CreatedMetadata = _CreatedMetadata()


def audit_event(
    request: Request,
    audit_id: str,
    stage: str,
    *,
    user: User | None,
    impersonated: User | None,
    asked: AccessRequest | None,
    created: bytes,
    code: int,
    decision: str,
    received: float,
    now: float,
) -> AuditEvent:
    """Return the event of a request.

    Args:
        request: the request.
        audit_id: the same for all stages of a request.
        stage: of the request.
        user: who was authenticated; None if that failed.
        impersonated: as whom the request was served, if that is another user.
        asked: the request's attributes; None if they are not known.
        created: the JSON of the object that the request has created, or nothing.
        code: status of the response.
        decision: whether the user may do that; "" if it was not decided.
        received: seconds since the epoch of the request.
        now: seconds since the epoch.
    """
    return AuditEvent(
        _API_VERSION, _LEVEL, audit_id, stage, shown_uri(request),
        asked.verb if asked is not None and asked.verb else _text(request.method.lower()),
        _user_of(user) if user is not None else AuditUser(),
        _user_of(impersonated) if impersonated is not None else None,
        (request.address,) if request.address else (), _text(request.header("user-agent"), _LONGEST_AGENT),
        _object_of(request, asked, created), _status_of(code), _time(received), _time(now),
        {DECISION: decision} if decision else {},
    )  # fmt: skip


def shown_uri(request: Request) -> str:
    """Return path and query of a request: of the query only the parameters that are known to be no secret."""
    path = _text(request.target.partition("?")[0], _LONGEST_PATH)
    shown = [pair for pair in request.query if pair[0] in _SHOWN][:_MOST_PARAMETERS]
    words = [f"{name}={quote(value[:_LONGEST], safe=',=')}" for name, value in shown]
    if len(shown) < len(request.query):
        words.append(_REDACTED)
    return f"{path}?{'&'.join(words)}" if words else path


def _user_of(user: User) -> AuditUser:
    groups = tuple(_text(each) for each in groups_of(user)[:_MOST_GROUPS])
    return AuditUser(_text(user.name), _text(user.uid), groups)


def _status_of(code: int) -> AuditStatus:
    return AuditStatus({}, _FAILURE if code >= HTTPStatus.BAD_REQUEST else msgspec.UNSET, code)


def _object_of(request: Request, asked: AccessRequest | None, created: bytes) -> AuditObject | None:
    if asked is None or not asked.resource:
        return None
    version = "".join(request.parts[2 if asked.group else 1 :][:1])
    name = asked.name or (_name_in(created) if created else "")
    namespace = _text(asked.namespace)  # of a Namespace, the name that a selector has
    return AuditObject(asked.resource, namespace, _text(name), asked.group, version, asked.subresource)


def _name_in(body: bytes) -> str:
    try:
        return decode_json(body, _Created).metadata.name if len(body) <= _MOST_BODY else ""
    except (msgspec.MsgspecError, UnicodeError):
        return ""


def _text(text: str, longest: int = _LONGEST) -> str:
    return printable(text[:longest])[:longest]


def _time(moment: float) -> Any:
    return format_micro_time(seconds(moment))
