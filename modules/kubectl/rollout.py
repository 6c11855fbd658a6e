"""`rollout`: shows, undoes, restarts, pauses and resumes the rollouts of workloads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import key_kind
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at, value_at
from modules.apimachinery.printing.terminal import print_text
from modules.apimachinery.printing.workloads import number_at
from modules.cli.errors import KubectlError, TimedOutError, UsageError, not_found
from modules.cli.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.durations import end_of
from modules.kubectl.output import print_result
from modules.kubectl.resources import Listing, ObjectRef, change_each, find, objects_of
from modules.kubectl.session import Session
from modules.kubectl.watching import states
from modules.kubectl.yaml_text import yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.cli.parser import VerbParser

_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
_HASH: Final = "pod-template-hash"
_FOR_EVER: Final = "0s"

_REVISION: Final = "deployment.kubernetes.io/revision"
_CAUSE: Final = "kubernetes.io/change-cause"


def add(parser: VerbParser) -> None:
    """Add the options."""
    actions = "|".join(_ACTIONS)
    parser.add_argument("words", nargs="*", metavar=f"{actions} TYPE/NAME…", help="what is done, and the workloads")
    arguments.add_namespace(parser, all_too=False)
    arguments.add_selectors(parser, fields=False)
    arguments.add_files(parser)
    arguments.add_output(parser)
    parser.flag("-w", "--watch", default=True, text="status: wait until the rollout is done (default: true)")
    parser.add_argument("--timeout", default=_FOR_EVER, metavar="DURATION", help="status: longest wait (default: none)")
    parser.add_argument("--revision", default="0", metavar="NUMBER", help="history: the template of one revision")
    parser.add_argument("--to-revision", default="0", metavar="NUMBER", help="undo: the revision (default: the last)")


def run(session: Session, chosen: Any) -> int:
    """Carry out the command for each workload; return 1 if it fails for one."""
    action, chosen.words = (chosen.words[0] if chosen.words else ""), chosen.words[1:]
    if action not in _ACTIONS:
        raise UsageError(f"`rollout` wants one of {', '.join(_ACTIONS)}, such as `rollout status deployment/web`")
    refs = find(session, chosen, verb=f"rollout {action}")
    return change_each(session, refs, partial(_ACTIONS[action], session, chosen))


class RolloutStatus(NamedTuple):
    """The state of a rollout."""

    text: str
    is_done: bool = False


def rollout_status(obj: JsonObject) -> RolloutStatus:
    """Return the state of a workload's rollout.

    Raises:
        KubectlError: it has failed, or a workload of this kind has no rollouts.
    """
    kind, name = key_kind(obj), text_at(obj, "metadata.name")
    states = {"Deployment": _deployment, "DaemonSet": _daemon_set, "StatefulSet": _stateful_set}
    if kind not in states:
        raise KubectlError(f"no status viewer has been implemented for {obj['kind']}")
    if kind != "Deployment" and text_at(obj, "spec.updateStrategy.type") == "OnDelete":
        raise KubectlError("rollout status is only available for RollingUpdate strategy type")
    if number_at(obj, "metadata.generation") > number_at(obj, "status.observedGeneration"):
        words = {"Deployment": "deployment", "DaemonSet": "daemon set", "StatefulSet": "statefulset"}[kind]
        return RolloutStatus(f"Waiting for {words} spec update to be observed...")
    return states[kind](obj, name)


def _deployment(obj: JsonObject, name: str) -> RolloutStatus:
    for each in objects_at(obj, "status.conditions"):
        if each.get("type") == "Progressing" and each.get("reason") == "ProgressDeadlineExceeded":
            raise KubectlError(f'deployment "{name}" exceeded its progress deadline')
    wanted, updated = number_at(obj, "spec.replicas", 1), number_at(obj, "status.updatedReplicas")
    replicas, available = number_at(obj, "status.replicas"), number_at(obj, "status.availableReplicas")
    waiting = f'Waiting for deployment "{name}" rollout to finish:'
    if updated < wanted:
        return RolloutStatus(f"{waiting} {updated} out of {wanted} new replicas have been updated...")
    if replicas > updated:
        return RolloutStatus(f"{waiting} {replicas - updated} old replicas are pending termination...")
    if available < updated:
        return RolloutStatus(f"{waiting} {available} of {updated} updated replicas are available...")
    return RolloutStatus(f'deployment "{name}" successfully rolled out', is_done=True)


def _daemon_set(obj: JsonObject, name: str) -> RolloutStatus:
    wanted, updated = (number_at(obj, f"status.{what}NumberScheduled") for what in ("desired", "updated"))
    available = number_at(obj, "status.numberAvailable")
    waiting = f'Waiting for daemon set "{name}" rollout to finish:'
    if updated < wanted:
        return RolloutStatus(f"{waiting} {updated} out of {wanted} new pods have been updated...")
    if available < wanted:
        return RolloutStatus(f"{waiting} {available} of {wanted} updated pods are available...")
    return RolloutStatus(f'daemon set "{name}" successfully rolled out', is_done=True)


def _stateful_set(obj: JsonObject, name: str) -> RolloutStatus:
    wanted, ready = number_at(obj, "spec.replicas", 1), number_at(obj, "status.readyReplicas")
    if ready < wanted:
        return RolloutStatus(f"Waiting for {wanted - ready} pods to be ready...")
    updated, partition = number_at(obj, "status.updatedReplicas"), value_at(obj, "spec.updateStrategy.rollingUpdate")
    first = partition.get("partition", 0) if isinstance(partition, dict) else 0
    if updated < wanted - first:
        waiting = "Waiting for partitioned roll out to finish:" if first else "waiting for statefulset rolling update"
        return RolloutStatus(f"{waiting} {updated} out of {wanted - first} new pods have been updated...")
    return RolloutStatus(f"{name}: statefulset rolling update complete {updated} pods", is_done=True)


def _status(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    seen = rollout_status(obj)
    print_text(seen.text)
    if seen.is_done or not chosen.watch:
        return
    ends = None if chosen.timeout in ("0", _FOR_EVER) else end_of(chosen.timeout)
    try:
        for each in states(session, ref, ends=ends):
            if each is None:
                raise not_found(ref.resource.qualified, ref.name)
            now = rollout_status(each)
            if now.text != seen.text:
                print_text(now.text)
            if now.is_done:
                return
            seen = now
    except TimedOutError:
        raise TimedOutError("timed out waiting for the condition") from None


class RolloutRevision(NamedTuple):
    """One revision."""

    number: int
    cause: str
    template: JsonObject


def revisions_of(session: Session, ref: ObjectRef, obj: JsonObject) -> list[RolloutRevision]:
    """Return the revisions of a workload, the oldest first.

    Raises:
        KubectlError: a workload of this kind has no rollouts.
    """
    if ref.resource.key_kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise KubectlError(f"no history viewer has been implemented for {ref.resource.kind}")
    is_deployment = ref.resource.key_kind == "Deployment"
    resource = session.discovery.one("replicasets" if is_deployment else "controllerrevisions")
    found, _ = objects_of(session, Listing(resource, ref.namespace))
    uid = text_at(obj, "metadata.uid")
    owned = [
        one for one in found if any(each.get("uid") == uid for each in objects_at(one, "metadata.ownerReferences"))
    ]
    revisions = map(_of_replica_set if is_deployment else _of_controller_revision, owned)
    return sorted(revisions, key=lambda revision: revision.number)


def history_table(revisions: Sequence[RolloutRevision]) -> str:
    """Return kubectl's table of revisions."""
    rows = [("REVISION", "CHANGE-CAUSE"), *((str(one.number), one.cause or "<none>") for one in revisions)]
    width = max(len(number) for number, _ in rows) + 2
    return "\n".join(f"{number:<{width}}{cause}" for number, cause in rows)


