"""The volumes of a container at an image's declared paths."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec import check_container, container_spec, declared_volumes
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import FILES, ID, IMAGE, PATHS, UNIFIED, linux, mount_at, request


def _declared(*paths: str, mounts: tuple[str, ...] = ()) -> tuple[str, ...]:
    config = linux(mounts=[cri.Mount(container_path=path, host_path="/srv") for path in mounts])
    return declared_volumes("create it", config, replace(IMAGE, volumes=paths))


def test_at_its_paths() -> None:
    """Each once, however it is written."""
    assert _declared("/data", "/data/", "logs//new", "/data/db") == ("/data", "/data/db", "/logs/new")
    assert _declared() == ()


def test_not_where_something_is_mounted() -> None:
    """A volume of the pod at the same path, files of the sandbox, file systems of the kernel."""
    assert _declared("/data", "/logs", mounts=("/data/", "/logs/below")) == ("/logs",)
    assert _declared("/proc", "/sys/fs/cgroup", "/dev/shm", "/etc/hosts", "/development") == ("/development",)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (("/",), 'the volume "/"'),
        (("",), 'the volume "/"'),
        (("/a/../b",), "is not absolute or has"),
        (("/a\0b",), "NUL"),
        (("/" + "a" * 300,), "too long"),
        (("/a" * 100,), "deeper than 64"),
        (tuple(f"/v{number}" for number in range(101)), "declares 101 volumes"),
    ],
)
def test_an_image_with_impossible_ones(paths: tuple[str, ...], reason: str) -> None:
    """The container is refused at its creation."""
    with pytest.raises(BadRequestError, match=reason):
        check_container(request(), replace(IMAGE, volumes=paths), UNIFIED)


def test_the_mounts(tmp_path: Path) -> None:
    """Writable, also with a read-only root, and without devices and set-user-id programs; outer ones come first."""
    config = linux(cri.LinuxContainerSecurityContext(readonly_rootfs=True))
    config.mounts.add(container_path="/data/db/more", host_path=str(tmp_path))
    declared = {"/data/db": Path("/c/1"), "/data": Path("/c/0")}
    made = container_spec(
        request(config), IMAGE, tmp_path, PATHS, FILES, UNIFIED, container_id=ID, declared=declared
    ).config
    assert mount_at(made, "/data") == {
        "destination": "/data", "type": "bind", "source": "/c/0",
        "options": ["rbind", "rprivate", "rw", "nosuid", "nodev"],
    }  # fmt: skip
    ours = [mount["destination"] for mount in made["mounts"] if mount["destination"].startswith("/data")]
    assert ours == ["/data", "/data/db", "/data/db/more"]
