"""The module controllers on the bus, with the module apiserver."""

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from beehive.message import Message
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.api_messages import MODULE, RESOURCE, SOURCE, Verb
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.subscriptions import Subscription, Subscriptions
from modules.cloud.apiserver.fencing import NAME
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from modules.cloud.controllers.module import Controllers
from modules.cloud.controllers.registry import ALONE, CONTROLLERS, MADE
from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores
from modules.cloud.refusals import Refusals
from modules.cloud.storage.watch_history import ObjectChanged, WatchQuery, WatchStart
from tests.modules.cloud.controllers.site import workload
from tests.modules.cloud.objects import in_memory
from tests.support.presence import present

LEASE = ObjectKey("Lease", SYSTEM_NAMESPACE, NAME)


class Cloud:
    """An API server with its controllers."""

    def __init__(self, bee: Harness, cluster: Cluster | None = None, *, may_be_several: bool = False) -> None:
        self.bee = bee
        self.cluster = cluster or Cluster(bee.clock)
        self.known = KnownCloudcores("cloud-a")
        self.subscriptions = subscriptions = Subscriptions()
        bee.add(ApiServer, self.cluster, in_memory(), None, Refusals(bee.clock), subscriptions)
        bee.add(Controllers, subscriptions, self.known, may_be_several=may_be_several)
        bee.start()

    def call(self, verb: str, plural: str, seconds: float = 0, **fields: Any) -> ApiResult:
        given: dict[str, Any] = {"api_version": "apps/v1", "namespace": "default", **fields}
        result = self.make(ApiCall(verb=verb, plural=plural, **given))
        self.bee.run_for(seconds)
        return result

    def make(self, call: ApiCall) -> ApiResult:
        message = self.bee.message(RESOURCE, Verb.CALL, call, source=SOURCE)
        answer: Message = self.bee.ask(MODULE, message)
        self.bee.settle()
        return answer.content_as(ApiResult)

    def pods(self) -> list[JsonObject]:
        found = present(self.call("list", "pods", api_version="v1").object)
        items: list[JsonObject] = found["items"]
        return items


@pytest.fixture
def cloud(bee: Harness) -> Cloud:
    return Cloud(bee)


def test_a_deployment_gets_its_pods_and_the_queues_are_empty_then(cloud: Cloud) -> None:
    cloud.call("create", "deployments", body=workload("Deployment", replicas=3), seconds=2)
    assert len(cloud.pods()) == 3
    assert cloud.cluster.storage.get(LEASE)["spec"]["holderIdentity"] == "cloud-a"


def test_what_is_due_later_is_done_then(cloud: Cloud, bee: Harness) -> None:
    job = workload("Job", completions=1)
    job["spec"]["ttlSecondsAfterFinished"] = 100
    cloud.call("create", "jobs", api_version="batch/v1", body=job, seconds=2)
    (pod,) = cloud.pods()
    cloud.cluster.replace_status(key_of(pod), {"phase": "Succeeded"})
    cloud.call("patch", "pods", api_version="v1", name=pod["metadata"]["name"], patch_type=MERGE, body={}, seconds=90)
    assert present(cloud.cluster.storage.find(ObjectKey("Job", "default", "web")))["status"]["succeeded"] == 1
    bee.run_for(30)
    assert cloud.cluster.storage.find(ObjectKey("Job", "default", "web")) is None


def test_a_status_that_could_not_be_written_is_written_later(cloud: Cloud) -> None:
    """Whether or not anything changes meanwhile."""
    refused = list[str]()
    serve = api_calls.serve

    def serve_later(cluster: Cluster, call: ApiCall, **given: Any) -> ApiResult:
        if call.plural == "replicasets" and call.subresource == "status" and not refused:
            refused.append(call.name)
            return ApiResult(refusal={"code": 500, "message": "no"})
        return serve(cluster, call, **given)

    with patch.object(api_calls, "serve", serve_later):
        cloud.call("create", "replicasets", body=workload("ReplicaSet", replicas=0), seconds=10)
    assert refused
    assert cloud.cluster.storage.get(ObjectKey("ReplicaSet", "default", "web"))["status"]["observedGeneration"] == 1


def test_a_restarted_api_server_is_listed_again(cloud: Cloud) -> None:
    cloud.call("create", "deployments", body=workload("Deployment", replicas=2), seconds=2)
    cloud.subscriptions.end_all()  # as it does when it is restarted
    cloud.call("create", "replicasets", body=workload("ReplicaSet", "other", replicas=1), seconds=2)
    assert len(cloud.pods()) == 3