def _of_replica_set(obj: JsonObject) -> RolloutRevision:
    annotations = map_at(obj, "metadata.annotations")
    number = whole_number(annotations.get(_REVISION)) or 0
    return RolloutRevision(number, str(annotations.get(_CAUSE, "")), map_at(obj, "spec.template"))


def _of_controller_revision(obj: JsonObject) -> RolloutRevision:
    template = {name: value for name, value in map_at(obj, "data.spec.template").items() if name != "$patch"}
    number = obj.get("revision")
    cause = str(map_at(obj, "metadata.annotations").get(_CAUSE, ""))
    return RolloutRevision(number if isinstance(number, int) else 0, cause, template)


def _history(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    revisions = revisions_of(session, ref, obj)
    number = _number(chosen.revision, "--revision")
    if not number:
        print_text(f"{ref} \n{history_table(revisions)}")
        return
    revision = _found(revisions, number, "unable to find the specified revision")
    print_text(f"{ref} with revision #{number}\nPod Template:")
    print_text(yaml_text(_without_hash(revision.template)).removesuffix("\n"))


def _undo(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    if value_at(obj, "spec.paused"):
        why = "you cannot rollback a paused deployment; resume it first with 'rollout resume' and try again"
        raise KubectlError(why)
    revisions = revisions_of(session, ref, obj)
    number = _number(chosen.to_revision, "--to-revision")
    if number:
        revision = _found(revisions, number, "unable to find specified revision")
    elif len(revisions) > 1:
        revision = revisions[-2]
    else:
        raise KubectlError(f'no rollout history found for {ref.resource.singular} "{ref.name}"')
    template = _without_hash(revision.template)
    if template == _without_hash(value_at(obj, "spec.template") or {}):
        print_result(
            chosen, ref.resource, obj, f"skipped rollback (current template already matches revision {number})"
        )
        return
    body = [{"op": "replace", "path": "/spec/template", "value": template}]
    after = session.client.request("PATCH", ref.path, (), body, JSON_PATCH)
    print_result(chosen, ref.resource, after, "rolled back")


def _restart(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    if value_at(obj, "spec.template") is None:
        raise KubectlError(f"{ref.resource.plural} cannot be restarted: they have no template of pods")
    if value_at(obj, "spec.paused"):
        raise KubectlError("can't restart paused deployment (run rollout resume first)")
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if map_at(obj, "spec.template.metadata.annotations").get(_RESTARTED) == moment:
        raise KubectlError(f"{ref} was restarted within this second: try again in a second")
    body = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: moment}}}}}
    after = session.client.request("PATCH", ref.path, (), body, STRATEGIC_MERGE_PATCH)
    print_result(chosen, ref.resource, after, "restarted")


