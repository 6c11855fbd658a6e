"""The real kubectl, and our own, with custom resources; the former is skipped where it is not installed."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modules.kubectl.session import Session
from tests.modules.cloud.apiextensions.definition import definition, device
from tests.modules.kubectl.cloud import Cloud
from tests.modules.kubectl.test_against_kubectl import on_a_port

pytestmark = pytest.mark.timeout(300)  # a process of kubectl for each command
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")


KNATIVE = definition("Service", "services", "serving.knative.dev", shortNames=["kservice", "ksvc"], categories=["all"])
LONGHORN = definition("Node", "nodes", "longhorn.io", shortNames=["lhn"])


class Kubectl:
    """kubectl with a cache of its own.

    Args:
        port: of the API server, without TLS.
        directory: its home, and where manifests are.
    """

    def __init__(self, port: int, directory: Path) -> None:
        self._command = ["kubectl", f"--server=http://127.0.0.1:{port}", f"--cache-dir={directory / 'cache'}"]
        self._environment = {**os.environ, "KUBECONFIG": "/dev/null", "HOME": str(directory)}

    def __call__(self, *words: str) -> tuple[int, str]:
        """Return the exit status and the output of a command."""
        done = subprocess.run(
            [*self._command, *words], capture_output=True, text=True, env=self._environment, check=False, timeout=120
        )
        return done.returncode, done.stdout + done.stderr


@needs_kubectl
def test_kubectl_works_with_custom_resources(cloud: Cloud, tmp_path: Path) -> None:
    """apply, get, explain, describe and delete work right after the definition is applied."""
    for name, obj in (("crd", definition(shortNames=["dev"])), ("pump", device(rate=7)), ("wrong", device(rate=0))):
        (tmp_path / f"{name}.json").write_text(json.dumps(obj))
    with on_a_port(cloud) as port:
        kubectl = Kubectl(port, tmp_path)
        assert kubectl("apply", "-f", str(tmp_path / "crd.json"))[0] == 0
        assert kubectl("wait", "--for=condition=Established", "crd/devices.devices.example.io", "--timeout=60s")[0] == 0
        assert "created" in kubectl("apply", "-f", str(tmp_path / "pump.json"))[1]
        assert "unchanged" in kubectl("apply", "-f", str(tmp_path / "pump.json"))[1]
        status, told = kubectl("apply", "-f", str(tmp_path / "wrong.json"))
        assert status == 1
        assert "greater than or equal to 1" in told
        assert kubectl("get", "dev", "--no-headers")[1].split() == ["pump", "modbus"]
        assert "How it is spoken to." in kubectl("explain", "device.spec.protocol")[1]
        assert "modbus" in kubectl("describe", "device", "pump")[1].lower()
        server_side = kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tmp_path / "pump.json"))
        assert server_side[0] == 0, server_side
        assert "deleted" in kubectl("delete", "device", "pump")[1]
        assert kubectl("delete", "crd", "devices.devices.example.io")[0] == 0


def look_alike(kind: str, group: str, name: str = "web") -> dict[str, Any]:
    """Return an object of a kind in another group than the built-in one of its name."""
    return {**device(name), "apiVersion": f"{group}/v1", "kind": kind}


@needs_kubectl
def test_kubectl_tells_kinds_of_one_name_apart(cloud: Cloud, tmp_path: Path) -> None:
    """A word without a group means the built-in kind; each is applied, shown, explained and deleted by itself."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    manifests = [KNATIVE, LONGHORN], [service, look_alike("Service", "serving.knative.dev"),
                                      look_alike("Node", "longhorn.io")]  # fmt: skip
    files = [tmp_path / "definitions.json", tmp_path / "objects.json"]
    for file, items in zip(files, manifests, strict=True):
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with on_a_port(cloud) as port:
        kubectl = Kubectl(port, tmp_path)
        assert kubectl("apply", "-f", str(files[0]))[0] == 0
        assert kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")[0] == 0
        created = kubectl("apply", "-f", str(files[1]))[1]
        for name in ("service/web", "service.serving.knative.dev/web", "node.longhorn.io/web"):
            assert f"{name} created\n" in created
        for how in ((), ("--server-side",), ()):
            status, told = kubectl("apply", *how, "-f", str(files[1]))
            assert (status, "configured" in told) == (0, False), told
        assert "ClusterIP" in kubectl("get", "services", "web", "--no-headers")[1]
        assert kubectl("get", "services.serving.knative.dev", "--no-headers")[1].split() == ["web", "modbus"]
        assert kubectl("get", "ksvc,lhn", "--no-headers", "-o", "name")[1].split() == [
            "service.serving.knative.dev/web", "node.longhorn.io/web",
        ]  # fmt: skip
        assert "No resources found" in kubectl("get", "nodes")[1]
        explained = kubectl("explain", "services.spec.protocol", "--api-version=serving.knative.dev/v1")[1]
        assert "How it is spoken to." in explained
        assert "protocol" in kubectl("explain", "service.spec.ports")[1]
        assert "Modbus" in kubectl("describe", "ksvc", "web")[1].title()
        assert "Endpoints" not in kubectl("describe", "services.serving.knative.dev", "web")[1]
        dependent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-web", "ownerReferences": [
            {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "web",
             "uid": json.loads(kubectl("get", "ksvc", "web", "-o", "json")[1])["metadata"]["uid"]},
        ]}}  # fmt: skip
        cloud.make(dependent)
        assert "deleted" in kubectl("delete", "ksvc", "web", "--cascade=foreground")[1]
        assert "NotFound" in kubectl("get", "configmap", "of-web")[1]
        assert kubectl("get", "service/web", "-o", "name") == (0, "service/web\n")
        assert kubectl("delete", "crd", "services.serving.knative.dev")[0] == 0
        assert kubectl("get", "service/web", "-o", "name") == (0, "service/web\n")


def test_our_own_kubectl_tells_kinds_of_one_name_apart(cloud: Cloud) -> None:
    """Columns, descriptions, rollouts and taints are those of the kind in its group."""
    scaled = definition("Deployment", "deployments", "apps.kruise.example.io")
    cloud.make(KNATIVE, LONGHORN, scaled)
    cloud.session = Session("cloudcore", cloud.client)
    cloud.make(look_alike("Service", "serving.knative.dev"), look_alike("Node", "longhorn.io"),
               look_alike("Deployment", "apps.kruise.example.io"))  # fmt: skip
    assert cloud.run("get", "services.serving.knative.dev").rows == [["NAME", "PROTOCOL"], ["web", "modbus"]]
    assert cloud.run("get", "lhn", "-o", "name").lines == ["node.longhorn.io/web"]
    assert "Protocol:  modbus" in cloud.run("describe", "lhn", "web").out
    assert "only nodes have taints" in cloud.run("taint", "nodes.longhorn.io", "web", "a=b:NoSchedule").err
    for words in (("status",), ("history",), ("pause",)):
        assert cloud.run("rollout", *words, "deployments.apps.kruise.example.io", "web").status == 1
    assert "knows pod" in cloud.run("why", "deployments.apps.kruise.example.io", "web").err