def test_who_does_not_own_the_controllers_makes_nothing_and_takes_over_when_the_other_is_gone(bee: Harness) -> None:
    cloud = Cloud(bee, may_be_several=True)
    cloud.known.alive = ("cloud-b",)
    cloud.call("create", "deployments", body=workload("Deployment", replicas=2), seconds=10)
    assert cloud.pods() == []
    cloud.known.alive = ("cloud-a",)
    bee.run_for(10)
    assert len(cloud.pods()) == 2


def test_a_cloudcore_for_which_this_one_is_a_cluster_does_not_get_its_controllers(bee: Harness) -> None:
    """Its Lease is at this API server, too; it has no controllers, so nobody would run them."""
    cloud = Cloud(bee, may_be_several=True)
    cloud.known.alive = ("cloud-a", "hub")
    assert not cloud.known.owns(Duty.CONTROLLERS), "but for its duties it would have them"
    cloud.known.duties = {"hub": {Duty.JOBS}}
    cloud.call("create", "deployments", body=workload("Deployment", replicas=2), seconds=10)
    assert len(cloud.pods()) == 2


def test_a_former_owner_subscribes_to_nothing(bee: Harness) -> None:
    """The API server would keep all changes for it from then on."""
    cloud = Cloud(bee, may_be_several=True)
    cloud.known.alive = ("cloud-a",)
    cloud.call("create", "deployments", body=workload("Deployment", replicas=1), seconds=10)
    assert cloud.subscriptions._by_kind
    cloud.known.alive = ("cloud-b",)
    bee.run_for(10)
    assert not cloud.subscriptions._by_kind


def test_a_former_owner_that_wakes_up_writes_nothing(cloud: Cloud) -> None:
    cloud.call("create", "replicasets", body=workload("ReplicaSet", replicas=1), seconds=2)
    cloud.known.alive = ("cloud-b",)
    lease = cloud.cluster.storage.get(LEASE)
    taken = {**lease, "spec": {**lease["spec"], "holderIdentity": "cloud-b", "leaseTransitions": 2}}
    place: dict[str, Any] = {"api_version": "coordination.k8s.io/v1", "namespace": SYSTEM_NAMESPACE, "name": NAME}
    assert cloud.call("update", "leases", body=taken, **place).refusal is None
    cloud.call("create", "replicasets", body=workload("ReplicaSet", "late", replicas=1), seconds=60)
    assert len(cloud.pods()) == 1


class FailingServer:
    """An API server without objects but the Lease, which refuses or leaves unanswered what a test says.

    Args:
        bee: the harness.
        failures: for each request until they are used up, the code of the refusal, 0 for none, or None for no answer.
    """

    def __init__(self, bee: Harness, *failures: int | None) -> None:
        self.bee = bee
        self.failures = list(failures)
        self.asked: list[tuple[str, float]] = []
        """The requests, and when they came."""
        self.lease: JsonObject | None = None
        bee.answer(MODULE, self._answer)
        self.subscriptions = Subscriptions()
        bee.add(Controllers, self.subscriptions, KnownCloudcores("cloud-a"), may_be_several=False)
        bee.start()

    def _answer(self, request: Message) -> Message | None:
        is_watch = request.route.operation == Verb.WATCH
        word = f"watch {request.content_as(WatchQuery).kind}" if is_watch else request.content_as(ApiCall).verb
        self.asked.append((word, self.bee.clock.monotonic()))
        failure = self.failures.pop(0) if self.failures else 0
        if failure is None:
            return None
        refusal: JsonObject | None = {"code": failure, "message": "no"} if failure else None
        if is_watch:
            return request.reply(self.bee.clock, WatchStart(refusal=refusal))
        if refusal is None and word == "get" and self.lease is None:
            refusal = {"code": 404, "message": "there is no Lease"}
        if refusal is None and word != "get":
            self.lease = request.content_as(ApiCall).body
        return request.reply(self.bee.clock, ApiResult(None if refusal else self.lease, refusal))

    @property
    def verbs(self) -> list[str]:
        """The requests about the Lease, and the first one of each list of objects."""
        return [word for word, _ in self.asked if not word.startswith("watch") or word == "watch Deployment"]


