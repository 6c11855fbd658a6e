"""`create token NAME`: asks for a token of a service account, and prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.tools.kubectl.durations import seconds_of
from modules.tools.kubectl.errors import UsageError
from modules.tools.kubectl.output import print_result
from modules.tools.printing.fields import text_at
from modules.tools.printing.terminal import print_text

if TYPE_CHECKING:
    from modules.tools.kubectl.parser import VerbParser
    from modules.tools.kubectl.session import Session
    from modules.tools.printing.fields import JsonObject

_KINDS: Final = ("Pod", "Secret", "Node")
_BOUND: Final = "bound_object"


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--audience", action="append", default=[], metavar="NAME", help="token: for whom it is; repeatable"
    )
    parser.add_argument("--duration", default="", metavar="TIME", help="token: how long it is valid: 10m, 24h")
    for part, text in (("kind", ", ".join(_KINDS)), ("name", "its name"), ("uid", "its uid (default: any)")):
        parser.add_argument(
            f"--bound-object-{part}",
            default="",
            metavar=part.upper(),
            help=f"token: the object with which it ends: {text}",
        )


def run(session: Session, chosen: Any, names: list[str]) -> int:
    """Print a new token, and nothing else; with `-o` the whole TokenRequest.

    Raises:
        UsageError: the words or options are wrong.
    """
    if len(names) != 1:
        raise UsageError(f"exactly one NAME is required, got {len(names)}: `create token NAME`")
    if chosen.dry_run != "none":
        raise UsageError("a token is not stored anywhere, so there is no dry run of it")
    resource = session.discovery.one("serviceaccounts")
    path = resource.path(session.namespace, names[0], "token")
    body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": _spec(chosen)}
    answer = session.client.request("POST", path, (), body)
    if chosen.output:
        print_result(chosen, resource, answer, "created")
    else:
        print_text(text_at(answer, "status.token"))
    return 0


def _spec(chosen: Any) -> JsonObject:
    spec: JsonObject = {"audiences": chosen.audience} if chosen.audience else {}
    if chosen.duration:
        seconds = seconds_of(chosen.duration)
        if seconds <= 0 or seconds != int(seconds) or chosen.duration.startswith("-"):
            raise UsageError("--duration is a whole number of seconds, above 0")
        spec["expirationSeconds"] = int(seconds)
    kind, name, uid = (getattr(chosen, f"{_BOUND}_{part}") for part in ("kind", "name", "uid"))
    if not kind and (name or uid):
        raise UsageError("--bound-object-kind is set if --bound-object-name or --bound-object-uid is")
    if kind:
        if kind not in _KINDS or not name:
            raise UsageError(
                f"--bound-object-kind is one of {', '.join(_KINDS)}, and --bound-object-name is set with it"
            )
        bound = {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}
        spec["boundObjectRef"] = {field: value for field, value in bound.items() if value}
    return spec
