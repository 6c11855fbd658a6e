"""critest: Security context, Seccomp, NoNewPrivs."""

import json
from pathlib import Path
from typing import Any

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused

_PROFILE = cri.SecurityProfile
_BRIDGE = "brctl addbr contract"


def _security(**fields: Any) -> cri.LinuxContainerSecurityContext:
    security = cri.LinuxContainerSecurityContext()
    for number in ("run_as_user", "run_as_group"):
        if number in fields:
            getattr(security, number).value = fields.pop(number)
    for name in ("add", "drop"):
        if name in fields:
            getattr(security.capabilities, f"{name}_capabilities").extend(fields.pop(name))
    security.MergeFrom(cri.LinuxContainerSecurityContext(**fields))
    return security


def _own(client: Client, *, privileged: bool = False, **fields: Any) -> str:
    """A pod with a network of its own."""
    config = client.pod_config(network=True, **fields)
    config.linux.security_context.privileged = privileged
    return client.pod(config)


def _running(client: Client, pod: str = "", **fields: Any) -> str:
    return client.start(*LOOP, pod=pod, security=_security(**fields))


def _bounding(client: Client, container: str) -> int:
    return int(client.said(container, "grep CapBnd /proc/self/status").split()[1], 16)


def test_supplemental_groups(client: Client) -> None:
    """critest: Security context: if the container has supplemental groups, its process has them."""
    container = _running(client, supplemental_groups=[1234, 5678])
    assert {"1234", "5678"} <= set(client.said(container, "id -G").split())


def test_run_as_user(client: Client) -> None:
    """critest: Security context: runtime should support RunAsUser."""
    assert client.said(_running(client, run_as_user=1001), "id -u") == "1001\n"


def test_run_as_user_name(client: Client) -> None:
    """critest: Security context: runtime should support RunAsUserName; the name is the image's."""
    assert client.said(_running(client, run_as_username="nobody"), "id -nu") == "nobody\n"


def test_run_as_group(client: Client) -> None:
    """critest: Security context: runtime should support RunAsGroup."""
    container = _running(client, run_as_user=1001, run_as_group=1002)
    assert client.said(container, "id -u; id -g") == "1001\n1002\n"


def test_group_without_user(client: Client) -> None:
    """critest: Security context: runtime should return error if RunAsGroup is set without RunAsUser."""
    refused(lambda: client.create(*LOOP, security=_security(run_as_group=1002)))


@pytest.mark.parametrize("readonly", [False, True], ids=["writable", "readonly"])
def test_root_file_system(client: Client, readonly: bool) -> None:
    """critest: Security context: runtime should support that ReadOnlyRootfs is false, and true."""
    ended = client.run("touch /contract.go", security=_security(readonly_rootfs=readonly))
    assert ("/contract.go: Read-only file system" in ended.stderr) is readonly
    assert (ended.status.exit_code == 0) is not readonly


@pytest.mark.parametrize("privileged", [True, False], ids=["privileged", "plain"])
def test_privileged(client: Client, privileged: bool) -> None:
    """critest: Security context: runtime should support Privileged is true, and false: a bridge can be made, or not."""
    pod = _own(client, privileged=privileged)
    container = _running(client, pod, privileged=privileged)
    assert (client.execute(container, "sh", "-c", _BRIDGE).exit_code == 0) is privileged


def test_privileged_in_a_plain_pod(client: Client) -> None:
    """A privileged container in a pod that is not is refused."""
    refused(lambda: client.create(*LOOP, security=_security(privileged=True)))


def test_add_capability(client: Client) -> None:
    """critest: Security context: runtime should support adding capability (NET_ADMIN)."""
    assert client.execute(_running(client, _own(client), add=["NET_ADMIN"]), "sh", "-c", _BRIDGE).exit_code == 0


def test_drop_capability(client: Client) -> None:
    """critest: Security context: runtime should support dropping capability (NET_RAW)."""
    config = client.pod_config(network=True)
    config.linux.sysctls["net.ipv4.ping_group_range"] = "1 0"
    pod = client.pod(config)
    refusals = [
        client.execute(_running(client, pod, drop=dropped), "ping", "-c", "1", "127.0.0.1").stderr
        for dropped in ([], ["NET_RAW"])
    ]
    assert ["permission denied" in each.decode() for each in refusals] == [False, True]


def test_add_all_capabilities(client: Client) -> None:
    """critest: Security context: runtime should support adding ALL capabilities."""
    usual, everything = (_bounding(client, _running(client, add=names)) for names in ([], ["ALL"]))
    assert everything & ~usual
    assert everything & usual == usual


def test_drop_all_capabilities(client: Client) -> None:
    """critest: Security context: runtime should support dropping ALL capabilities."""
    assert _bounding(client, _running(client, drop=["ALL"])) == 0


