"""Jobs of the cloud on an installed node: bundles that cloudcore serves, bad ones, and settings."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from modules.apimachinery.node_jobs import ANOTHER_CHANGE
from modules.processes.cloudcore import rollout_commands
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config.editing import with_setting
from modules.processes.edgecore.upgrade.updater.journal import Phase
from tests.end_to_end.machine import Cloud
from tests.end_to_end.processes import run_program, wait_until
from tests.end_to_end.test_upgrade import InstalledNode
from tests.modules.processes.cloudcore.jobs import JobAuthors
from tests.modules.processes.edgecore.upgrade.releases import DOES_NOT_START, GOOD, KEY, make_bundle
from tests.support.control_client import Get
from tests.support.directories import new_directory

Json = dict[str, Any]
NODE = "n1"
MOST_PODS, READ_ONLY = (f"modules.edged.tailoredKubeletConfig.{key}" for key in ("maxPods", "readOnlyPort"))
ADDRESS = "modules.edged.tailoredKubeletConfig.address"
SETTINGS = {
    "modules.taskManager.allowedJobs": "[NodeUpgradeJob, ConfigUpdateJob]",
    "modules.taskManager.allowedKeys": f"[{MOST_PODS}, {ADDRESS}, {READ_ONLY}]",
    "upgrade.sources": "[cloudcore]",
    "upgrade.within": "250",
    "upgrade.steady": "1",
}
"""What the owner of the node has decided."""


class Fleet:
    """A cloud with TLS that serves bundles, and an installed node with a pod that has joined it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bundles = directory / "served"
        self.bundles.mkdir()
        self.cloud = Cloud(directory)
        self.cloud.tls_options = []
        self.cloud.options = ["--bundles", str(self.bundles)]
        self.authors = JobAuthors(self.cloud.client)
        self.node = InstalledNode(directory, f"wss://{self.cloud.address}")

    def start(self) -> None:
        """Start the cloud, and let the node join, run its pod and register."""
        self.cloud.start()
        file = self.node.root / "edgecore.yaml"
        for key, value in SETTINGS.items():
            file.write_text(with_setting(file.read_text(), key, value).text)
        where = ["--cloud", self.cloud.address, "--http-server", self.cloud.certificates, "--root", str(self.node.root)]
        done = run_program("edgecore", "join", *where, "--token", "-", given=self.cloud.client.token(3600.0))
        assert done.returncode == ExitCode.OK, done.stderr
        first = self.node.upgrade(make_bundle(self.directory / "b", "1.0.0"))
        assert first.returncode == 0, first.stderr
        self.node.start()
        self.before = self.node.wait_running(connected=True)
        wait_until(lambda: self.cloud.client.run(Get("Node", NODE, None))[0].object, "the node is registered")

    def serve(self, version: str, failure: str = GOOD, key: Ed25519PrivateKey = KEY) -> None:
        """Let cloudcore serve the bundle of a version."""
        python = "{}{}".format(*sys.version_info[:2])
        made = make_bundle(self.directory / "b", version, failure, key=key)
        made.rename(self.bundles / f"edgecore-{version}-cp{python}-{platform.machine()}.bundle")

    def upgrade(self, version: str) -> Json:
        """Order an upgrade, served or not, and return the status of the job on the node at its end."""
        words = ["upgrade", "nodes", NODE, "--to", version, "--not-served", "--socket", str(self.cloud.socket)]
        assert main(words) == ExitCode.OK
        return self._ended("NodeUpgradeJob", f"upgrade-to-{version}")

    def configure(self, name: str, **fields: str) -> Json:
        """Order a change of settings, and return the status of the job on the node at its end."""
        return self.order("ConfigUpdateJob", name, updateFields=fields)

    def order(self, kind: str, name: str, **spec: Any) -> Json:
        """Order a job, and return its status on the node at its end."""
        self.authors.create(kind, name, {"nodeNames": [NODE], **spec})
        return self._ended(kind, name)

    def _ended(self, kind: str, name: str) -> Json:
        found: Json = self.authors.ended(kind, name)["nodeStatus"][0]
        return found

    def close(self) -> None:
        """End both, and remove the directory."""
        self.node.stop()
        self.cloud.kill()
        shutil.rmtree(self.directory)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A fleet of one node. How much of the machine's memory and disk others use is no concern of the tests."""
    monkeypatch.setattr(rollout_commands, "UPGRADE_CHECKS", ())
    made = Fleet(new_directory("upgrade"))
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_a_job_upgrades_the_node_and_bad_versions_change_nothing(fleet: Fleet) -> None:
    """The job ends with what the node is in the end, and the container is the same all the time. An attacker in the
    cloud can serve another signer's bundle and an older one of the right signer.
    """
    fleet.serve("1.1.0")
    good = fleet.upgrade("1.1.0")
    assert (good["phase"], good["historicVersion"], good["currentVersion"]) == ("Successful", "1.0.0", "1.1.0")
    assert [each["action"] for each in good["actionFlow"]] == ["Check", "WaitingConfirmation", "BackUp", "Upgrade"]
    seen = fleet.node.wait_running(connected=True)
    assert (seen.version, seen.containers) == ("1.1.0", fleet.before.containers)
    fleet.serve("1.2.0", DOES_NOT_START)
    bad = fleet.upgrade("1.2.0")
    assert (bad["phase"], bad["currentVersion"]) == ("Failure", "1.1.0")
    assert bad["reason"].startswith("rolled back: ")
    assert "1.2.0 ended 3 times" in bad["reason"]
    seen = fleet.node.wait_running(connected=True)
    assert (seen.version, seen.containers) == ("1.1.0", fleet.before.containers)

    fleet.serve("2.0.0", key=Ed25519PrivateKey.generate())
    fleet.serve("0.9.0")
    for version, why in (("2.0.0", "trustedKeys"), ("0.9.0", "older"), ("3.0.0", "no such bundle")):
        task = fleet.upgrade(version)
        assert task["phase"] == "Failure"
        [check] = task["actionFlow"]
        assert (check["action"], check["status"]) == ("Check", "False")
        assert why in check["reason"]
    after = fleet.node.observe()
    assert after is not None
    assert (after.version, after.connected, after.containers) == (seen.version, True, seen.containers)


