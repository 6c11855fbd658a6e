"""Bugs that are put into the controllers for a while; lives of workloads must find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.objects import node_of
from modules.cloud.controllers import (
    claims,
    cron_job,
    daemon_set,
    deployment,
    deployment_sets,
    job,
    job_pods,
    replica_set,
    stateful_set,
)
from modules.cloud.controllers.deployment_sets import Bounds
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.plan import PlannedWrite
from modules.cloud.controllers.view import View

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def a_surge_is_one_pod_more() -> Iterator[None]:
    """Percentages that are rounded the wrong way."""
    bounds = deployment_sets.bounds_of

    def more(obj: JsonObject) -> Bounds:
        return msgspec.structs.replace(bounds(obj), surge=bounds(obj).surge + 1)

    with patch.object(deployment, "bounds_of", more), patch.object(deployment_sets, "bounds_of", more):
        yield


@contextmanager
def one_pod_more_may_be_unavailable() -> Iterator[None]:
    """The same of the other bound."""
    bounds = deployment_sets.bounds_of

    def more(obj: JsonObject) -> Bounds:
        return msgspec.structs.replace(bounds(obj), unavailable=bounds(obj).unavailable + 1)

    with patch.object(deployment, "bounds_of", more):
        yield


@contextmanager
def new_pods_count_before_they_are_available() -> Iterator[None]:
    """A rollout goes on as fast as pods are made."""
    with patch.object(deployment, "counted", lambda obj, _field: deployment_sets.wanted(obj)):
        yield


@contextmanager
def what_proportions_leave_over_is_given_twice() -> Iterator[None]:
    """A Deployment that is scaled in the middle of a rollout is too large afterwards."""
    sizes = deployment_sets.proportional_sizes

    def larger(obj: JsonObject, sets: list[JsonObject]) -> dict[str, int]:
        return {name: size + (len(sets) > 1) for name, size in sizes(obj, sets).items()}

    with patch.object(deployment, "proportional_sizes", larger):
        yield


@contextmanager
def objects_are_looked_at_before_the_last_write_is_seen() -> Iterator[None]:
    """The lag of an informer without expectations: what was made is made again."""
    with patch.object(Engine, "_is_seen", lambda _self, _execution: True):
        yield


@contextmanager
def pods_of_silent_nodes_are_replaced() -> Iterator[None]:
    """Silence is taken for death."""
    claimed = claims.claimed

    def of_living(view: View, owner: JsonObject, kind: str, *, takes_ended: bool = True) -> claims.ClaimedObjects:
        found = claimed(view, owner, kind, takes_ended=takes_ended)
        owned = [one for one in found.owned if kind != "Pod" or not replica_set.is_unreachable(view, node_of(one))]
        return found._replace(owned=owned)

    with patch.object(replica_set, "claimed", of_living):
        yield


@contextmanager
def a_jobs_pods_on_silent_nodes_are_replaced() -> Iterator[None]:
    """The work is done twice."""
    claimed = claims.claimed

    def of_living(view: View, owner: JsonObject, kind: str, finalizer: str) -> claims.ClaimedObjects:
        found = claimed(view, owner, kind, finalizer)
        owned = [one for one in found.owned if not replica_set.is_unreachable(view, node_of(one))]
        return found._replace(owned=owned)

    with patch.object(job, "claimed", of_living):
        yield


@contextmanager
def a_replica_set_deletes_one_pod_too_many() -> Iterator[None]:
    """An off-by-one that the next look makes good."""
    difference = replica_set._difference

    def more(view: View, obj: JsonObject, active: list[JsonObject], wanted: int, now: float) -> Any:
        return difference(view, obj, active, wanted - (0 < wanted < len(active)), now)

    with patch.object(replica_set, "_difference", more):
        yield


@contextmanager
def pods_that_are_ready_go_first() -> Iterator[None]:
    """The order of deletion, backwards."""
    order = replica_set.to_delete

    def backwards(*args: Any) -> list[JsonObject]:
        return order(*args)[::-1]

    with patch.object(replica_set, "to_delete", backwards):
        yield


@contextmanager
def a_daemon_set_rolls_pods_of_silent_nodes() -> Iterator[None]:
    """They use up maxUnavailable, and the rollout stands."""
    with patch.object(daemon_set, "is_unreachable", lambda _view, _node: False):
        yield


@contextmanager
def a_daemon_sets_broken_pods_count_as_available() -> Iterator[None]:
    """A bad version goes from node to node."""
    with patch.object(daemon_set._Pass, "_is_available", lambda _self, _pod: True):
        yield


@contextmanager
def a_daemon_set_makes_a_pod_beside_one_that_is_ending() -> Iterator[None]:
    """Two on one node for a while."""
    on_nodes = daemon_set._Pass._on_nodes

    def without_ending(self: daemon_set._Pass, pods: list[JsonObject]) -> Any:
        return on_nodes(self, [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]])

    with patch.object(daemon_set._Pass, "_on_nodes", without_ending):
        yield


@contextmanager
def a_stateful_set_does_not_wait() -> Iterator[None]:
    """Each pod is taken for healthy."""
    with patch.object(stateful_set._Pass, "_is_healthy", lambda _self, _pod: True):
        yield


@contextmanager
def a_stateful_set_rolls_all_at_once() -> Iterator[None]:
    """The rollout does not look at what it has replaced."""

    def rolled(self: stateful_set._Pass) -> list[PlannedWrite]:
        old = [pod for pod in self._pods.values() if not self._is_updated(pod)]
        return [self._deleted(pod) for pod in old if "deletionTimestamp" not in pod["metadata"]]

    with patch.object(stateful_set._Pass, "_rolled", rolled):
        yield


@contextmanager
def a_job_counts_a_pod_again_that_kept_its_finalizer() -> Iterator[None]:
    """uncountedTerminatedPods is not written: a kill between status and finalizer counts twice."""
    end = job._Pass._end

    def forgetful(self: job._Pass) -> Any:
        waiting = {uid for uids in self._status["uncountedTerminatedPods"].values() for uid in uids}
        for field, uids in self._status["uncountedTerminatedPods"].items():
            self._status[field] += len(uids)
        self._writes += [job_pods.untracked(pod) for pod in self._pods if pod["metadata"]["uid"] in waiting]
        self._status["uncountedTerminatedPods"] = {}
        return end(self)

    with patch.object(job._Pass, "_end", forgetful):
        yield


@contextmanager
def a_job_makes_a_pod_more_than_are_left() -> Iterator[None]:
    """Its parallelism, whatever has succeeded."""
    manage = job._Pass._manage

    def more(self: job._Pass) -> None:
        self._succeeded -= self._succeeded > 0
        manage(self)

    with patch.object(job._Pass, "_manage", more):
        yield


@contextmanager
def a_cron_job_does_not_look_whether_one_runs() -> Iterator[None]:
    """concurrencyPolicy is not followed."""
    with patch.object(cron_job._Pass, "_active", lambda _self: []):
        yield


@contextmanager
def a_cron_job_forgets_when_it_ran_last() -> Iterator[None]:
    """Each look makes a Job of the last time again, if that is gone."""
    with patch.object(cron_job._Pass, "_since", lambda self: self._now - 6 * 3600.0):
        yield


PLANTED: tuple[Plant, ...] = (
    a_surge_is_one_pod_more,
    one_pod_more_may_be_unavailable,
    new_pods_count_before_they_are_available,
    what_proportions_leave_over_is_given_twice,
    objects_are_looked_at_before_the_last_write_is_seen,
    pods_of_silent_nodes_are_replaced,
    a_jobs_pods_on_silent_nodes_are_replaced,
    a_replica_set_deletes_one_pod_too_many,
    pods_that_are_ready_go_first,
    a_daemon_set_rolls_pods_of_silent_nodes,
    a_daemon_sets_broken_pods_count_as_available,
    a_daemon_set_makes_a_pod_beside_one_that_is_ending,
    a_stateful_set_does_not_wait,
    a_stateful_set_rolls_all_at_once,
    a_job_counts_a_pod_again_that_kept_its_finalizer,
    a_job_makes_a_pod_more_than_are_left,
    a_cron_job_does_not_look_whether_one_runs,
    a_cron_job_forgets_when_it_ran_last,
)
