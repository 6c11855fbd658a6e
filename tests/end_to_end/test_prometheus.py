"""A real Prometheus reads a cloudcore, and a node through its tunnel, with the files of `deploy/prometheus`."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.processes import REPOSITORY, run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

_PROMETHEUS: Final = shutil.which("prometheus")
_DEPLOY: Final = REPOSITORY / "deploy" / "prometheus"

pytestmark = [
    pytest.mark.skipif(_PROMETHEUS is None, reason="prometheus is not installed (.ci/install-tools)"),
    pytest.mark.slow,
]


class Prometheus:
    """A Prometheus of this test's own, which asks its targets and its rules each half second.

    Debian's is built without the discovery of a Kubernetes API's nodes, so it is told what that would find.
    """

    def __init__(self, directory: Path, scrape: str) -> None:
        self._directory = directory
        self.port = free_port()
        configuration = yaml.safe_load(scrape)
        (discovering,) = (each for each in configuration["scrape_configs"] if each.pop("kubernetes_sd_configs", None))
        discovering["static_configs"] = [{"targets": [NODE], "labels": {"__meta_kubernetes_node_name": NODE}}]
        configuration["global"] = {
            "scrape_interval": "500ms",
            "evaluation_interval": "500ms",
            "scrape_timeout": "500ms",
        }
        configuration["rule_files"] = ["alerts.yaml"]
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
        rules = (_DEPLOY / "alerts.yaml").read_text()
        (directory / "alerts.yaml").write_text(re.sub(r"^( +for:) \w+$", r"\1 1s", rules, flags=re.MULTILINE))

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Run it."""
        log = self._directory / "prometheus.log"
        arguments = [
            "--config.file=prometheus.yaml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(_PROMETHEUS), *arguments], cwd=self._directory, stdout=output, stderr=output
            )
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0, log.read_text()

    def get(self, path: str) -> Any:
        """The data of an answer; None as long as there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def health(self) -> dict[str, str]:
        """Whether each target answers, by its job, a node's by its name."""
        found = (self.get("targets") or {}).get("activeTargets", [])
        return {each["labels"].get("node") or each["labels"]["job"]: each["health"] for each in found}

    def firing(self) -> set[str]:
        """The names of the alerts."""
        found = (self.get("alerts") or {}).get("alerts", [])
        return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A node that runs, joined to a cloud with TLS, a tunnel, metrics and an API server."""
    with closing(Machine(EmbeddedUnderTest())) as made:
        made.edge.tunnel_port = free_port()
        made.cloud.tls_options = ["--tunnel-listen", f"127.0.0.1:{made.edge.tunnel_port}"]
        yield made


def credentials(machine: Machine, directory: Path) -> None:
    """Write the files that `scrape.yaml` names, from the administrator's kubeconfig."""
    file = directory / "admin.kubeconfig"
    of_cloud = ["--socket", str(machine.cloud.socket), "--tls-dir", str(machine.directory / "cloud-tls")]
    done = run_program("cloudcore", "kubeconfig", *of_cloud, "--output", str(file))
    assert done.returncode == ExitCode.OK, done.stderr
    found = yaml.safe_load(file.read_text())
    parts = {**found["clusters"][0]["cluster"], **found["users"][0]["user"]}
    names = {
        "ca.crt": "certificate-authority-data",
        "client.crt": "client-certificate-data",
        "client.key": "client-key-data",
    }
    for name, field in names.items():
        (directory / name).write_bytes(base64.b64decode(parts[field]))


def test_prometheus_reads_both_and_its_alerts_fire(machine: Machine, tmp_path: Path) -> None:
    """With addresses, the directory of certificates and the time that alerts wait for changed, and no more."""
    metrics, api = free_port(), free_port()
    machine.cloud.options = ["--metrics-bind-address", f"127.0.0.1:{metrics}", "--secure-port", str(api)]
    machine.cloud.start()
    assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
    machine.edge.run()
    credentials(machine, tmp_path)
    scrape = (_DEPLOY / "scrape.yaml").read_text()
    for name, here in (
        ("cloudcore.example:10270", f"127.0.0.1:{metrics}"),
        ("cloudcore.example:6443", f"127.0.0.1:{api}"),
        ("/etc/prometheus/cloudcore", str(tmp_path)),
    ):
        assert name in scrape
        scrape = scrape.replace(name, here)
    prometheus = Prometheus(tmp_path, scrape)
    with prometheus.runs():
        wait_until(lambda: prometheus.health() == {"cloudcore": "up", NODE: "up"}, "both targets answer")
        wait_until(
            lambda: bool(prometheus.get("query?query=edgehub_connected")["result"]), "the node's metrics are there"
        )
        assert prometheus.firing() == set()
        machine.edge.kill()
        wait_until(lambda: prometheus.health().get(NODE) == "down", "the node's target does not answer")
        wait_until(lambda: "NodesLost" in prometheus.firing(), "its alert fires")
        assert prometheus.health()["cloudcore"] == "up"
        machine.cloud.kill()
        wait_until(lambda: "CloudcoreDown" in prometheus.firing(), "cloudcore's alert fires")