class ChangingServer(FailingServer):
    """A server where a Deployment is made while the ReplicaSets are listed."""

    def _answer(self, request: Message) -> Message | None:
        if request.route.operation == Verb.WATCH and request.content_as(WatchQuery).kind == "ReplicaSet":
            made = workload("Deployment")
            made["metadata"] |= {"namespace": "default", "uid": "1", "resourceVersion": "1"}
            self.subscriptions.publish(ObjectChanged("ADDED", made))
        return super()._answer(request)


def test_pods_are_read_when_all_objects_with_controllers_are_listed(bee: Harness) -> None:
    """Pods would be looked at before their Jobs and Services are known."""
    server = ChangingServer(bee)
    bee.run_for(5)
    asked = [word for word, _ in server.asked if word.startswith("watch")]
    assert asked == [f"watch {kind}" for kind in (*CONTROLLERS, *ALONE, *MADE)]


@pytest.mark.parametrize(
    ("failures", "asked"),
    [
        ([], ["get", "create", "watch Deployment"]),
        ([500], ["get", "get", "create", "watch Deployment"]),
        ([0, 409], ["get", "create", "get", "create", "watch Deployment"]),
        ([None], ["get", "get", "create", "watch Deployment"]),
        ([0, None], ["get", "create", "get", "create", "watch Deployment"]),
        ([0, 0, 500], ["get", "create", "watch Deployment", "get", "update", "watch Deployment"]),
        ([0, 0, 0, 500], ["get", "create", "watch Deployment", "get", "update", "watch Deployment"]),
        ([0, 0, None], ["get", "create", "watch Deployment", "get", "update", "watch Deployment"]),
    ],
)
def test_what_fails_at_the_beginning_is_done_again(bee: Harness, failures: list[int | None], asked: list[str]) -> None:
    """With another number of the Lease, which locks out what was written before."""
    server = FailingServer(bee, *failures)
    bee.run_for(60)
    assert server.verbs == asked
    kinds = (*CONTROLLERS, *ALONE)
    assert [word for word, _ in server.asked][-len(kinds) :] == [f"watch {kind}" for kind in kinds]
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "cloud-a"
    assert server.lease["spec"]["leaseTransitions"] == asked.count("watch Deployment")
    times = [time for word, time in server.asked if word == "get"]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))


def test_a_list_of_before_does_not_end_the_present_one(bee: Harness) -> None:
    """The API server has answered no more; the changes ended, and all was listed again meanwhile."""
    server = FailingServer(bee, 0, 0, None)
    bee.run_for(5)
    server.subscriptions.end_all()
    bee.run_for(60)
    assert server.verbs == ["get", "create", "watch Deployment", "get", "update", "watch Deployment"]


def test_a_pod_without_an_owner_is_not_adopted_by_a_deleted_one(cloud: Cloud, bee: Harness) -> None:
    """A ReplicaSet is deleted, and its pods become orphans, while the controllers take changes of one kind after the
    other: they know of the deletion before they know of the orphans. An adopted one would be deleted as garbage.
    """
    cloud.call("create", "replicasets", body=workload("ReplicaSet", replicas=1), seconds=2)
    replica_set = cloud.cluster.storage.get(ObjectKey("ReplicaSet", "default", "web"))
    pod = cloud.cluster.storage.get(ObjectKey("Pod", "default", cloud.pods()[0]["metadata"]["name"]))
    wrote: list[str] = []

    def later(obj: JsonObject, versions: int, **metadata: object) -> ObjectChanged:
        version = str(int(obj["metadata"]["resourceVersion"]) + versions)
        changed = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version, **metadata}}
        return ObjectChanged("MODIFIED", changed, obj)

    take = Subscription.drain

    def interrupted(subscription: Subscription) -> tuple[list[ObjectChanged], bool]:
        found = take(subscription)
        if subscription.kind == "ReplicaSet" and not wrote:
            wrote.append("")
            cloud.subscriptions.publish(later(replica_set, 100, deletionTimestamp="2027-01-15T08:00:00Z"))
            cloud.subscriptions.publish(later(pod, 101, ownerReferences=[]))
        return found

    def note(_self: Controllers, call: ApiCall, _then: object) -> None:
        wrote.append(f"{call.verb} {call.plural}")

    with patch.object(Subscription, "drain", interrupted), patch.object(Controllers, "_call", note):
        cloud.call("patch", "replicasets", name="web", patch_type=MERGE, body={"metadata": {"labels": {"a": "b"}}})
        bee.run_for(2)
    assert wrote[0] == ""
    assert "patch pods" not in wrote
