"""Faults of real processes: the page, `why`, `doctor` and `nodes` of the cloud, and the node, say the same of each."""

import json
import shutil
from contextlib import closing
from typing import Any, NamedTuple

import pytest
import yaml

from beehive.clock import RealClock
from beehive.http.request import Request
from modules.cloud.messages import LinkQuery
from modules.processes.cloudcore.page_command import socket_api
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.processes import REPOSITORY, Process, run_program, wait_until
from tests.modules.processes.cloudcore.devices import People
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(joined_machine: Machine) -> Machine:
    """The node of these tests."""
    return joined_machine


def run_pod(machine: Machine) -> None:
    """Start the agent, and wait until the pod p is ready."""
    machine.edge.run()
    machine.cloud.apply(pod("p", container("exec sleep 3600")))
    machine.cloud.pods.wait("p", is_ready)


class Told(NamedTuple):
    """What a cloud says at one moment."""

    fleet: str
    node: str
    findings: list[str]
    why: str
    """The sentence about the pod p and its notes, by the command."""
    page_why: str
    """The same by the page."""
    doctor: str
    nodes: str

    @property
    def all(self) -> tuple[str, ...]:
        """Each that names the trouble of a node."""
        return (self.node, " ".join(self.findings), self.why, self.page_why, self.doctor)


def cloudcore(machine: Machine, command: str, *words: str) -> str:
    """What a command of the cloud prints."""
    done = run_program("cloudcore", command, "--socket", str(machine.cloud.socket), *words)
    return done.stdout + done.stderr


def edgecore(machine: Machine, command: str, *words: str) -> str:
    """What a command of the node prints."""
    done = run_program("edgecore", command, "--config", str(machine.edge.file), *words)
    return done.stdout + done.stderr


def told(machine: Machine, findings: int = 0) -> Told:
    """Ask the page, once it has so many findings, and the commands: devices and workloads are read after the rest."""
    clock = RealClock()
    with closing(clock), closing(socket_api(machine.cloud.socket, (), clock)) as api:

        def asked(path: str) -> Any:
            parts = tuple(path.split("/"))
            return json.loads(api.serve(Request(method="GET", target=path, parts=parts), parts).body)

        wait_until(lambda: asked("changes")["is_read"], "the fleet is read")
        wait_until(lambda: len(asked("changes")["head"]["findings"]) >= findings, f"{findings} findings")
        head, story = asked("changes")["head"], asked("explain/default/p")["answer"]
        node = asked(f"nodes/{NODE}")["sentence"]
    command = json.loads(cloudcore(machine, "why", "pod", "p", "-o", "json"))
    return Told(
        "".join(part["text"] for part in head["sentence"]),
        node,
        [f"{each['sentence']}: {each.get('detail', '')}" for each in head["findings"]],
        _said(command),
        _said(story),
        cloudcore(machine, "doctor"),
        cloudcore(machine, "nodes"),
    )


def _said(answer: Any) -> str:
    return " ".join((answer["sentence"], *answer["notes"]))


def test_an_agent_that_is_killed_is_behind_at_once_then_away_also_after_a_restart_of_the_cloud(
    machine: Machine,
) -> None:
    run_pod(machine)
    well = told(machine)
    assert (well.fleet, well.findings) == ("The node is connected.", [])
    assert "FAIL" not in well.doctor
    machine.edge.kill()
    wait_until(lambda: machine.cloud.client.nodes() == [], "its link has ended")
    lost = told(machine)
    assert lost.fleet in ("The node is lost.", "The node is away.")
    for said in lost.all:
        assert f"{NODE} is lost: its connection ended " in said or f"{NODE} has been away" in said or "is away" in said
    assert "default/p was running on edge-1 when it was last heard of" in lost.why
    wait_until(lambda: "away" in cloudcore(machine, "nodes"), "it is away")
    (before,) = machine.cloud.client.links(LinkQuery(newest_only=True))
    machine.cloud.kill()
    machine.cloud.start()
    away = told(machine)
    assert away.fleet == "The node is away."
    for said in away.all:
        assert f"{NODE} has been away for " in said or f"{NODE} is away" in said
    (after,) = machine.cloud.client.links(LinkQuery(newest_only=True))
    assert after.ended == before.ended


def test_a_revoked_node_is_refused_and_the_reason_is_everywhere(machine: Machine) -> None:
    run_pod(machine)
    machine.cloud.client.revoke("node", NODE, "stolen")
    wait_until(lambda: bool(machine.cloud.client.connections().refused), "it has tried again")
    for said in told(machine).all:
        assert f"node {NODE} is revoked since" in said
        assert f"`cloudcore allow node {NODE}`" in said
    assert f"node {NODE} is revoked since" in edgecore(machine, "why", "pod", "default/p")
    assert f"node {NODE} is revoked since" in edgecore(machine, "doctor")


def test_a_clock_that_is_an_hour_ahead(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AHEAD", "3600")
    machine.edge.module = "tests.end_to_end.wrong_clock"
    run_pod(machine)
    wait_until(lambda: all("60m ahead" in said for said in told(machine).all), "everybody names the clock")


def test_another_certificate_authority_and_a_cloud_that_is_away(machine: Machine) -> None:
    """The node says what is wrong, the cloud only that it is away: it was never connected to this one."""
    run_pod(machine)
    machine.cloud.kill()
    assert "has had no link to its cloud for" in edgecore(machine, "why", "pod", "default/p")
    assert "Connection refused" in edgecore(machine, "doctor")
    shutil.rmtree(machine.directory / "cloud-tls")
    machine.cloud.start()
    wait_until(lambda: "another CA" in edgecore(machine, "doctor"), "the doctor of the node knows")
    why = "signed by another CA than this node's CA file"
    wait_until(lambda: why in edgecore(machine, "why", "pod", "default/p"), "the node has tried again")
    for said in told(machine).all:
        assert f"{NODE} has been away" in said or f"{NODE} is away" in said or f"{NODE} is lost" in said


def test_a_mapper_that_is_killed(machine: Machine) -> None:
    run_pod(machine)
    socket, people = str(machine.edge.root / "dmi.sock"), People(machine.cloud.client)
    people.wait()
    for each in yaml.safe_load_all((REPOSITORY / "examples" / "more" / "thermometer.yaml").read_text()):
        people.apply(each)
    options = ["--edgecore", socket, "--http-port", str(free_port())]
    mapper = Process("examples.thermometer_mapper", options, machine.directory / "mapper.log")
    try:
        wait_until(lambda: people.reported("hall-heater") == {"on": "false"}, "the heater is off")
        assert told(machine).findings == []
    finally:
        mapper.kill()
    wait_until(lambda: people.status("hall").get("state") == "unknown", "the node has noticed")
    found = told(machine, findings=1)
    said = f"2 devices on {NODE} are in a state that is not known: default/hall"
    assert found.findings[0].startswith(said)
    assert "its mapper has ended, or is silent" in found.findings[0]
    assert said in found.doctor
    assert "nobody listens on its socket" in edgecore(machine, "doctor")


def test_a_quota_that_is_exceeded(machine: Machine) -> None:
    run_pod(machine)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container("exec sleep 3600")]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    machine.cloud.apply(quota, web)
    said = "Deployment web: 2 of 3 pods cannot be made: pods "
    wait_until(lambda: said in cloudcore(machine, "why", "deployment", "web"), "the quota is the reason")
    found = told(machine, findings=1)
    assert found.findings[0].startswith(said)
    assert "exceeded quota: few, requested: pods=1" in found.findings[0]
    assert said in found.doctor
    assert "describe resourcequota few" in found.doctor
