"""What a real container may do, seen from inside: the demands of critest's specs on security contexts."""

import json
from pathlib import Path

import pytest

from modules.runtimes.oci.spec import OciSpec, exec_process
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.oci_runtime import Bench, shell
from tests.modules.runtimes.oci.spec.samples import linux

_PROFILE = cri.SecurityProfile


def _seen(bench: Bench, security: cri.LinuxContainerSecurityContext, *commands: str) -> str:
    done = bench.run(bench.spec(linux(security, command=shell(*commands))))
    return done.stdout + done.stderr


def _status(bench: Bench, security: cri.LinuxContainerSecurityContext) -> dict[str, str]:
    lines = _seen(bench, security, "cat /proc/self/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_user_and_groups(bench: Bench) -> None:
    """The number, its group, the image's groups that list it under Merge only, and the requested ones."""
    security = cri.LinuxContainerSecurityContext(supplemental_groups=[1234])
    security.run_as_user.value = 1000
    spec = bench.spec(linux(security, command=["id"]))
    assert spec.user.groups == (1000, 1234, 50000)
    assert bench.run(spec).stdout.split() == ["uid=1000(user)", "gid=1000(user)", "groups=1000(user),1234,50000(extra)"]
    security.supplemental_groups_policy = cri.Strict
    assert _seen(bench, security, "id -G").split() == ["1000", "1234"]
    security.run_as_group.value = 1002
    assert _seen(bench, security, "id -u; id -g").split() == ["1000", "1002"]


def test_the_user_is_a_name_of_the_image(bench: Bench) -> None:
    """The name is looked up in the image's files, not in the machine's."""
    assert _seen(bench, cri.LinuxContainerSecurityContext(run_as_username="www-data"), "id -nu; id -G").split() == [
        "www-data",
        "33",
        "50000",
    ]


@pytest.mark.parametrize(
    ("add", "drop", "bounding"),
    [
        ([], [], "00000000a80425fb"),
        (["NET_ADMIN"], [], "00000000a80435fb"),
        ([], ["NET_RAW"], "00000000a80405fb"),
        ([], ["ALL"], "0000000000000000"),
        (["CAP_SYS_PTRACE"], ["ALL"], "0000000000080000"),
    ],
)
def test_capabilities(bench: Bench, add: list[str], drop: list[str], bounding: str) -> None:
    """Docker's set, with what is added and without what is dropped, in all three sets that count."""
    capabilities = cri.Capability(add_capabilities=add, drop_capabilities=drop)
    status = _status(bench, cri.LinuxContainerSecurityContext(capabilities=capabilities))
    assert {status[name] for name in ("CapBnd", "CapPrm", "CapEff")} == {bounding}
    assert {status[name] for name in ("CapInh", "CapAmb")} == {"0" * 16}


def test_capabilities_of_a_user(bench: Bench) -> None:
    """A user that is not root may gain the set by a program's file capabilities, and has no capability before."""
    security = cri.LinuxContainerSecurityContext()
    security.run_as_user.value = 1000
    status = _status(bench, security)
    assert (status["CapBnd"], status["CapEff"], status["CapPrm"]) == ("00000000a80425fb", "0" * 16, "0" * 16)


def test_ambient_capabilities(bench: Bench) -> None:
    """A user that is not root keeps them after exec."""
    security = cri.LinuxContainerSecurityContext(capabilities=cri.Capability(add_ambient_capabilities=["NET_ADMIN"]))
    security.run_as_user.value = 1000
    status = _status(bench, security)
    assert status["CapAmb"] == status["CapEff"] == "0000000000001000"


def test_privileged(bench: Bench) -> None:
    """All that edgecore has, no filter, all devices of the machine, /sys and the control groups writable."""
    security = cri.LinuxContainerSecurityContext(
        privileged=True, masked_paths=["/bin/ls"], seccomp=_PROFILE(profile_type=_PROFILE.RuntimeDefault)
    )
    commands = ("grep -E 'CapBnd|Seccomp:' /proc/self/status", "cat /proc/mounts", "ls /dev", "ls -d /bin/ls")
    blocks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    seen = _seen(bench, security, *commands)
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd"))
    assert own in seen
    assert "Seccomp:\t0" in seen
    assert "sysfs /sys sysfs rw" in seen
    assert "/bin/ls" in seen
    assert all(block.name in seen.split() for block in blocks if block.exists())


@pytest.mark.parametrize(
    ("profile", "mode"),
    [(_PROFILE.Unconfined, "0"), (_PROFILE.RuntimeDefault, "2"), (None, "0")],
)
def test_seccomp(bench: Bench, profile: "cri.SecurityProfile.ProfileType.ValueType | None", mode: str) -> None:
    """The default profile is a filter; without a profile there is no filter."""
    security = cri.LinuxContainerSecurityContext()
    if profile is not None:
        security.seccomp.profile_type = profile
    assert _status(bench, security)["Seccomp"] == mode


def test_the_default_profile_denies_its_list(bench: Bench) -> None:
    """Even with the capability to mount in a namespace: no new namespaces, no mounts; with CAP_SYS_ADMIN both."""
    security = cri.LinuxContainerSecurityContext(seccomp=_PROFILE(profile_type=_PROFILE.RuntimeDefault))
    commands = ("/bin/busybox unshare -U echo made", "hostname x && echo named", "sleep 0; echo went on")
    assert "made" not in (seen := _seen(bench, security, *commands))
    assert "Operation not permitted" in seen
    assert "named" not in seen
    assert "went on" in seen
    security.capabilities.add_capabilities.append("SYS_ADMIN")
    seen = _seen(bench, security, *commands)
    assert "named" in seen
    assert "made" in seen


def test_a_profile_of_the_node(bench: Bench, tmp_path: Path) -> None:
    """critest's: chmod is not permitted."""
    profile = tmp_path / "no-chmod.json"
    rule = {"names": ["chmod", "fchmod", "fchmodat"], "action": "SCMP_ACT_ERRNO"}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    security = cri.LinuxContainerSecurityContext(
        seccomp=_PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=str(profile))
    )
    seen = _seen(bench, security, "touch /tmp/f && chmod 600 /tmp/f", "grep Seccomp: /proc/self/status")
    assert "Operation not permitted" in seen
    assert "Seccomp:\t2" in seen


