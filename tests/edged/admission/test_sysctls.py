"""A pod may only set kernel parameters that are its own."""

from typing import Any

import pytest

from edged.admission.admit import NodeInfo, forbidden_sysctl, refusal
from edged.pods.taken_room import TakenRoom, demand_of
from modules.apimachinery.types import Pod, PodSecurityContext, Sysctl
from tests.edged.pods.builders import a_pod


def setting(*names: str, **spec: Any) -> Pod:
    sysctls = tuple(Sysctl(name=name, value="1") for name in names)
    return a_pod(security_context=PodSecurityContext(sysctls=sysctls), **spec)


@pytest.mark.parametrize(
    ("pod", "allowed", "why"),
    [
        (a_pod(), (), None),
        (setting("net.ipv4.tcp_syncookies"), (), None),
        (setting("net/ipv4/tcp_syncookies"), (), None),
        (setting("net.ipv4.tcp_syncookies", "net.core.somaxconn"), (), '"net.core.somaxconn" not allowlisted'),
        (setting("vm.swappiness"), (), "not allowlisted"),
        (setting("net.core.somaxconn"), ("net.core.somaxconn",), None),
        (setting("net.core.somaxconn"), ("net/core/*",), None),
        (setting("kernel.msgmax"), ("net.*",), "not allowlisted"),
        (setting("kernel.msgmax"), ("kernel.msg*",), None),
        (setting("kernel.msmax"), ("kernel.msg*",), "not allowlisted"),
        (setting("net.ipv4.tcp_syncookies", host_network=True), (), "not allowed with host Net"),
        (setting("kernel.shm_rmid_forced", host_ipc=True), (), "not allowed with host IPC"),
        (setting("kernel.shm_rmid_forced", host_network=True), (), None),
        (setting("fs.mqueue.msg_max", host_ipc=True), ("fs.*",), "not allowed with host IPC"),
        (setting("kernel/msgmax", host_ipc=True), ("kernel.msg*",), "not allowed with host IPC"),
        (setting("kernel.sem", host_ipc=True), ("kernel.sem",), "not allowed with host IPC"),
    ],
)
def test_which_parameters_a_pod_may_set(pod: Pod, allowed: tuple[str, ...], why: str | None) -> None:
    """The safe ones and the node's allowed ones, unless the namespace is the host's."""
    said = forbidden_sysctl(pod, allowed)
    assert (said is None) == (why is None)
    assert why is None or why in str(said)


def test_such_a_pod_is_refused() -> None:
    """With a kubelet's reason; a node that allows the parameter takes it."""
    pod = setting("kernel.msgmax")
    options = refusal(pod, demand_of(pod), TakenRoom(), NodeInfo("n1"))
    assert options is not None
    assert options.reason == "SysctlForbidden"
    assert refusal(pod, demand_of(pod), TakenRoom(), NodeInfo("n1", unsafe_sysctls=("kernel.msg*",))) is None
