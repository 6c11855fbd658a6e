"""The room of the node that its pods take."""

from random import Random
from typing import Any, Final

import pytest

from edged.pods.kill_options import EVICTED, KillOptions
from edged.pods.model import PodUid
from edged.pods.taken_room import TakenRoom, demand_of
from modules.apimachinery.types import Pod, from_value
from tests.edged.admission.rooms import taken_by
from tests.edged.conftest import Bench, OpenEdged, pod


def asking(name: str, cpu: str = "500m", *ports: int) -> dict[str, Any]:
    """A pod with requests and host ports."""
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "inf"],
        "resources": {"requests": {"cpu": cpu} if cpu else {}},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }
    return pod(name, containers=[container], restartPolicy="Never")


def test_the_sums_are_those_of_the_pods_that_are_there() -> None:
    random, room = Random(1), TakenRoom()  # noqa: S311
    there: dict[PodUid, Pod] = {}
    for _ in range(400):
        uid = PodUid(str(random.randrange(20)))
        if random.random() < 0.5:
            room.remove(uid)
            there.pop(uid, None)
        else:
            cpu, ports = random.choice(("", "0", "100m", "2")), random.sample(range(80, 90), 2)
            there[uid] = from_value(Pod, asking(uid, cpu, *ports))
            room.put(uid, demand_of(there[uid]))
        whole = taken_by(*there.values())
        assert (room.used, room.ports) == (whole.used, whole.ports)


def room_of() -> TakenRoom:
    """The room that the pods of the node take."""
    return OpenEdged.started[-1].assembly.pods.taken_room


_GOING: Final = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}


@pytest.mark.parametrize("how", ["deletion requested", "deleted", "evicted", "ended", "ended for the cloud", "invalid"])
def test_a_pod_leaves_when_it_ends_or_its_end_is_requested(bench: Bench, how: str) -> None:
    bench.start()
    here = asking("a", "500m", 80)
    bench.runtime.obeys = 20.0
    bench.tell("insert", here)
    assert room_of().used["cpu"] > 0
    assert room_of().ports
    match how:
        case "deletion requested":
            bench.tell("update", {**here, "metadata": {**here["metadata"], **_GOING}})
        case "deleted":
            bench.tell("delete", here)
        case "evicted":
            bench.end("uid-a", KillOptions(EVICTED, "no room"))
        case "ended":
            bench.runtime.end("main", 0)
        case "ended for the cloud":
            bench.tell("update", {**here, "status": {"phase": "Failed"}})
        case "invalid":
            bench.tell("update", {**here, "spec": {**here["spec"], "containers": []}})
    bench.run(2.0)
    assert room_of().used == {"pods": 0}
    assert not room_of().ports
