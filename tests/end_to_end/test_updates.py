"""What happens to pods is seen, and what is wanted of them comes true, however often it changes."""

import random
from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import IMAGE, OTHER_IMAGE, container, is_ready, mount, phase, pod, status_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

PODS = 4
UPDATES = 9

_ALONE = """
trap 'exit 0' TERM
me=$(cat /proc/sys/kernel/random/uuid)
echo $me > /host/owner
while [ "$(cat /host/owner)" = $me ]; do sleep 0.1; done
echo again >> /host/twice
"""
"""Says so when another one begins while it still runs."""


def _updated(directory: Path, name: str, image: str) -> JsonObject:
    app = container(_ALONE, volumeMounts=[mount("host", "/host")], image=image)
    volume = {"name": "host", "hostPath": {"path": str(directory / name)}}
    return pod(name, app, volumes=(volume,), hostNetwork=True, terminationGracePeriodSeconds=2)


def _is_newest(obj: JsonObject) -> bool:
    """As the last update wants it: images take turns, so the image alone does not tell."""
    told = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
    return told and is_ready(obj) and str(status_of(obj)["image"]).endswith(_image(UPDATES))


def _image(number: int) -> str:
    """Of an update: each has another image than the one before."""
    return (IMAGE, OTHER_IMAGE)[number % 2]


@pytest.mark.slow
def test_many_updates_end_in_the_newest_state_with_one_container_at_a_time(machine: Machine) -> None:
    """In random order over several pods, faster than containers can be exchanged."""
    directory = machine.directory / "hosts"
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        (directory / name).mkdir(parents=True)
    order = [name for name in names for _ in range(UPDATES + 1)]
    random.Random(1).shuffle(order)  # noqa: S311 - reproducible on purpose
    done = dict.fromkeys(names, 0)
    for name in order:
        machine.cloud.apply(_updated(directory, name, _image(done[name])))
        done[name] += 1
    for name in names:
        machine.cloud.pods.wait(name, _is_newest)
    wait_until(lambda: all(_is_newest(machine.cloud.get("Pod", name)) for name in names), "all are as wanted last")
    assert list(directory.glob("*/twice")) == []


def test_the_end_of_a_container_is_seen_without_a_relist(stopped_machine: Machine) -> None:
    """The next relist is an hour away."""
    if stopped_machine.runtime.name != EmbeddedUnderTest.name:
        pytest.skip("containerd has events from 1.7 on")
    stopped_machine.edge.edged = {"pleg_relist_period": 3600.0, "pleg_relist_period_with_events": 3600.0}
    stopped_machine.start()
    stopped_machine.cloud.apply(pod("p", container("sleep 1; exit 3"), restartPolicy="Never"))
    stopped_machine.cloud.pods.wait("p", lambda obj: phase(obj) == "Failed")
