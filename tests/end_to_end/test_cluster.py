"""edgecore at a cloudcore that stands between it and the API server of a cluster: three processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from tests.end_to_end.machine import Cloud, Machine
from tests.end_to_end.pods import RUN, container, is_ready, pod
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.kubeconfigs import write_kubeconfig, write_token_file
from tests.support.ports import free_port


class CloudOfCluster(Cloud):
    """A cluster, to which people write, and the `cloudcore run --kubeconfig` that its node is connected to."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._where = directory
        self._port = free_port()
        self._core: Process | None = None

    def start(self) -> None:
        """Starts both."""
        tokens = write_token_file(self._where / "tokens.csv")
        tls = self._where / "cluster-tls"
        address, certificates = (f"127.0.0.1:{free_port()}" for _ in range(2))
        arguments = ["run", "--listen", address, "--socket", str(self.socket), "--tls", "--tls-dir", str(tls)]
        arguments += ["--https-listen", certificates, "--secure-port", str(self._port)]
        arguments += ["--token-auth-file", str(tokens)]
        self._process = self._run(arguments, "cluster")
        write_kubeconfig(self._where / "kubeconfig", self._port, AuthorityFiles(tls).authority)
        self.start_core()

    def start_core(self) -> None:
        """Starts cloudcore, with the same address and files as before."""
        socket = self._where / "core.sock"
        arguments = ["run", "--listen", self._address, "--socket", str(socket), *self.options]
        self._core = self._run([*arguments, "--kubeconfig", str(self._where / "kubeconfig")], "core")

    @property
    def core_pid(self) -> int:
        """The process of cloudcore."""
        assert self._core is not None
        return self._core.pid

    def kill_core(self) -> None:
        """SIGKILL of cloudcore alone."""
        if self._core is not None:
            self._core.kill()

    def kill(self) -> None:
        """SIGKILL of both."""
        self.kill_core()
        super().kill()

    def tail(self) -> str:
        """The ends of both logs."""
        return super().tail() + (self._core.tail() if self._core else "")

    def _run(self, arguments: list[str], name: str) -> Process:
        ready = self._where / f"{name}.address"
        ready.unlink(missing_ok=True)
        process = Process(self.module, [*arguments, "--ready-file", str(ready)], self._where / f"{name}.log")
        wait_until(lambda: ready.exists() or not process.runs, f"{name} is ready")
        assert process.runs, process.tail()
        return process


@pytest.fixture
def cluster() -> Iterator[CloudOfCluster]:
    """The cloud of a machine whose node has registered in the cluster."""
    machine = Machine(EmbeddedUnderTest())
    machine.cloud = made = CloudOfCluster(machine.directory)
    try:
        machine.start()
        yield made
    finally:
        machine.close()


def test_pods_of_a_cluster_run_and_end_although_cloudcore_was_killed(cluster: CloudOfCluster) -> None:
    """What people change while there is no cloudcore, the node does when it is back."""
    cluster.apply(pod("one", container(RUN)), pod("two", container(RUN)))
    for name in ("one", "two"):
        cluster.pods.wait(name, is_ready)
    cluster.kill_core()
    cluster.delete("Pod", "one")
    cluster.apply(pod("three", container(RUN)))
    cluster.start_core()
    cluster.pods.wait("three", is_ready)
    cluster.pods.wait_gone("one")
    assert is_ready(cluster.get("Pod", "two"))
