"""Static pods: from a file on the node to a running container, and to what the cloud sees of it."""

import json

import pytest

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import RUN, container, pod


@pytest.mark.gives_its_machine_back
def test_a_file_runs_is_seen_in_the_cloud_and_goes(machine: Machine) -> None:
    """Also over a restart of edgecore, after which it is the same container."""
    files = machine.edge.root / "manifests"
    files.mkdir(parents=True, exist_ok=True)
    wanted = pod("static", container(RUN))
    beside = files.parent / "static.json"
    beside.write_text(json.dumps(wanted))
    beside.rename(files / "static.json")
    pods = machine.cloud.mirror("Pod")
    name = f"static-{NODE}"
    running = pods.wait(name, lambda each: each.get("status", {}).get("phase") == "Running")
    identity = running["status"]["containerStatuses"][0]["containerID"]
    machine.edge.kill()
    machine.start_edge()
    (files / "other.json").write_text(json.dumps(pod("other", container(RUN))))
    pods.wait(f"other-{NODE}", lambda each: each.get("status", {}).get("phase") == "Running")
    again = pods.wait(name, lambda each: bool(each.get("status", {}).get("containerStatuses")))
    assert again["status"]["containerStatuses"][0]["containerID"] == identity
    (files / "static.json").unlink()
    pods.wait_gone(name)
    (files / "other.json").unlink()
    pods.wait_gone(f"other-{NODE}")