def test_masked_and_readonly_paths(bench: Bench) -> None:
    """A masked file is empty, a masked directory too; in a read-only one no file can be made."""
    (bench.rootfs / "etc/secret").write_text("told")
    security = cri.LinuxContainerSecurityContext(
        masked_paths=["/etc/secret", "/home", "/no/such/path"], readonly_paths=["/tmp", "/proc/sys"]
    )
    seen = _seen(bench, security, "cat /etc/secret", "touch /tmp/f", "touch /root/f && echo wrote", "ls -a /home")
    assert "told" not in seen
    assert "/tmp/f: Read-only file system" in seen
    assert "wrote" in seen


@pytest.mark.parametrize("wanted", [True, False])
def test_no_new_privileges(bench: Bench, wanted: bool) -> None:
    """Set-user-id programs have no effect if asked."""
    assert _status(bench, cri.LinuxContainerSecurityContext(no_new_privs=wanted))["NoNewPrivs"] == str(int(wanted))


@pytest.mark.parametrize("readonly", [True, False])
def test_readonly_root(bench: Bench, readonly: bool) -> None:
    """A read-only root, the pod's files included; its /dev stays writable."""
    security = cri.LinuxContainerSecurityContext(readonly_rootfs=readonly)
    seen = _seen(
        bench, security, "touch /f && echo made", "echo x >> /etc/hosts && echo changed", "touch /dev/shm/f && echo shm"
    )
    assert ("made" in seen) is ("changed" in seen) is not readonly
    assert "shm" in seen


def test_a_command_in_a_running_container_has_its_rights(bench: Bench) -> None:
    """exec: the same user, groups, capabilities, filter, environment and directory."""
    security = cri.LinuxContainerSecurityContext(
        no_new_privs=True, seccomp=_PROFILE(profile_type=_PROFILE.RuntimeDefault), supplemental_groups=[7]
    )
    security.run_as_user.value = 1000
    spec: OciSpec = bench.spec(
        linux(
            security,
            command=["sleep", "600"],
            working_dir="/tmp",
            envs=[cri.KeyValue(key="GREETING", value=b"h\xc3\xa9")],
        )
    )
    with bench.running(spec) as container:
        commands = shell("id -u; id -G; pwd; echo $GREETING", "grep -E 'NoNew|Seccomp:|CapBnd' /proc/self/status")
        seen = container.exec(exec_process(container.config, commands, tty=False)).stdout.split()
        assert seen[0] == "1000"
        assert sorted(seen[1:4]) == ["1000", "50000", "7"]
        assert seen[4:6] == ["/tmp", "hé"]
        assert seen[-6:] == ["CapBnd:", "00000000a80425fb", "NoNewPrivs:", "1", "Seccomp:", "2"]
