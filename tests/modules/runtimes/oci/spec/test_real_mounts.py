"""Volumes, devices and namespaces of real containers, seen from inside."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec import ImageVolume
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.oci_runtime import Bench, mounted, shell
from tests.modules.runtimes.oci.spec.samples import IMAGE, linux


def _seen(bench: Bench, mounts: list[cri.Mount], *commands: str, devices: Sequence[cri.Device] = ()) -> str:
    done = bench.run(bench.spec(linux(command=shell(*commands), mounts=mounts, devices=devices)))
    return done.stdout + done.stderr


def test_the_usual_mounts(bench: Bench) -> None:
    """As Kubernetes has them: /sys and the control groups read-only, the pod's files, a /dev with the usual devices."""
    seen = _seen(
        bench, [], "cat /proc/mounts /etc/hostname /etc/hosts /etc/resolv.conf", "ls /dev", "echo x > /dev/null"
    )
    for line in ("proc /proc proc rw,nosuid,nodev,noexec", "sysfs /sys sysfs ro,nosuid,nodev,noexec"):
        assert line in seen
    assert re.search(r" /dev/shm \S+ rw,nosuid,nodev,noexec", seen)
    assert "mqueue /dev/mqueue mqueue" in seen
    for name in ("hostname", "hosts", "resolv.conf", "null", "zero", "full", "random", "urandom", "tty", "ptmx"):
        assert name in seen.split()


def test_nothing_can_be_written_among_the_control_groups(bench: Bench) -> None:
    """Of version 1 their directory is a tmpfs, and crun makes what is below a read-only mount of it writable."""
    try_all = "for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do mkdir $d/x && echo made $d; done"
    seen = _seen(bench, [], try_all, "cat /proc/mounts")
    assert "mkdir: can't create directory '/sys/fs/cgroup/x': Read-only file system" in seen
    assert "made" not in seen
    last = {line.split()[1]: line.split()[3].split(",") for line in seen.splitlines() if " /sys/fs/cgroup" in line}
    assert all({"ro", "nosuid", "nodev", "noexec"} <= {*options} for options in last.values())


