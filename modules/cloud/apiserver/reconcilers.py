"""The reconcilers that an API server has, and their turns."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from modules.cloud.apiserver import volume_binder
from modules.cloud.apiserver.built_in_controllers import (
    OrphanedPods,
    keep_root_certificates,
    make_default_accounts,
    may_lack_account,
    may_lack_certificate,
    release_volumes,
)
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.kubernetes_service import KubernetesService, KubernetesServiceReconciler
from modules.cloud.apiserver.reconciler import Attempt, OwnChanges, Reconciler
from modules.cloud.apiserver.volume_protection import FINALIZERS, may_end_use
from modules.cloud.storage.object_storage import ObjectEvent

PERIOD: Final = 5.0
"""Seconds between two checks for work due without a change (kube-controller-manager's `--node-monitor-period`)."""


class ControlPlane(msgspec.Struct, frozen=True):
    """Objects that an API server makes and keeps itself."""

    namespaces: tuple[str, ...] = ()
    """Made at the start, beside the namespaces that every cluster has."""
    authority: str = ""
    """The API server's certificate authority, PEM, which each namespace has as a ConfigMap; "" without one."""
    service: KubernetesService | None = None
    """Where pods reach the API server, by the Service `kubernetes`; None: nowhere."""
    collects: bool = True
    """Whether it empties namespaces that are deleted, deletes the dependents of deleted owners, and lets go of claims
    and volumes that are not used; otherwise that is left to Kubernetes' own controllers."""


def reconcilers_of(cluster: Cluster, control_plane: ControlPlane) -> list[Reconciler]:
    """Return the reconcilers in their order: a node has its taints before pods are placed on it."""
    authority, collects = control_plane.authority, control_plane.collects
    certificates = partial(keep_root_certificates, cluster, authority, repairs=collects)
    return [
        OwnChanges(("Namespace", "ServiceAccount"), may_lack_account, partial(make_default_accounts, cluster)),
        *([OwnChanges(("Namespace", "ConfigMap"), may_lack_certificate, certificates)] if authority else []),
        KubernetesServiceReconciler(cluster, control_plane.service),
        OwnChanges(volume_binder.KINDS, lambda _: True, cluster.update_volume_phases),
        *([OwnChanges(("Pod", *FINALIZERS), may_end_use, partial(release_volumes, cluster))] if collects else []),
        cluster.node_lifecycle,
        OrphanedPods(cluster),
        cluster.scheduler,
        *([GarbageCollector(cluster)] if collects else []),
        cluster.quotas,
    ]


def _handlers_of(reconcilers: Sequence[Reconciler], kind: str) -> Iterator[tuple[Callable[[ObjectEvent], None], bool]]:
    """Yield the handlers of changes of a kind that are more than nothing, in order, and whether each is for own changes
    only.
    """
    for each in reconcilers:
        if each.kinds is not None and kind not in each.kinds:
            continue
        if type(each).handle_event is not Reconciler.handle_event:
            yield each.handle_event, False
        if type(each).handle_own is not Reconciler.handle_own:
            yield each.handle_own, True


class Reconcilers:
    """The reconcilers and their turns.

    Args:
        reconcilers: in the order in which they write.
    """

    def __init__(self, reconcilers: Sequence[Reconciler]) -> None:
        self._all = reconcilers
        self._handlers: dict[str, list[tuple[Callable[[ObjectEvent], None], bool]]] = {}
        """By kind."""
        self._awaits_turn = False
        self._is_turn = False
        """Whether the next transaction is a turn."""

    def load(self) -> None:
        """Take over the objects when the API server starts."""
        for each in self._all:
            each.load()

    def handle_event(self, event: ObjectEvent, *, is_own: bool) -> None:
        """Handle a change, by this cloudcore or another."""
        kind = event.key.kind
        handlers = self._handlers.get(kind)
        if handlers is None:
            handlers = self._handlers[kind] = [*_handlers_of(self._all, kind)]
        for handle, is_of_own in handlers:
            if is_own or not is_of_own:
                handle(event)

    def roll_back(self, event: ObjectEvent) -> None:
        """Take a change back; the newest comes first."""
        for each in self._all:
            each.roll_back(event)

    def reset(self) -> None:
        """Have all objects reconciled: a transaction was undone, as there was no room for it."""
        for each in self._all:
            each.reset()

    def run(self, attempt: Attempt) -> bool:
        """Write what follows from the changes of a transaction; return whether a turn must be arranged for the rest."""
        is_turn, self._is_turn = self._is_turn, False
        has_rest = [each.reconcile(attempt, is_turn=is_turn) for each in self._all]
        if self._awaits_turn or not any(has_rest):
            return False
        self._awaits_turn = True
        return True

    def begin_turn(self) -> None:
        """Let the next transaction be the turn of the remaining work."""
        self._awaits_turn, self._is_turn = False, True

    def overdue(self) -> Iterator[Callable[[], None]]:
        """Yield work that has become due without a change, each for a transaction of its own."""
        for each in self._all:
            if (work := each.overdue()) is not None:
                yield work
