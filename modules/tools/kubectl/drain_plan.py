"""Which pods of a node `drain` evicts, in kubectl's words (kubectl 1.32, `pkg/drain/filters.go`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from modules.tools.printing.fields import JsonObject, map_at, objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DAEMON_SET: Final = "DaemonSet"
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENDED: Final = ("Succeeded", "Failed")


class DrainOptions(NamedTuple):
    """What a person allows."""

    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    force: bool = False


class DrainPlan(NamedTuple):
    """What is done with the pods of a node."""

    pods: list[JsonObject]
    """Those that are evicted."""
    warnings: str
    errors: list[str]
    """Why the node cannot be drained."""


class _Verdict(NamedTuple):
    is_evicted: bool
    warning: str = ""
    error: str = ""


def drain_plan(pods: Iterable[JsonObject], options: DrainOptions) -> DrainPlan:
    """Return what is done with the pods of a node."""
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
    has_ended = text_at(pod, "status.phase") in _ENDED
    owner = next((one for one in objects_at(pod, "metadata.ownerReferences") if one.get("controller")), None)
    if owner is not None and owner.get("kind") == _DAEMON_SET and not has_ended:
        if options.ignore_daemonsets:
            yield _Verdict(is_evicted=False, warning="ignoring DaemonSet-managed Pods")
        else:
            yield _refused("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
    if _MIRROR in map_at(pod, "metadata.annotations"):
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