def test_volumes_nested_linked_and_made(bench: Bench, tmp_path: Path) -> None:
    """An inner volume is on top of an outer one whatever their order, a link is followed, what is missing is made."""
    for name in ("outer", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    (tmp_path / "link").symlink_to("inner")
    mounts = [
        cri.Mount(container_path="/v/in/side", host_path=str(tmp_path / "link"), readonly=True),
        cri.Mount(container_path="/v", host_path=str(tmp_path / "outer")),
        cri.Mount(container_path="/new", host_path=str(tmp_path / "not/there")),
        cri.Mount(container_path="/etc/hosts", host_path=str(tmp_path / "outer/file")),
    ]
    seen = _seen(bench, mounts, "cat /v/file /v/in/side/file /etc/hosts", "touch /v/in/side/f", "touch /new/made")
    assert seen.split()[:3] == ["outer", "inner", "outer"]
    assert "/v/in/side/f: Read-only file system" in seen
    assert (tmp_path / "not/there/made").exists()


def test_a_termination_message(bench: Bench, tmp_path: Path) -> None:
    """A file of the machine in the container's own /dev, as edged mounts it, also with a read-only root."""
    (tmp_path / "message").touch()
    mount = cri.Mount(container_path="/dev/termination-log", host_path=str(tmp_path / "message"))
    security = cri.LinuxContainerSecurityContext(readonly_rootfs=True)
    done = bench.run(bench.spec(linux(security, command=shell("echo why > /dev/termination-log"), mounts=[mount])))
    assert (tmp_path / "message").read_text() == "why\n", done.stderr


def test_links_in_the_image_stay_inside(bench: Bench, tmp_path: Path) -> None:
    """A mount point below a link of the image is made in the image, never where the link leads on the machine."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (bench.rootfs / str(outside).strip("/")).mkdir(parents=True)
    (bench.rootfs / "run").mkdir()
    (bench.rootfs / "var").mkdir()
    (bench.rootfs / "var/run").symlink_to("../run")
    (bench.rootfs / "evil").symlink_to(outside)
    (bench.rootfs / "climb").symlink_to("../" * 20 + str(outside).strip("/"))
    mounts = [
        cri.Mount(container_path=f"{path}/secrets", host_path=str(bench.files.shm))
        for path in ("/var/run", "/evil", "/climb")
    ]
    seen = _seen(bench, mounts, "touch /var/run/secrets/f", "ls /run/secrets /evil/secrets /climb/secrets")
    assert seen.count("f\n") == 3
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("target", ["/run", "../run", "/gone/deep"])
def test_a_mount_point_below_a_link_to_nothing(bench: Bench, target: str) -> None:
    """An image with /var/run -> /run, and no /run: the service account is found all the same."""
    (bench.rootfs / "var").mkdir()
    (bench.rootfs / "var/run").symlink_to(target)
    (bench.files.shm / "token").touch()
    mounts = [cri.Mount(container_path="/var/run/secrets/kubernetes.io", host_path=str(bench.files.shm))]
    assert "token" in _seen(bench, mounts, "ls /var/run/secrets/kubernetes.io")


def test_a_volume_at_dev(bench: Bench, tmp_path: Path) -> None:
    """It replaces all of /dev, and no device is made in it that the machine's directory did not have."""
    (tmp_path / "devices").mkdir()
    mounts = [cri.Mount(container_path="/dev", host_path=str(tmp_path / "devices"))]
    assert "tmpfs" not in _seen(bench, mounts, "grep ' /dev ' /proc/mounts")


def test_propagation_that_the_machine_does_not_have(bench: Bench, tmp_path: Path) -> None:
    """Refused at CreateContainer: the volume's mount is private."""
    with mounted(tmp_path / "volume") as volume:
        for propagation in (cri.PROPAGATION_HOST_TO_CONTAINER, cri.PROPAGATION_BIDIRECTIONAL):
            mount = cri.Mount(container_path="/v", host_path=str(volume), propagation=propagation)
            with pytest.raises(WrongStateError, match=r"is mounted on .* but it is not a shared"):
                bench.spec(linux(command=["true"], mounts=[mount]))


def test_image_volumes(bench: Bench, tmp_path: Path) -> None:
    """Read-only, programs run, a path inside is resolved inside, the status has the image's id."""
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    (image / "bin/busybox").write_bytes((bench.rootfs / "bin/busybox").read_bytes())
    (image / "bin/busybox").chmod(0o755)
    (image / "tools").symlink_to("/bin")
    volumes = {"tools:1": ImageVolume(image, "sha256:abc")}
    wanted = cri.Mount(container_path="/v", readonly=True, image=cri.ImageSpec(image="tools:1"), image_sub_path="tools")
    spec = bench.spec(linux(command=shell("/v/busybox echo ran", "touch /v/f"), mounts=[wanted]), volumes=volumes)
    done = bench.run(spec)
    assert done.stdout == "ran\n"
    assert "Read-only file system" in done.stderr
    assert spec.mounts[0].image.image_ref == "sha256:abc"
    wanted.image_sub_path = "no/such"
    with pytest.raises(BadRequestError, match="no/such"):
        bench.spec(linux(command=["true"], mounts=[wanted]), volumes=volumes)


def test_devices(bench: Bench, tmp_path: Path) -> None:
    """A device under another name with part of its permissions, and a directory of devices with all of them."""
    for name, number in (("sub/a", "1 5"), ("b", "1 7")):
        (tmp_path / "dir" / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(("mknod", tmp_path / "dir" / name, "c", *number.split()), check=True)
    subprocess.run(("mknod", tmp_path / "disk", "b", "250", "9"), check=True)
    devices = [
        cri.Device(container_path="/dev/mine", host_path=str(tmp_path / "disk"), permissions="m"),
        cri.Device(container_path="/dev/all", host_path=str(tmp_path / "dir"), permissions="rw"),
    ]
    commands = (
        "ls -l /dev/mine",
        "ls /dev/all /dev/all/sub",
        "dd if=/dev/all/sub/a bs=1 count=1 of=/tmp/z && echo read",
    )
    seen = _seen(bench, [], *commands, "cat /dev/mine", devices=devices)
    assert "250,   9" in seen
    assert {"a", "b", "sub", "read"} <= set(seen.split())
    assert "open '/dev/mine': Operation not permitted" in seen


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
def test_an_image_whose_mount_points_are_links(bench: Bench, name: str) -> None:
    """Refused: crun 1.8 follows the link out of the container."""
    (bench.rootfs / name).rmdir()
    (bench.rootfs / name).symlink_to("/tmp")
    with pytest.raises(BadRequestError, match=f"/{name} of the image is no directory"):
        bench.spec(linux(command=["true"]), image=IMAGE)