def _pause(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    _set_paused(session, chosen, ref, obj, is_paused=True)


def _resume(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    _set_paused(session, chosen, ref, obj, is_paused=False)


def _set_paused(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject, *, is_paused: bool) -> None:
    word = "pause" if is_paused else "resume"
    if ref.resource.key_kind != "Deployment":
        raise KubectlError(f"{word[:-1]}ing is not supported for {ref.resource.plural}")
    if bool(value_at(obj, "spec.paused")) is is_paused:
        state = "already paused" if is_paused else "not paused"
        raise KubectlError(f'{ref.resource.qualified} "{ref.name}" is {state}')
    after = session.client.request("PATCH", ref.path, (), {"spec": {"paused": is_paused or None}}, MERGE_PATCH)
    print_result(chosen, ref.resource, after, f"{word}d")


def _found(revisions: list[RolloutRevision], number: int, why: str) -> RolloutRevision:
    for each in revisions:
        if each.number == number:
            return each
    raise KubectlError(why)


def _without_hash(template: JsonObject) -> JsonObject:
    metadata = dict(template.get("metadata") or {})
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != _HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _number(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{option} is a number, not {text[:20]!r}")
    return int(text)


_ACTIONS: Final[dict[str, Callable[[Session, Any, ObjectRef, JsonObject], None]]] = {
    "status": _status,
    "history": _history,
    "undo": _undo,
    "restart": _restart,
    "pause": _pause,
    "resume": _resume,
}
