"""What a real container may do, seen from inside: the demands of critest's specs on security contexts."""

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
