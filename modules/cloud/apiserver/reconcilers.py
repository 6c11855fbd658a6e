"""The reconcilers that an API server has, and their turns."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver import volume_binder
from modules.cloud.apiserver.account_secrets import SECRETS, keep_account_secrets, may_lack_token
from modules.cloud.apiserver.built_in_controllers import (
    OrphanedPods,
    keep_root_certificates,
    make_default_accounts,
    may_lack_account,
    may_lack_certificate,
    release_volumes,
)
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.ephemeral_volumes import EphemeralVolumes
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.kubernetes_service import KubernetesService, KubernetesServiceReconciler
from modules.cloud.apiserver.node_lifecycle import NodeEvents
from modules.cloud.apiserver.reconciler import Attempt, OwnChanges, Reconciler
from modules.cloud.apiserver.volume_protection import FINALIZERS, may_end_use
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import ObjectEvent

_log = logging.getLogger(__name__)

PERIOD: Final = 5.0
"""Seconds between two checks for work due without a change (kube-controller-manager's `--node-monitor-period`)."""
_LONGEST_REST: Final = 64
"""Periods for which a reconciler that fails again and again rests."""


class ControlPlane(msgspec.Struct, frozen=True):
    """Objects that an API server makes and keeps itself."""

    namespaces: tuple[str, ...] = ()
    """Made at the start, beside the namespaces that every cluster has."""
    definitions: Sequence[JsonObject] = ()
    """CustomResourceDefinitions that are applied at the start."""
    authority: str = ""
    """The API server's certificate authority, PEM, which each namespace has as a ConfigMap; "" without one."""
    service: KubernetesService | None = None
    """Where pods reach the API server, by the Service `kubernetes`; None: nowhere."""
    collects: bool = True
    """Whether it empties namespaces that are deleted, deletes the dependents of deleted owners, fills the Secrets of
    service accounts, makes the claims of ephemeral volumes, and lets go of claims and volumes that are not used;
    otherwise that is left to Kubernetes' own controllers."""


def reconcilers_of(cluster: Cluster, control_plane: ControlPlane) -> list[Reconciler]:
    """Return the reconcilers in their order: a node has its taints before pods are placed on it."""
    authority, collects = control_plane.authority, control_plane.collects
    accounts = OwnChanges(
        "serviceaccount-controller",
        ("Namespace", "ServiceAccount"),
        may_lack_account,
        partial(make_default_accounts, cluster),
    )
    certificates = OwnChanges(
        "root-ca-certificate-publisher-controller",
        ("Namespace", "ConfigMap"),
        may_lack_certificate,
        partial(keep_root_certificates, cluster, authority, repairs=collects),
    )
    secrets = OwnChanges(
        "serviceaccount-token-controller", SECRETS, may_lack_token, partial(keep_account_secrets, cluster, authority)
    )
    phases = OwnChanges(
        "persistentvolume-binder-controller",
        (*volume_binder.KINDS, "StorageClass"),
        lambda _: True,
        cluster.update_volume_phases,
    )
    protection = OwnChanges(
        "persistentvolumeclaim-protection-controller",
        ("Pod", *FINALIZERS),
        may_end_use,
        partial(release_volumes, cluster),
        is_of_statuses=False,
    )
    return [
        accounts,
        *([secrets] if collects else []),
        *([certificates] if authority else []),
        KubernetesServiceReconciler(cluster, control_plane.service),
        *([EphemeralVolumes(cluster)] if collects else []),
        phases,
        *([protection] if collects else []),
        cluster.node_lifecycle,
        *([NodeEvents(cluster.report)] if collects else []),
        OrphanedPods(cluster),
        cluster.scheduler,
        *([GarbageCollector(cluster)] if collects else []),
        cluster.quotas,
    ]


def _handlers_of(
    reconcilers: Sequence[Reconciler], kind: str, *, is_of_status: bool
) -> Iterator[tuple[int, Callable[[ObjectEvent], None], bool]]:
    """Yield the handlers of changes of a kind, or of nothing but its status, that are more than nothing, in order: the
    place of the reconciler, the handler, and whether it is for own changes only.
    """
    for place, each in enumerate(reconcilers):
        if (each.kinds is not None and kind not in each.kinds) or (is_of_status and not each.is_of_statuses):
            continue
        if type(each).handle_event is not Reconciler.handle_event:
            yield place, each.handle_event, False
        if type(each).handle_own is not Reconciler.handle_own:
            yield place, each.handle_own, True


class Reconcilers:
    """The reconcilers and their turns.

    One that fails stops neither the API server nor the others: it rests for some periods, each time for twice as many,
    and then begins anew with all objects. An own change at which it fails is refused instead.

    Args:
        make: returns new reconcilers, in the order in which they write.
        failures: counts the failures by name.
    """

    def __init__(self, make: Callable[[], Sequence[Reconciler]], failures: Counter[str] | None = None) -> None:
        self._make = make
        self._failures = Counter() if failures is None else failures
        self._all = list(make())
        self._handlers: dict[tuple[str, bool], list[tuple[int, Callable[[ObjectEvent], None], bool]]] = {}
        """By kind, and whether only a status has changed."""
        self._resting: dict[int, int] = {}
        """The periods that are left to a reconciler that has failed, by its place."""
        self._rests: dict[int, int] = {}
        """The periods of a reconciler's last rest; none if it has worked for a period since."""
        self._awaits_turn = False
        self._is_turn = False
        """Whether the next transaction is a turn."""

    def load(self) -> None:
        """Take over the objects when the API server starts."""
        self._each(lambda one: one.load())

    def handle_event(self, event: ObjectEvent, *, is_own: bool) -> None:
        """Handle a change, by this cloudcore or another.

        Raises:
            Exception: an own change is to be refused.
        """
        changed = event.key.kind, event.is_of_status
        handlers = self._handlers.get(changed)
        if handlers is None:
            kind, is_of_status = changed
            handlers = self._handlers[changed] = [*_handlers_of(self._all, kind, is_of_status=is_of_status)]
        for place, handle, is_of_own in handlers:
            if (is_of_own and not is_own) or place in self._resting:
                continue
            try:
                handle(event)
            except Exception:
                if is_own:
                    raise
                self._rest(place)

    def roll_back(self, event: ObjectEvent) -> None:
        """Take a change back; the newest comes first."""
        self._each(lambda one: one.roll_back(event))

    def reset(self) -> None:
        """Have all objects reconciled: a transaction was undone, as there was no room for it."""
        self._each(lambda one: one.reset())

    def run(self, attempt: Attempt) -> bool:
        """Write what follows from the changes of a transaction; return whether a turn must be arranged for the rest."""
        is_turn, self._is_turn = self._is_turn, False
        has_rest = False
        for place, each in enumerate(self._all):
            if not each.is_due or place in self._resting:
                continue
            try:
                has_rest = each.reconcile(attempt, is_turn=is_turn) or has_rest
            except DatabaseError:
                raise
            except Exception:  # noqa: BLE001 - one bad object must not stop the API server
                self._rest(place)
        if self._awaits_turn or not has_rest:
            return False
        self._awaits_turn = True
        return True

    def begin_turn(self) -> None:
        """Let the next transaction be the turn of the remaining work."""
        self._awaits_turn, self._is_turn = False, True

    def run_overdue(self, attempt: Attempt) -> None:
        """Do the work that has become due without a change. It is called once in each period.

        Args:
            attempt: does work in a transaction of its own.
        """
        self._rests = {place: periods for place, periods in self._rests.items() if place in self._resting}
        for place, left in [*self._resting.items()]:
            self._resting[place] = left - 1
            if left == 1:
                self._begin_anew(place)
                attempt(_nothing)

        def work_of(one: Reconciler) -> None:
            if (work := one.overdue()) is not None:
                attempt(work)

        self._each(work_of)

    def _each(self, work: Callable[[Reconciler], None]) -> None:
        """Do work of each reconciler that does not rest."""
        for place, each in enumerate(self._all):
            if place in self._resting:
                continue
            try:
                work(each)
            except DatabaseError:
                raise
            except Exception:  # noqa: BLE001 - as above
                self._rest(place)

    def _rest(self, place: int) -> None:
        """Let a reconciler that has just raised an exception rest."""
        periods = min(2 * self._rests.get(place, 0) or 1, _LONGEST_REST)
        self._rests[place] = self._resting[place] = periods
        name = self._all[place].name
        self._failures[name] += 1
        _log.exception("%s has failed, and reconciles no objects for %d s", name, periods * PERIOD)

    def _begin_anew(self, place: int) -> None:
        """Let a reconciler that has rested take over the objects, as at a start."""
        del self._resting[place]
        self._all[place] = self._make()[place]
        self._handlers.clear()
        try:
            self._all[place].load()
            self._all[place].reset()
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - as above
            self._rest(place)


def _nothing() -> None:
    """Have a transaction made, in which reconcilers run."""
