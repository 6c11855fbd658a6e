"""Sandboxes that are refused, and kernel parameters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError, WrongStateError
from modules.runtimes.oci.spec import check_sandbox, sysctl_parts
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import ROOTLESS, UNIFIED


def _sandbox(
    options: cri.NamespaceOption | None = None, sysctls: dict[str, str] | None = None, **fields: Any
) -> cri.RunPodSandboxRequest:
    config = cri.PodSandboxConfig(**{"metadata": cri.PodSandboxMetadata(name="web"), **fields})
    config.linux.sysctls.update(sysctls or {})
    if options is not None:
        config.linux.security_context.namespace_options.CopyFrom(options)
    return cri.RunPodSandboxRequest(config=config)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (cri.NamespaceOption(pid=cri.NODE), "hostPID needs root"),
        (cri.NamespaceOption(pid=cri.CONTAINER, ipc=cri.NODE), "hostIPC needs root"),
        (
            cri.NamespaceOption(
                pid=cri.CONTAINER,
                userns_options=cri.UserNamespace(
                    mode=cri.POD, uids=[cri.IDMapping(length=65536)], gids=[cri.IDMapping(length=65536)]
                ),
            ),
            "have users of their own already",
        ),
    ],
)
def test_what_a_node_without_root_cannot_share_is_refused(options: cri.NamespaceOption, reason: str) -> None:
    """With words; root's node may."""
    with pytest.raises(WrongStateError, match=reason):
        check_sandbox(_sandbox(options), ROOTLESS)
    if not options.HasField("userns_options"):
        check_sandbox(_sandbox(options), UNIFIED)


def test_a_sandbox_as_edged_makes_it() -> None:
    """Accepted: namespaced parameters in namespaces of its own, a hostname, a log directory."""
    sysctls = {
        "kernel.shm_rmid_forced": "1",
        "kernel.msgmax": "65536",
        "kernel.sem": "1 2 3 4",
        "fs.mqueue.msg_max": "100",
        "net.ipv4.ip_unprivileged_port_start": "0",
        "net/ipv4/conf/eth0.1/rp_filter": "0",
    }
    asked = _sandbox(cri.NamespaceOption(pid=cri.CONTAINER), sysctls, hostname="web-1", log_directory="/var/log/pods/x")
    check_sandbox(asked, UNIFIED)


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("vm.swappiness", "1", {}),
        ("kernel.panic", "1", {}),
        ("kernel.hostname", "x", {}),
        ("kernel.shmx/../panic", "1", {}),
        ("net.ipv4.x", "1", {"network": cri.NODE}),
        ("kernel.shmmax", "1", {"ipc": cri.NODE}),
        ("fs.mqueue.msg_max", "1", {"ipc": cri.NODE}),
        ("net", "1", {}),
        ("net..x", "1", {}),
        ("net.ipv4.a\n", "1", {}),
        ("net/../kernel/panic", "1", {}),
        ("net./x", "1", {}),
        ("net.x", "1\n2", {}),
        ("net.x", "1" * 5000, {}),
    ],
)
def test_parameters_of_the_machine(name: str, value: str, options: dict[str, Any]) -> None:
    """A parameter outside the pod's own namespaces is refused, because it would change the whole machine."""
    with pytest.raises(BadRequestError, match="sysctl"):
        check_sandbox(_sandbox(cri.NamespaceOption(**options), {name: value}), UNIFIED)


@given(name=st.from_regex(r"[a-z./_]{1,30}|(net|kernel|fs)[./][a-z0-9./_]{1,20}", fullmatch=True))
def test_accepted_parameters_stay_below_their_directories(name: str) -> None:
    """The file of an accepted parameter is one of net, of the message queues, or one of the three of IPC."""
    try:
        check_sandbox(_sandbox(sysctls={name: "1"}), UNIFIED)
    except BadRequestError:
        return
    top, *below = parts = sysctl_parts(name)
    assert not {"", ".", ".."} & set(parts)
    assert top == "net" or (top, below[0]) == ("fs", "mqueue") or (top == "kernel" and len(below) == 1)
    assert top != "kernel" or below[0].startswith(("shm", "msg", "sem"))


def test_the_separator_of_a_parameter() -> None:
    """The first one separates; the other is part of a name (sysctl.d(5))."""
    assert sysctl_parts("net.ipv4.conf.eth0/1.rp_filter") == ["net", "ipv4", "conf", "eth0.1", "rp_filter"]
    assert sysctl_parts("net/ipv4/conf/eth0.1/rp_filter") == ["net", "ipv4", "conf", "eth0.1", "rp_filter"]


_POD_USERS = cri.UserNamespace(
    mode=cri.POD, uids=[cri.IDMapping(host_id=9000, length=9)], gids=[cri.IDMapping(host_id=9000, length=9)]
)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (_sandbox(metadata=None), BadRequestError),
        (_sandbox(hostname="-x"), BadRequestError),
        (_sandbox(hostname="x" * 65), BadRequestError),
        (_sandbox(log_directory="x"), BadRequestError),
        (_sandbox(cri.NamespaceOption(pid=cri.TARGET, target_id="x")), BadRequestError),
        (_sandbox(cri.NamespaceOption(network=cri.CONTAINER)), BadRequestError),
        (_sandbox(cri.NamespaceOption(userns_options=_POD_USERS)), WrongStateError),
        (_sandbox(cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.TARGET))), BadRequestError),
        (_sandbox(linux=cri.LinuxPodSandboxConfig(cgroup_parent="/../x")), BadRequestError),
    ],
)
def test_sandboxes_that_are_refused(request_: cri.RunPodSandboxRequest, kind: type[RequestRefusedError]) -> None:
    """With the pod's name where it has one."""
    with pytest.raises(kind, match="run the sandbox of pod"):
        check_sandbox(request_, UNIFIED)


def test_security_contexts_of_sandboxes_that_are_refused() -> None:
    """A group without a user, and labels."""
    asked = _sandbox()
    asked.config.linux.security_context.run_as_group.value = 5
    with pytest.raises(BadRequestError, match="runAsGroup without runAsUser"):
        check_sandbox(asked, UNIFIED)
    asked = _sandbox()
    asked.config.linux.security_context.selinux_options.level = "s 0"
    with pytest.raises(BadRequestError, match="SELinux"):
        check_sandbox(asked, UNIFIED)