def test_capabilities_of_exec(client: Client) -> None:
    """A command has the container's capabilities and no more."""
    container = _running(client, drop=["ALL"], add=["CHOWN"])
    assert _bounding(client, container) == 1


def test_masked_paths(client: Client) -> None:
    """critest: Security context: runtime should support setting masked paths."""
    container = _running(client, masked_paths=["/etc/passwd", "/www", "/no/such"])
    assert client.said(container, "cat /etc/passwd; ls -A /www; grep -c . /etc/group") == "5\n"


def test_readonly_paths(client: Client) -> None:
    """critest: Security context: runtime should support setting readonly paths."""
    container = _running(client, readonly_paths=["/tmp"])
    assert b"Read-only file system" in client.execute(container, "touch", "/tmp/new").stderr


@pytest.mark.parametrize("policy", [pytest.param(cri.Merge, id="merge"), pytest.param(cri.Strict, id="strict")])
def test_supplemental_groups_policy(client: Client, policy: cri.SupplementalGroupsPolicy.ValueType) -> None:
    """critest: SupplementalGroupsPolicy Merge and Strict: groups of the image count, or not; the status tells them."""
    security = _security(supplemental_groups=[1234], supplemental_groups_policy=policy)
    container = client.start(*LOOP, image="predefined-group", security=security)
    groups = [1000, 1234, 50000] if policy == cri.Merge else [1000, 1234]
    assert sorted(map(int, client.said(container, "id -G").split())) == groups
    assert list(client.status(container).user.linux.supplemental_groups) == groups
    assert client.status(container).user.linux.uid == 1000


def _mode(client: Client, **fields: Any) -> str:
    return client.said(_running(client, **fields), "grep Seccomp: /proc/self/status").split()[1]


@pytest.mark.parametrize("profile", [None, _PROFILE(profile_type=_PROFILE.Unconfined)], ids=["none", "unconfined"])
def test_no_filter(client: Client, profile: cri.SecurityProfile | None) -> None:
    """critest: Seccomp: runtime should support an seccomp profile that is unconfined, or nil: no filter."""
    assert _mode(client, **({} if profile is None else {"seccomp": profile})) == "0"


def test_default_filter(client: Client) -> None:
    """critest: Seccomp: runtime should support the default seccomp profile."""
    assert _mode(client, seccomp=_PROFILE(profile_type=_PROFILE.RuntimeDefault)) == "2"


def _profile(directory: Path, *calls: str) -> cri.SecurityProfile:
    """A profile in a file of the machine that allows all but these calls."""
    path = directory / "profile.json"
    rule = {"names": list(calls), "action": "SCMP_ACT_ERRNO"}
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    return _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=str(path))


def test_local_filter(client: Client, tmp_path: Path) -> None:
    """critest: Seccomp: runtime should support an seccomp profile on the host: chmod is not permitted."""
    container = _running(client, seccomp=_profile(tmp_path, "chmod", "fchmod", "fchmodat", "fchmodat2"))
    answer = client.execute(container, "sh", "-c", "touch /tmp/f && chmod 400 /tmp/f")
    assert answer.exit_code != 0
    assert b"Operation not permitted" in answer.stderr


def test_missing_filter(client: Client, tmp_path: Path) -> None:
    """A profile that is not there is refused, not left out."""
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=str(tmp_path / "nosuch.json"))
    refused(lambda: client.start(*LOOP, security=_security(seccomp=profile)))


_NAMED = "hostname contract && hostname"


def test_no_filter_and_capability(client: Client) -> None:
    """critest: Seccomp: unconfined with SYS_ADMIN may set the hostname."""
    profile = _PROFILE(profile_type=_PROFILE.Unconfined)
    container = _running(client, _own(client), seccomp=profile, add=["SYS_ADMIN"])
    assert client.said(container, _NAMED) == "contract\n"


def test_filter_and_capability(client: Client, tmp_path: Path) -> None:
    """critest: Seccomp: a profile blocks what the capability SYS_ADMIN allows."""
    container = _running(client, _own(client), seccomp=_profile(tmp_path, "sethostname"), add=["SYS_ADMIN"])
    assert b"Operation not permitted" in client.execute(container, "sh", "-c", _NAMED).stderr


def test_filter_and_privileged(client: Client, tmp_path: Path) -> None:
    """critest: Seccomp: a privileged container has no filter, whatever profile it names."""
    pod = _own(client, privileged=True)
    container = _running(client, pod, seccomp=_profile(tmp_path, "sethostname"), privileged=True)
    assert client.said(container, _NAMED) == "contract\n"


@pytest.mark.parametrize("denied", [False, True], ids=["allowed", "denied"])
def test_no_new_privileges(client: Client, denied: bool) -> None:
    """critest: NoNewPrivs: a set-user-id program of a user has root's rights, or not."""
    container = client.start(image="euid", security=_security(no_new_privs=denied))
    assert client.ended(container).status.exit_code == (1000 & 0xFF if denied else 0)
