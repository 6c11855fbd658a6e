"""Devices between a cluster and its nodes. The cluster is another cloudcore's embedded one, over HTTPS, which writes
the conditions of its devices as well.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.devices import People, device, model, reports, twins
from tests.modules.processes.cloudcore.stubs import Edge


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def until(edge: Edge, *wanted: tuple[str, str]) -> list[tuple[str, str]]:
    """What came until all of these have come; objects are acknowledged."""
    came: list[tuple[str, str]] = []
    while not set(came) >= set(wanted):
        message = edge.next()
        came.append((message.route.operation, message.route.resource))
        if message.route.group == "resource":
            edge.acknowledge(message)
    return came


def test_a_device_of_a_cluster_comes_to_its_node_reports_and_goes(both: Cluster) -> None:
    """The model first; the reported values and the state are in the cluster's DeviceStatus; after a restart of
    cloudcore the node gets what has changed, and nothing else.
    """
    people = People(both.cluster.client)
    people.wait()
    people.apply(model())
    people.apply(device())
    inserted = [("insert", "default/devicemodel/thermo-model"), ("insert", "default/device/thermo")]
    with both.core.edge() as edge:
        came = until(edge, *inserted, ("update", "membership"))
        assert [each for each in came if each in inserted] == inserted
        assert reports(edge, "twin/edge_updated", twins({"temperature": "21"}, 2000)) == "OK"
        older = reports(edge, "twin/edge_updated", twins({"temperature": "20", "threshold": "3"}, 1000))
        assert older["twin"] == {"temperature": {"actual": {"metadata": {"timestamp": 2000}}}}
        state = {"device": {"name": "thermo", "state": "online", "lastOnlineTime": "2026-11-20T16:43:05Z"}}
        assert reports(edge, "state/update", state) == "OK"
        assert people.reported("thermo") == {"temperature": "21", "threshold": "3"}
        found = people.status("thermo")
        assert (found["state"], found["conditions"][0]["reason"]) == ("online", "FitsModel")
    with both.core.edge("n2") as other:
        assert reports(other, "twin/edge_updated", twins({"temperature": "99"}, 3000))["code"] == 404
    both.core.__exit__()
    people.apply(device(desired="40.5"))
    both.start_core()
    with both.core.edge() as edge:
        came = until(edge, ("update", "membership"), ("update", "default/device/thermo"))
        assert len(came) == 2
        people.apply(device(of="absent"))
        wait_until(lambda: people.status("thermo")["conditions"][0]["reason"] == "ModelNotFound", "the condition")
        people.delete("devices", "thermo")
        until(edge, ("delete", "default/device/thermo"))
