"""A Service of the cloud reaches its pod on the node, with the cloud and without it."""

import urllib.request
from typing import Any

import pytest

from modules.edge.edgemesh.proxy.plane import listen_address
from modules.processes.edgecore.config.edge_mesh import DataPlaneKind
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgemesh.objects import port_table
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_service_reaches_its_pod_with_and_without_the_cloud(stopped_machine: Machine) -> None:
    """Also on a node that starts without its cloud."""
    machine = stopped_machine
    port, service_port = free_port(), free_port()
    machine.edge.mesh = {
        "enable": True, "data_plane": DataPlaneKind.USERSPACE, "dns": False, "service_cidrs": (),
    }  # fmt: skip
    machine.start()
    script = f"cd $(mktemp -d) && echo hello > index.html && exec python3 -m http.server {port}"
    serving = pod("web", container(script, readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}))
    serving["metadata"]["labels"] = {"app": "web"}
    machine.cloud.apply(serving)
    spec = {
        "selector": {"app": "web"},
        "clusterIP": "10.96.0.77",
        "ports": [{"port": service_port, "targetPort": port}],
    }
    machine.cloud.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    machine.cloud.pods.wait("web", is_ready)
    address, number = listen_address(port_table(port=service_port))

    def page() -> Any:
        try:
            with urllib.request.urlopen(f"http://{address}:{number}/", timeout=PATIENCE) as answer:
                return answer.read()
        except OSError:
            return b""

    wait_until(lambda: page() == b"hello\n", "the Service answers")
    read = "python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])'"
    machine.cloud.apply(
        pod("client", container(f"exec {read} http://$WEB_SERVICE_HOST:$WEB_SERVICE_PORT/"), restartPolicy="OnFailure")
    )
    machine.cloud.pods.wait("client", lambda each: each["status"].get("phase") == "Succeeded")
    machine.cloud.kill()
    machine.edge.kill()
    machine.start_edge()
    wait_until(lambda: page() == b"hello\n", "the Service answers without the cloud")