@pytest.mark.parametrize("what", ["configuration", pytest.param("version", marks=pytest.mark.slow)])
def test_a_job_during_a_probation_fails_and_names_what_is_on_probation(fleet: Fleet, what: str) -> None:
    """Whatever it would change. The change that is on probation goes on, and nothing of the job is done later."""
    fleet.serve("1.1.0")
    node, former = fleet.node, fleet.node.process
    subject, version = ("1.2.0", "1.2.0") if what == "version" else ("the configuration", "1.0.0")
    begun = node.begin_upgrade(make_bundle(fleet.directory / "b", "1.2.0")) if what == "version" else None
    with begun or node.begin_set(READ_ONLY, "0", MOST_PODS, "55") as command:
        try:
            wait_until(lambda: node.process not in (0, former), "the updater has restarted the node")
            node.wait_running(connected=True)
            upgrade = fleet.order("NodeUpgradeJob", "up", version="v1.1.0")
            for task in (upgrade, fleet.configure("more", **{MOST_PODS: "77"})):
                assert task["phase"] == "Failure"
                [check] = task["actionFlow"]
                assert (check["action"], check["status"]) == ("Check", "False")
                assert f"{ANOTHER_CHANGE}: {subject} is on probation" in check["reason"]
            after = node.wait_running(connected=True)
            assert (node.phase(what), after.version, after.containers) == (
                Phase.PROBATION, version, fleet.before.containers,
            )  # fmt: skip
            text = (node.root / "edgecore.yaml").read_text()
            assert ("maxPods: 55" in text, "maxPods: 77" in text) == (what == "configuration", False)
        finally:
            command.kill()
            node.give_up(what)


@pytest.mark.slow
def test_a_job_changes_settings_and_one_that_lets_the_node_not_start_goes_back(fleet: Fleet) -> None:
    """And a setting that the owner has not listed is refused."""
    before = fleet.node.wait_running(connected=True)
    file = fleet.node.root / "edgecore.yaml"
    refused = fleet.configure("foreign", **{"modules.edgeHub.heartbeat": "20"})
    assert refused["phase"] == "Failure"
    assert "does not let jobs set" in refused["actionFlow"][0]["reason"]
    good = fleet.configure("more", **{MOST_PODS: "55"})
    assert (good["phase"], [each["action"] for each in good["actionFlow"]]) == (
        "Successful", ["Check", "BackUp", "Update"],
    )  # fmt: skip
    text = file.read_text()
    assert "maxPods: 55" in text
    bad = fleet.configure("bad", **{ADDRESS: "203.0.113.9", READ_ONLY: "10255"})
    assert bad["phase"] == "Failure"
    assert bad["reason"].startswith("rolled back: ")
    assert file.read_text() == text
    assert fleet.node.wait_running(connected=True).containers == before.containers
