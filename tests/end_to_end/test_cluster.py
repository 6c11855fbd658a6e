"""edgecore at a cloudcore that stands between it and the API server of a cluster: three processes."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Cloud, Machine
from tests.end_to_end.pods import RUN, config_map, container, is_ready, mount, phase, pod, state_of
from tests.end_to_end.processes import Process, run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.kubeconfigs import write_kubeconfig, write_token_file
from tests.support.ports import free_port

_RBAC: Final = "rbac.authorization.k8s.io/v1"


class CloudOfCluster(Cloud):
    """A cluster with other writers, and the `cloudcore run --kubeconfig` of its node."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._where = directory
        self.api_port = free_port()
        self.cluster_options: list[str] = []
        """Further options of the cluster's `run`."""
        self._core: Process | None = None

    def start(self) -> None:
        """Starts both."""
        tokens = write_token_file(self._where / "tokens.csv")
        tls = self._where / "cluster-tls"
        address, certificates = (f"127.0.0.1:{free_port()}" for _ in range(2))
        arguments = ["run", "--listen", address, "--socket", str(self.socket), "--tls", "--tls-dir", str(tls)]
        arguments += ["--https-listen", certificates, "--secure-port", str(self.api_port)]
        arguments += ["--mount-service-account-tokens"]
        arguments += ["--token-auth-file", str(tokens), *self.cluster_options]
        self._process = self._run(arguments, "cluster")
        write_kubeconfig(self._where / "kubeconfig", self.api_port, AuthorityFiles(tls).authority)
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

    @property
    def core_socket(self) -> Path:
        """The control socket of cloudcore."""
        return self._where / "core.sock"

    def kill_cluster(self) -> None:
        """SIGKILL of the cluster alone."""
        super().kill()

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


_CLIENT = """
import sys
from pathlib import Path

from kubernetes import client
from kubernetes.config.incluster_config import InClusterConfigLoader

access, port = Path(sys.argv[1]), sys.argv[2]
environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
configuration = client.Configuration()
InClusterConfigLoader(str(access / "token"), str(access / "ca.crt"), environ=environment).load_and_set(configuration)
api = client.ApiClient(configuration)
own = client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview()).status.user_info
assert own.username == "system:serviceaccount:default:reader", own.username
namespace = (access / "namespace").read_text()
found = client.CoreV1Api(api).list_namespaced_config_map(namespace).items
assert "settings" in [each.metadata.name for each in found], found
try:
    client.CoreV1Api(api).list_namespaced_secret(namespace)
except client.ApiException as refusal:
    assert refusal.status == 403, refusal
else:
    raise SystemExit("secrets are none of its business")
"""
"""A program with the official Python client that runs in a pod: it reads what it may, and is refused the rest."""


@pytest.fixture
def cluster() -> Iterator[CloudOfCluster]:
    """The cloud of a machine whose node has registered in the cluster."""
    with closing(Machine(EmbeddedUnderTest())) as machine:
        machine.cloud = made = CloudOfCluster(machine.directory)
        machine.start()
        yield made


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


@pytest.mark.slow
def test_a_cluster_that_is_away_is_named_and_nothing_is_guessed(cluster: CloudOfCluster) -> None:
    cluster.kill_cluster()
    socket = ["--socket", str(cluster.core_socket)]
    shown = run_program("cloudcore", "nodes", *socket)
    assert shown.returncode == ExitCode.NOT_DONE
    assert "The Nodes are not known: no answer of the API server" in shown.stdout
    assert "Unregistered" not in shown.stdout
    examined = run_program("cloudcore", "doctor", *socket)
    assert examined.returncode == ExitCode.UNWELL
    assert "FAIL    API server" in examined.stdout


def test_a_pod_reads_what_its_service_account_may(cluster: CloudOfCluster, tmp_path: Path) -> None:
    """By the API server's port, with its mounted token and certificate authority, which come over the node's link."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    cluster.apply(
        _object("v1", "ServiceAccount", "reader"),
        _object(_RBAC, "Role", "reader", rules=[rule]),
        _object(_RBAC, "RoleBinding", "reader", subjects=[subject], roleRef={"kind": "Role", "name": "reader"}),
        config_map("settings", a="1"),
    )
    (tmp_path / "access").mkdir()
    access = str(tmp_path / "access")
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    reader = container(volumeMounts=[mount("access", access)])
    reader["command"] = [sys.executable, "-c", _CLIENT, access, str(cluster.api_port)]
    volume = {"name": "access", "projected": {"sources": sources}}
    cluster.apply(pod("p", reader, volumes=(volume,), serviceAccountName="reader", restartPolicy="Never"))
    ended = cluster.pods.wait("p", lambda each: phase(each) in ("Succeeded", "Failed"))
    assert phase(ended) == "Succeeded", state_of(ended, "terminated")
    added = [each["name"] for each in ended["spec"]["volumes"] if each["name"].startswith("kube-api-access-")]
    assert len(added) == 1


def _object(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}
