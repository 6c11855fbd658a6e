"""How the pods of an ordinary user's node are connected with the machine: host ports by address, and IPv6."""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Iterator

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.rootless.node import RootlessNode, rootless_node
from tests.modules.runtimes.process.node import eventually
from tests.support.patience import PATIENCE
from tests.support.ports import free_port, needs_ipv6

_ONE, _TWO = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def node() -> Iterator[RootlessNode]:
    """A node whose pods have addresses of both IP versions."""
    with rootless_node("10.86.0.0/16 fd86::/64") as made:
        yield made


def _pod(node: RootlessNode, name: str, port: int, address: str) -> str:
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=f"u-{name}-{port}", namespace="n"),
        port_mappings=[cri.PortMapping(container_port=8080, host_port=port, host_ip=address)],
        log_directory=str(node.logs / f"{name}-{port}"),
    )
    node.complete_pod(config)
    return str(node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)


def _served(address: str, port: int) -> str:
    """What a pod answers; the reason if none does."""
    connection = http.client.HTTPConnection(address, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/name")
        return connection.getresponse().read().decode().strip()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def _serve(node: RootlessNode, pod: str, name: str) -> None:
    node.shell(f"mkdir /w; echo {name} > /w/name; exec httpd -f -p 8080 -h /w", pod=pod)


def test_one_port_of_two_addresses_leads_to_two_pods(node: RootlessNode) -> None:
    """Also when slirp4netns and the runtime were killed, and for the second pod when the first has gone."""
    port = free_port()
    pods = {address: _pod(node, address, port, address) for address in (_ONE, _TWO)}
    for address, pod in pods.items():
        _serve(node, pod, address)
        eventually(lambda: _served(address, port), lambda name: name == address)  # noqa: B023 - called at once
    os.kill(node.members()["slirp4netns"], signal.SIGKILL)
    node.kill()
    node.serve()
    for address in pods:
        eventually(lambda: _served(address, port), lambda name: name == address)  # noqa: B023 - called at once
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pods[_ONE]))
    assert _served(_ONE, port) == "ConnectionRefusedError"
    assert _served(_TWO, port) == _TWO
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pods[_TWO]))


@pytest.mark.parametrize("asked", ["Status", "StopPodSandbox"])
def test_host_ports_come_back_after_slirp4netns_was_killed(node: RootlessNode, asked: str) -> None:
    """Whatever the runtime is asked first: it starts slirp4netns, which forwards nothing yet."""
    port = free_port()
    pod, other = _pod(node, asked, port, _ONE), node.pod(f"other-{asked}")
    _serve(node, pod, "found")
    eventually(lambda: _served(_ONE, port), lambda name: name == "found")
    os.kill(node.members()["slirp4netns"], signal.SIGKILL)
    if asked == "StopPodSandbox":
        node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=other))
    assert all(each.status for each in node.cri.Status(cri.StatusRequest()).status.conditions)
    assert _served(_ONE, port) == "found"
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))


@pytest.mark.parametrize("second", [_ONE, ""])
def test_one_port_of_one_address_is_for_one_pod(node: RootlessNode, second: str) -> None:
    """The second is refused, and the first goes on."""
    port = free_port()
    pod = _pod(node, "first", port, _ONE)
    _serve(node, pod, "first")
    with pytest.raises(grpc.RpcError, match=f"port {port} of tcp at .*: it is taken"):
        _pod(node, "second", port, second)
    eventually(lambda: _served(_ONE, port), lambda name: name == "first")
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=_pod(node, "third", port, second)))


@pytest.mark.parametrize(
    ("address", "reason"),
    [("192.0.2.1", "192.0.2.1 is no address of this machine"), ("::1", "slirp4netns forwards ports of IPv4 alone")],
)
def test_an_address_that_cannot_be_had_is_refused_with_words(node: RootlessNode, address: str, reason: str) -> None:
    """And nothing is kept of it."""
    port = free_port()
    with pytest.raises(grpc.RpcError, match=reason):
        _pod(node, "refused", port, address)
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=_pod(node, "next", port, _ONE)))


@needs_ipv6
def test_pods_reach_other_networks_by_ipv6(node: RootlessNode) -> None:
    """fd00::2 is slirp4netns, on the way out; it gives its address to the node's network after a second or so."""
    reached = f"timeout {PATIENCE} sh -c 'until ping -6 -c 1 -W 1 fd00::2; do :; done' > /dev/null && echo reached"
    assert node.run(reached) == "reached\n"


@needs_ipv6
def test_no_pod_gives_the_node_an_address(node: RootlessNode) -> None:
    """The bridge hears no announcements of routers, which any pod could make."""
    node.pod()
    read = [f"/proc/sys/net/ipv6/conf/{interface}/accept_ra" for interface in ("tap0", "edgecore0")]
    assert node.in_network("cat", *read).split() == ["2", "0"]
