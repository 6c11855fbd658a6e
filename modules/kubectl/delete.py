"""`delete`: deletes objects, and waits until they are deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.printing.fields import JsonObject, map_at, text_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError, StatusError, TimedOutError, UsageError
from modules.kubectl import arguments
from modules.kubectl.durations import end_of, seconds_of
from modules.kubectl.output import DRY_RUN
from modules.kubectl.resources import Listing, ObjectRef, fetch_refs, find
from modules.kubectl.session import Session, report
from modules.kubectl.watching import states

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser

_NODE: Final = "edgecore"
_POLICIES: Final = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser)
    arguments.add_namespace(parser)
    arguments.add_selectors(parser)
    arguments.add_files(parser, "delete what these manifests describe: a file, a directory, or -; repeatable")
    arguments.add_dry_run(parser)
    parser.add_argument("-o", "--output", default="", choices=("", "name"), metavar="name", help="names only: pod/web")
    parser.flag("--all", text="all objects of the type in the namespace")
    parser.add_argument(
        "--grace-period", type=int, default=None, metavar="SECONDS", help="given to pods to end (default: their own)"
    )
    parser.add_argument("--grace", type=int, default=None, dest="grace_at_once", help="old name; 0 is --force")
    parser.flag("--now", text="one second to end: --grace-period=1")
    parser.flag("--force", text="immediately, without waiting for the node to end the pod")
    parser.flag("--wait", default=True, text="wait until it is gone (default; --wait=false does not)")
    parser.add_argument("--timeout", default="0", metavar="DURATION", help="longest wait: 90s, 5m (default: no limit)")
    parser.flag("--ignore-not-found", text="no error for a missing object")
    parser.add_argument("--cascade", nargs="?", const="background", default="background", choices=tuple(_POLICIES))
    parser.absent("--raw", "`curl --unix-socket SOCKET -X DELETE http://localhost/api/v1/…` sends any request")
    parser.absent("-i", "--dry-run=server shows what would be deleted")
    parser.absent("--interactive", "--dry-run=server shows what would be deleted")


def run(session: Session, chosen: Any) -> int:
    """Delete the objects; return 1 when one could not be deleted."""
    options = delete_options(session, chosen)
    limit = seconds_of(chosen.timeout)
    wanted = find(session, chosen, verb="delete")
    selected = bool(chosen.all or chosen.selector or chosen.field_selector)
    if any(isinstance(each, Listing) for each in wanted) and not selected:
        raise UsageError("resource(s) were provided, but no name was specified: name them, or say -l or --all")
    lenient = chosen.ignore_not_found or selected  # an object of a list may be gone meanwhile
    refs, errors = _refs(session, chosen, wanted, lenient=lenient)
    if selected and not refs and not errors:
        print_lines(["No resources found"])
    deleted: list[tuple[ObjectRef, str]] = []
    for each in refs:
        if refused := _refusal(session, each):
            errors.append(refused)
            continue
        try:
            deleted.append((each, _deleted(session, chosen, each, options)))
        except StatusError as error:
            if not (lenient and error.is_not_found):
                errors.append(error)
    waiting = [(each, uid) for each, uid in deleted if uid]
    if chosen.wait and waiting:
        _wait(session, waiting, end_of(chosen.timeout) if limit else None)
    return report(session, errors)


def delete_options(session: Session, chosen: Any) -> dict[str, Any]:
    """Return the DeleteOptions of a command.

    Raises:
        UsageError: its options do not fit together.
    """
    grace, force = chosen.grace_period, chosen.force
    if chosen.grace_at_once is not None:
        grace, force = chosen.grace_at_once, force or chosen.grace_at_once == 0
    if chosen.now and grace is not None:
        raise UsageError("--now and --grace-period cannot be specified together")
    if force and grace:
        raise UsageError("--force and --grace-period greater than 0 cannot be specified together")
    if chosen.now:
        grace = 1
    elif force:
        grace = 0
        session.print_remark(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
            "The resource may continue to run on the cluster indefinitely."
        )
    elif grace == 0:
        grace = 1
    body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if grace is not None and grace >= 0:
        body["gracePeriodSeconds"] = grace
    if chosen.dry_run == "server":
        body["dryRun"] = ["All"]
    body["propagationPolicy"] = _POLICIES[chosen.cascade]  # without it, a Job leaves its pods
    return body


def _refs(
    session: Session, chosen: Any, wanted: list[ObjectRef | Listing], *, lenient: bool
) -> tuple[list[ObjectRef], list[KubectlError]]:
    """Return the objects to delete: named objects without a look-up, and the present objects of lists."""
    if chosen.dry_run == "client":
        found, errors = fetch_refs(session, wanted, ignore_not_found=lenient)
        return [each for each, _ in found], errors
    refs: list[ObjectRef] = []
    errors = []
    for each in wanted:
        if isinstance(each, ObjectRef):
            refs.append(each)
        else:
            found, more = fetch_refs(session, [each])
            refs += [item for item, _ in found]
            errors += more
    return refs, errors


def _refusal(session: Session, ref: ObjectRef) -> KubectlError | None:
    """Return why a node does not delete its static pod: it would make the mirror in the cloud again."""
    if session.program != _NODE or ref.resource.plural != "pods":
        return None
    with suppress(StatusError):
        pod = session.client.get(ref.path)
        if CONFIG_SOURCE in map_at(pod, "metadata.annotations"):
            return KubectlError(f'pod "{ref.name}" is static: remove its file from staticPodPath')
    return None


def _deleted(session: Session, chosen: Any, ref: ObjectRef, options: dict[str, Any]) -> str:
    """Delete an object and say so; return its uid if it is still there."""
    answer: JsonObject = {}
    if chosen.dry_run != "client":
        answer = session.client.request("DELETE", ref.path, body=options)
    if chosen.output == "name":
        print_lines([str(ref)])
    else:
        kind = ref.resource.shown("").removesuffix("/")
        done = "force deleted" if options.get("gracePeriodSeconds") == 0 else "deleted"
        print_lines([f'{kind} "{ref.name}" {done}{DRY_RUN[chosen.dry_run]}'])
    if chosen.dry_run != "none" or not text_at(answer, "metadata.deletionTimestamp"):
        return ""
    return text_at(answer, "metadata.uid")


def _wait(session: Session, deleted: list[tuple[ObjectRef, str]], ends: float | None) -> None:
    """Wait until the objects are deleted, or are others of the same name."""
    what = str(deleted[0][0]) if len(deleted) == 1 else f"{len(deleted)} objects"
    session.print_remark(
        f"waiting until {what} {'is' if len(deleted) == 1 else 'are'} gone (--wait=false does not wait)"
    )
    for ref, uid in deleted:
        try:
            for obj in states(session, ref, ends=ends):
                if obj is None or text_at(obj, "metadata.uid") != uid:
                    break
        except TimedOutError:
            raise TimedOutError(f"timed out waiting for the condition on {ref.resource.plural}/{ref.name}") from None
