"""`drain`: lets no more pods onto nodes, and evicts the present ones, as their PodDisruptionBudgets allow."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.pods.objects import ENDED, is_mirror
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError, StatusError, TimedOutError
from modules.kubectl import arguments
from modules.kubectl.durations import end_of, seconds_of
from modules.kubectl.node_scheduling import mark, wanted_nodes
from modules.kubectl.output import DRY_RUN
from modules.kubectl.resources import Listing, ObjectRef, objects_of
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modules.cli.parser import VerbParser

RETRY_SECONDS: Final = 5
"""After which an eviction is tried again that a budget does not allow."""
POLL_SECONDS: Final = 1.0

_DAEMON_SET: Final = "DaemonSet"


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("words", nargs="*", metavar="NODE", help="names of nodes")
    arguments.add_selectors(parser, fields=False)
    arguments.add_dry_run(parser)
    parser.add_argument("--pod-selector", default="", metavar="LABELS", help="evict only pods with these labels")
    parser.flag("--ignore-daemonsets", text="leave the pods of DaemonSets, which would be made again")
    parser.flag("--delete-emptydir-data", text="evict pods with emptyDir volumes, too; their data is lost")
    parser.flag("--force", text="evict pods without a controller, too; nothing makes them again")
    parser.flag("--disable-eviction", text="delete the pods, whatever their PodDisruptionBudgets say")
    parser.add_argument(
        "--grace-period", type=int, default=-1, metavar="SECONDS", help="given to pods to end (default: their own)"
    )
    parser.add_argument("--timeout", default="0", metavar="DURATION", help="longest wait: 90s, 5m (default: no limit)")
    parser.absent("--chunk-size", "the pods of a node are listed in parts of 500")
    parser.absent("--skip-wait-for-delete-timeout", "`--timeout` ends the wait for pods that do not end")


def run(session: Session, chosen: Any) -> int:
    """Drain the nodes; return 1 when one could not be drained."""
    nodes, errors = mark(session, chosen, wanted_nodes(session, chosen), unschedulable=True)
    if errors:
        return report(session, errors)
    ends = end_of(chosen.timeout) if seconds_of(chosen.timeout) else None
    left = []
    for node, obj in nodes:
        try:
            _Drain(session, chosen, node, obj, ends).run()
            print_lines([f"{node} drained{DRY_RUN[chosen.dry_run]}"])
        except KubectlError as error:
            left.append(node.name)
            errors.append(error)
            session.print_remark(
                f'error: unable to drain node "{node.name}" due to error: {error.text}, continuing command...'
            )
    if left:
        session.print_remark("\n".join(["There are pending nodes to be drained:", *(f" {name}" for name in left)]))
    return report(session, errors)


class DrainOptions(NamedTuple):
    """The evictions that the user allows."""

    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    force: bool = False


class DrainPlan(NamedTuple):
    """Pods of a node to evict, with warnings and errors about its other pods."""

    pods: list[JsonObject]
    """Pods to evict."""
    warnings: str
    errors: list[str]
    """Why the node cannot be drained."""


class _Verdict(NamedTuple):
    is_evicted: bool
    warning: str = ""
    error: str = ""


def drain_plan(pods: Iterable[JsonObject], options: DrainOptions) -> DrainPlan:
    """Return the plan for the pods of a node."""
    evicted: list[JsonObject] = []
    warnings: dict[str, list[str]] = {}
    errors: dict[str, list[str]] = {}
    for pod in pods:
        name, is_evicted = pod_name(pod), True
        for verdict in _verdicts(pod, options):
            is_evicted = is_evicted and verdict.is_evicted
            if verdict.warning:
                warnings.setdefault(verdict.warning, []).append(name)
            if verdict.error:
                errors.setdefault(verdict.error, []).append(name)
            if not verdict.is_evicted:
                break
        if is_evicted:
            evicted.append(pod)
    return DrainPlan(evicted, "; ".join(_sentences(warnings)), list(_sentences(errors)))


def pod_name(pod: JsonObject) -> str:
    """Return namespace and name of a pod."""
    return f"{text_at(pod, 'metadata.namespace')}/{text_at(pod, 'metadata.name')}"


def _verdicts(pod: JsonObject, options: DrainOptions) -> Iterator[_Verdict]:
    has_ended = text_at(pod, "status.phase") in ENDED
    owner = next((one for one in objects_at(pod, "metadata.ownerReferences") if one.get("controller")), None)
    if owner is not None and owner.get("kind") == _DAEMON_SET and not has_ended:
        if options.ignore_daemonsets:
            yield _Verdict(is_evicted=False, warning="ignoring DaemonSet-managed Pods")
        else:
            yield _refused("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
    if is_mirror(pod):
        yield _Verdict(is_evicted=False)  # its node would make it again
    if any("emptyDir" in volume for volume in objects_at(pod, "spec.volumes")) and not has_ended:
        if options.delete_emptydir_data:
            yield _Verdict(is_evicted=True, warning="deleting Pods with local storage")
        else:
            yield _refused("cannot delete Pods with local storage (use --delete-emptydir-data to override)")
    if owner is None and not has_ended:
        if options.force:
            yield _Verdict(is_evicted=True, warning="deleting Pods that declare no controller")
        else:
            yield _refused("cannot delete Pods that declare no controller (use --force to override)")


def _refused(error: str) -> _Verdict:
    return _Verdict(is_evicted=False, error=error)


def _sentences(found: dict[str, list[str]]) -> Iterator[str]:
    yield from (f"{sentence}: {', '.join(names)}" for sentence, names in found.items())


class _Drain:
    """The draining of a node."""

    def __init__(self, session: Session, chosen: Any, node: ObjectRef, obj: JsonObject, ends: float | None) -> None:
        self._session = session
        self._chosen = chosen
        self._node = node
        self._ends = ends
        self._pods = session.discovery.one("pods")
        self._is_silent = any(
            one.get("type") == "Ready" and one.get("status") == "Unknown"
            for one in objects_at(obj, "status.conditions")
        )
        """Whether the node does not answer."""

    def run(self) -> None:
        """Evict the pods, and wait until they are deleted.

        Raises:
            KubectlError: not all may be evicted, or the time is over.
        """
        chosen = self._chosen
        options = DrainOptions(chosen.ignore_daemonsets, chosen.delete_emptydir_data, chosen.force)
        plan = drain_plan(self._present(), options)
        if plan.errors:
            raise KubectlError(plan.errors[0] if len(plan.errors) == 1 else f"[{', '.join(plan.errors)}]")
        if plan.warnings:
            self._session.print_remark(f"Warning: {plan.warnings}")
        if chosen.dry_run == "client":
            print_lines([f"evicting pod {pod_name(pod)} (dry run)" for pod in plan.pods])
            return
        if self._is_silent and plan.pods:
            self._session.print_remark(
                f'Warning: node "{self._node.name}" does not answer: its pods end when it is back'
            )
        due = plan.pods
        going: dict[str, JsonObject] = {}
        while due or going:
            due = [pod for pod in due if not self._evicted(pod, going)]
            self._drop_gone(going)
            if due or going:
                self._pause(RETRY_SECONDS if due else POLL_SECONDS)
            if due:  # another pod may have the name of one by now, and be on another node
                present = self._present_uids()
                due = [pod for pod in due if text_at(pod, "metadata.uid") in present]

    def _present(self) -> list[JsonObject]:
        query = [("fieldSelector", f"spec.nodeName={self._node.name}")]
        if self._chosen.pod_selector:
            query.append(("labelSelector", self._chosen.pod_selector))
        return objects_of(self._session, Listing(self._pods, "", tuple(query)))[0]

    def _present_uids(self) -> set[str]:
        return {text_at(pod, "metadata.uid") for pod in self._present()}

    def _evicted(self, pod: JsonObject, going: dict[str, JsonObject]) -> bool:
        """Evict a pod, and note that it is going; return whether that need not be tried again."""
        namespace, name = text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")
        print_lines([f"evicting pod {pod_name(pod)}"])
        try:
            self._request(namespace, name)
        except StatusError as error:
            if error.is_not_found:
                return True
            what = f'error when evicting pods/"{name}" -n "{namespace}"'
            if error.code != HTTPStatus.TOO_MANY_REQUESTS:
                raise KubectlError(f"{what}: {error.text}") from error
            self._session.print_remark(f"{what} (will retry after {RETRY_SECONDS}s): {error.text}")
            return False
        if self._chosen.dry_run == "server":
            self._print_gone(name)
        elif not self._is_silent:
            going[text_at(pod, "metadata.uid")] = pod
        return True

    def _request(self, namespace: str, name: str) -> None:
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self._chosen.grace_period >= 0:
            options["gracePeriodSeconds"] = self._chosen.grace_period
        if self._chosen.dry_run == "server":
            options["dryRun"] = ["All"]
        client = self._session.client
        if self._chosen.disable_eviction:
            client.request("DELETE", self._pods.path(namespace, name), body=options)
            return
        body = {
            "kind": "Eviction",
            "apiVersion": "policy/v1",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        client.request("POST", self._pods.path(namespace, name, "eviction"), body=body)

    def _drop_gone(self, going: dict[str, JsonObject]) -> None:
        """Print the pods that were deleted, and forget them."""
        if not going:
            return
        present = self._present_uids()
        for uid in [uid for uid in going if uid not in present]:
            self._print_gone(text_at(going.pop(uid), "metadata.name"))

    def _print_gone(self, name: str) -> None:
        done = "deleted" if self._chosen.disable_eviction else "evicted"
        print_lines([f"pod/{name} {done}{DRY_RUN[self._chosen.dry_run]}"])

    def _pause(self, seconds: float) -> None:
        left = seconds if self._ends is None else self._ends - time.monotonic()
        if left <= 0:
            raise TimedOutError(f"global timeout reached: {self._chosen.timeout}")
        time.sleep(min(seconds, left))
