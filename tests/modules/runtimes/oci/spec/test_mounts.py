"""The list of mounts, and mounts that are refused."""

from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError, NotProvidedError, RequestRefusedError, WrongStateError
from modules.runtimes.oci.spec import CgroupLayout, Json, Machine, check_container
from modules.runtimes.oci.spec.mount_checks import MountTable, Propagation
from modules.runtimes.oci.spec.mounts import mount_point
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import IMAGE, UNIFIED, linux, mount_at, request, translated

_KERNEL = ["/proc", "/dev", "/dev/pts", "/dev/mqueue", "/sys", "/sys/fs/cgroup"]
_SANDBOX = ["/dev/shm", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf"]


def _mount(path: str, host: Path, **fields: object) -> cri.Mount:
    return cri.Mount(container_path=path, host_path=str(host), **fields)  # type: ignore[arg-type]


def _config(tmp_path: Path, *mounts: cri.Mount, security: cri.LinuxContainerSecurityContext | None = None) -> Json:
    is_privileged = security is not None and security.privileged
    return translated(linux(security, mounts=mounts), tmp_path, privileged=is_privileged).config


def _destinations(config: Json) -> list[str]:
    return [mount["destination"] for mount in config["mounts"]]


def test_the_usual_mounts(tmp_path: Path) -> None:
    """The kernel's first, then the sandbox's; /sys and control groups writable for privileged containers only."""
    config = _config(tmp_path)
    assert _destinations(config) == [*_KERNEL, "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/dev/shm"]
    assert "rootfsPropagation" not in config["linux"]
    for path in ("/sys", "/sys/fs/cgroup"):
        assert mount_at(config, path)["options"][-1] == "ro"
        privileged = _config(tmp_path, security=cri.LinuxContainerSecurityContext(privileged=True))
        assert mount_at(privileged, path)["options"][-1] == "rw"


def test_a_privileged_container_leaves_the_machines_control_groups_as_they_are(tmp_path: Path) -> None:
    """A new mount of version 2 in the machine's cgroup namespace would change the options of the machine's mount."""
    security = cri.LinuxContainerSecurityContext(privileged=True)
    options = ["nosuid", "noexec", "nodev", "relatime", "rw"]
    assert mount_at(_config(tmp_path, security=security), "/sys/fs/cgroup") == {
        "destination": "/sys/fs/cgroup",
        "type": "bind",
        "source": "/sys/fs/cgroup",
        "options": ["rbind", "rprivate", *options],
    }
    older = replace(UNIFIED, cgroup_layout=CgroupLayout.LEGACY)
    mount = mount_at(translated(linux(security), tmp_path, machine=older, privileged=True).config, "/sys/fs/cgroup")
    assert (mount["type"], mount["options"]) == ("cgroup", options)


def test_the_directory_of_control_groups_of_version_1_is_read_only(tmp_path: Path) -> None:
    """It is a tmpfs of its own, which OCI runtimes leave writable. Not for privileged containers, not where the kernel
    cannot do it without making the groups writable, and not with volumes there.
    """
    older = replace(UNIFIED, cgroup_layout=CgroupLayout.HYBRID)

    def found(config: cri.ContainerConfig, machine: Machine = older) -> list[tuple[str, object]]:
        is_privileged = config.linux.security_context.privileged
        made = translated(config, tmp_path, machine=machine, privileged=is_privileged).config["mounts"]
        return [(each["type"], each["options"]) for each in made if each["destination"] == "/sys/fs/cgroup"]

    groups = ("cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"])
    closed = ("bind", ["rbind", "rprivate", "rro", "rnosuid", "rnoexec", "rnodev"])
    assert found(linux()) == [groups, closed]
    made = translated(linux(), tmp_path, machine=older).config["mounts"]
    assert next(each["source"] for each in made if each["type"] == "bind") == f"{tmp_path}/sys/fs/cgroup"
    assert found(linux(), UNIFIED) == found(linux(), replace(older, kernel=(4, 19))) == [groups]
    assert len(found(linux(cri.LinuxContainerSecurityContext(privileged=True)))) == 1
    assert found(linux(mounts=[_mount("/sys/fs/cgroup/v", tmp_path)])) == [groups]
    users = cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.POD))
    assert found(linux(cri.LinuxContainerSecurityContext(namespace_options=users))) == [groups]
    assert found(linux(mounts=[_mount("/sys/fs/cgroup", tmp_path)])) == [("bind", ["rbind", "rprivate", "rw"])]


def test_the_sandboxs_files(tmp_path: Path) -> None:
    """Read-only with a read-only root, /dev/shm never; with the machine's IPC its own /dev/shm. What one container of
    the pod puts there is no set-user-id program for another.
    """
    options = cri.NamespaceOption(ipc=cri.NODE, pid=cri.CONTAINER)
    security = cri.LinuxContainerSecurityContext(readonly_rootfs=True, namespace_options=options)
    config = _config(tmp_path, security=security)
    assert mount_at(config, "/etc/hosts") == {
        "destination": "/etc/hosts", "type": "bind", "source": "/sb/hosts", "options": ["rbind", "rprivate", "ro"],
    }  # fmt: skip
    assert mount_at(config, "/dev/shm")["source"] == "/dev/shm"
    assert mount_at(config, "/dev/shm")["options"] == ["rbind", "rprivate", "rw", "nosuid", "nodev"]
    own = mount_at(_config(tmp_path), "/dev/shm")
    assert (own["source"], own["options"][-3:]) == ("/sb/shm", ["nosuid", "nodev", "noexec"])


def test_a_volume_replaces_a_usual_mount(tmp_path: Path) -> None:
    """At the same path, and all that would be below it."""
    config = _config(tmp_path, _mount("/dev/", tmp_path), _mount("/sys", tmp_path), _mount("/etc//hosts", tmp_path))
    found = _destinations(config)
    assert found == ["/proc", "/dev", "/sys", "/etc/hostname", "/etc/resolv.conf", "/etc/hosts"]
    assert mount_at(config, "/dev")["source"] == str(tmp_path)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, ["rbind", "rprivate", "rw"]),
        ({"readonly": True}, ["rbind", "rprivate", "ro"]),
        ({"readonly": True, "recursive_read_only": True}, ["rbind", "rprivate", "rro"]),
        ({"propagation": cri.PROPAGATION_HOST_TO_CONTAINER}, ["rbind", "rslave", "rw"]),
        ({"propagation": cri.PROPAGATION_BIDIRECTIONAL, "readonly": True}, ["rbind", "rshared", "ro"]),
        ({"mount_options": ["noexec"]}, ["rbind", "rprivate", "rw", "noexec"]),
    ],
)
def test_options(tmp_path: Path, fields: dict[str, object], options: list[str]) -> None:
    """Propagation and access of a volume; the container's status tells the mount as it was asked for."""
    mount = _mount("/v", tmp_path, **fields)
    spec = translated(linux(mounts=[mount]), tmp_path)
    assert mount_at(spec.config, "/v")["options"] == options
    assert spec.mounts == (mount,)


def test_propagation_of_the_root(tmp_path: Path) -> None:
    """The root lets through what its volumes must."""
    inwards = _mount("/a", tmp_path, propagation=cri.PROPAGATION_HOST_TO_CONTAINER)
    both = _mount("/b", tmp_path, propagation=cri.PROPAGATION_BIDIRECTIONAL)
    assert _config(tmp_path, inwards)["linux"]["rootfsPropagation"] == "rslave"
    assert _config(tmp_path, inwards, both)["linux"]["rootfsPropagation"] == "rshared"


_NAMES = st.sampled_from(("a", "b", "dev", "etc", "hosts", "sys", "."))
_PATHS = st.lists(_NAMES, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))


@given(paths=st.lists(_PATHS, max_size=8))
def test_no_volume_hides_another(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> None:
    """Each volume is there, an outer one before an inner one, and no usual mount hides a volume."""
    top = tmp_path_factory.getbasetemp()
    wanted = [path for path in paths if path.replace("/.", "")]
    found = _destinations(_config(top, *(_mount(path, top) for path in wanted)))
    volumes = ["/" + "/".join(part for part in path.split("/") if part not in ("", ".")) for path in wanted]
    assert sorted(path for path in found if path in volumes) == sorted(volumes)
    for first, path in enumerate(found):
        assert not any(path.startswith(f"{later}/") for later in found[first + 1 :])


def test_links_are_followed_and_missing_directories_are_made(tmp_path: Path) -> None:
    """On the machine, as root."""
    (tmp_path / "link").symlink_to("target/deep")
    config = _config(tmp_path, _mount("/v", tmp_path / "link"))
    assert mount_at(config, "/v")["source"] == str(tmp_path / "target/deep")
    assert (tmp_path / "target/deep").is_dir()


def test_a_host_path_that_cannot_be_made(tmp_path: Path) -> None:
    """Below a file."""
    (tmp_path / "file").touch()
    with pytest.raises(WrongStateError, match="cannot be made"):
        _config(tmp_path, _mount("/v", tmp_path / "file/below"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/plain/x", "/plain/x"),
        ("/there/x", "/there/x"),
        ("/gone/x/y", "/no/such/x/y"),
        ("/up/x", "/no/x"),
        ("/chain/x", "/no/such/x"),
        ("/loop/x", "/loop/x"),
        ("/back/x/y", "/else/x/y"),
        ("/plain/deep/near/x", "/plain/no/x"),
        ("/plain/far/x", "/no/x"),
        ("/gone", "/gone"),
        ("/file/x", "/file/x"),
    ],
)
def test_mount_points_below_links(tmp_path: Path, path: str, expected: str) -> None:
    """Only where the image lacks what a link leads to is the mount point named without links; never outside."""
    (tmp_path / "plain" / "deep").mkdir(parents=True)
    (tmp_path / "file").touch()
    links = {
        "plain/deep/near": "./../no",
        "plain/far": "/no",
        "there": "/plain",
        "gone": "/no/such",
        "up": "../../../no",
        "chain": "gone",
        "loop": "loop",
        "back": "no/../else",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    assert mount_point(tmp_path, path) == expected


def test_links_that_a_volume_hides_lead_nowhere(tmp_path: Path) -> None:
    """What is mounted below the volume is where the volume has it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to("/gone")
    config = _config(tmp_path, _mount("/data", tmp_path), _mount("/data/link/x", tmp_path))
    assert mount_at(config, "/data/link/x")["source"] == str(tmp_path)


_PIECES = st.lists(st.sampled_from(("a", "b", "..", ".", "", "c")), max_size=5).map("/".join)


@given(targets=st.dictionaries(st.sampled_from(("a", "b")), _PIECES), path=_PATHS)
def test_mount_points_stay_inside(tmp_path_factory: pytest.TempPathFactory, targets: dict[str, str], path: str) -> None:
    """Whatever links the image has: an absolute path without "..", in time."""
    root = tmp_path_factory.mktemp("links")
    for name, target in targets.items():
        (root / name).symlink_to(target or "/")
    found = mount_point(root, path)
    assert found.startswith("/")
    assert ".." not in found.split("/")


_IMAGE = cri.ImageSpec(image="i:1")


@pytest.mark.parametrize(
    ("mount", "kind"),
    [
        (cri.Mount(container_path="/", host_path="/v"), BadRequestError),
        (cri.Mount(container_path="/./", host_path="/v"), BadRequestError),
        (cri.Mount(container_path="v", host_path="/v"), BadRequestError),
        (cri.Mount(container_path="/a/../v", host_path="/v"), BadRequestError),
        (cri.Mount(container_path="/v", host_path="v"), BadRequestError),
        (cri.Mount(container_path="/v", host_path=""), BadRequestError),
        (cri.Mount(container_path="/v\0", host_path="/v"), BadRequestError),
        (cri.Mount(container_path="/v" * 2048, host_path="/v"), BadRequestError),
        (cri.Mount(container_path="/v", host_path="/" + "v" * 256), BadRequestError),
        (cri.Mount(container_path="/v", host_path="/v", propagation=7), BadRequestError),  # type: ignore[arg-type]
        (cri.Mount(container_path="/v", host_path="/v", recursive_read_only=True), BadRequestError),
        (
            cri.Mount(
                container_path="/v",
                host_path="/v",
                recursive_read_only=True,
                readonly=True,
                propagation=cri.PROPAGATION_HOST_TO_CONTAINER,
            ),
            BadRequestError,
        ),
        (cri.Mount(container_path="/v", host_path="/v", mount_options=["bind,suid"]), NotProvidedError),
        (cri.Mount(container_path="/v", host_path="/v", uidMappings=[cri.IDMapping(length=1)]), NotProvidedError),
        (cri.Mount(container_path="/v", image=_IMAGE), BadRequestError),
        (cri.Mount(container_path="/v", image=_IMAGE, readonly=True, host_path="/x"), BadRequestError),
        (cri.Mount(container_path="/v", image=_IMAGE, readonly=True, image_sub_path="/x"), BadRequestError),
        (cri.Mount(container_path="/v", image=_IMAGE, readonly=True, image_sub_path="a/../.."), BadRequestError),
    ],
)  # fmt: skip
def test_mounts_that_are_refused(mount: cri.Mount, kind: type[RequestRefusedError]) -> None:
    """When the container is made, before anything is mounted."""
    with pytest.raises(kind):
        check_container(request(linux(mounts=[mount])), IMAGE, UNIFIED)


def test_many_deep_mounts_are_linear_work(tmp_path: Path) -> None:
    """4,096 mounts of 64 directories each take a second of processor time; more of either are refused."""
    deep = "/" + "/".join(["d" * 50] * 63)
    mounts = [cri.Mount(container_path=f"{deep}/{number}", host_path="/") for number in range(4096)]
    config = linux(mounts=mounts)
    began = thread_time()
    check_container(request(config), IMAGE, UNIFIED)
    assert len(translated(config, tmp_path).config["mounts"]) == 4096 + len(_KERNEL) + len(_SANDBOX)
    assert thread_time() - began < 10
    for more in (
        cri.Mount(container_path=f"{deep}/a/b", host_path="/"),
        cri.Mount(container_path="/a", host_path=deep + "/a/b"),
    ):
        with pytest.raises(BadRequestError, match="deeper than 64"):
            check_container(request(linux(mounts=[more])), IMAGE, UNIFIED)
    with pytest.raises(BadRequestError, match="the most are 4096"):
        check_container(request(linux(mounts=[*mounts, mounts[0]])), IMAGE, UNIFIED)


def test_owners_of_a_volume_are_mapped_as_the_users_of_its_pod() -> None:
    """Neither users nor groups in another way."""
    ours, other = [cri.IDMapping(host_id=9000, length=9)], [cri.IDMapping(host_id=1, length=9)]
    options = cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.POD, uids=ours, gids=ours))
    config = linux(cri.LinuxContainerSecurityContext(namespace_options=options))
    machine = replace(UNIFIED, user_namespaces=True)
    config.mounts.add(container_path="/v", host_path="/v", uidMappings=ours, gidMappings=ours)
    check_container(request(config), IMAGE, machine)
    for users, groups in ((ours, other), (other, ours)):
        wrong = cri.Mount(container_path="/v", host_path="/v", uidMappings=users, gidMappings=groups)
        config.mounts[0].CopyFrom(wrong)
        with pytest.raises(NotProvidedError, match="id mappings"):
            check_container(request(config), IMAGE, machine)


def test_an_old_kernel_has_no_recursive_read_only() -> None:
    """mount_setattr came with Linux 5.12."""
    config = linux(mounts=[cri.Mount(container_path="/v", host_path="/v", readonly=True, recursive_read_only=True)])
    for kernel in (UNIFIED.kernel, (5, 12)):
        check_container(request(config), IMAGE, replace(UNIFIED, kernel=kernel))
    with pytest.raises(WrongStateError, match=r"5\.12"):
        check_container(request(config), IMAGE, replace(UNIFIED, kernel=(5, 10)))


def test_an_image_volume_that_is_not_mounted(tmp_path: Path) -> None:
    """The engine mounts it before."""
    with pytest.raises(WrongStateError, match="is not mounted"):
        _config(tmp_path, cri.Mount(container_path="/v", image=_IMAGE, readonly=True))


_TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /plain rw - tmpfs tmpfs rw
31 22 0:26 / /with\\040blank rw master:4 - tmpfs tmpfs rw
32 22 0:27 / /both rw shared:9 master:4 - tmpfs tmpfs rw
33 22 0:28 / /plain/over rw shared:5 - tmpfs tmpfs rw
34 33 0:29 / /plain/over rw - tmpfs tmpfs rw
35 22 0:30 / /with\x0bfeed rw - tmpfs tmpfs rw
broken
"""


@pytest.mark.parametrize(
    ("path", "point", "kinds"),
    [
        ("/", "/", Propagation.SHARED),
        ("/etc/x", "/", Propagation.SHARED),
        ("/plain", "/plain", Propagation.PRIVATE),
        ("/plain/a/b", "/plain", Propagation.PRIVATE),
        ("/plainer", "/", Propagation.SHARED),
        ("/with blank/x", "/with blank", Propagation.SLAVE),
        ("/with\x0bfeed/x", "/with\x0bfeed", Propagation.PRIVATE),
        ("/both", "/both", Propagation.SHARED | Propagation.SLAVE),
        ("/plain/over/x", "/plain/over", Propagation.PRIVATE),
    ],
)
def test_the_mount_of_a_path(path: str, point: str, kinds: Propagation) -> None:
    """The nearest mount point above; of two at one place the upper one."""
    assert MountTable(_TABLE).mount_of(path) == (point, kinds)


def test_propagation_must_be_possible(tmp_path: Path) -> None:
    """Out of the container only from a shared mount, into it from a shared or slave one; the error names both paths."""
    (tmp_path / "table").write_text(_TABLE.replace("/plain/over", "/x").replace("/with\\040blank", "/slave"))
    machine = replace(UNIFIED, mountinfo=tmp_path / "table")

    def check(host: str, propagation: "cri.MountPropagation.ValueType") -> None:
        mount = cri.Mount(container_path="/v", host_path=host, propagation=propagation)
        check_container(request(linux(mounts=[mount])), IMAGE, machine)

    check("/slave/v", cri.PROPAGATION_HOST_TO_CONTAINER)
    check("/v", cri.PROPAGATION_BIDIRECTIONAL)
    told = 'path "/slave/v" is mounted on "/slave" but it is not a shared mount'
    with pytest.raises(WrongStateError, match=told):
        check("/slave/v", cri.PROPAGATION_BIDIRECTIONAL)
    (tmp_path / "link").symlink_to("/plain/v")
    for host in ("/plain/v", str(tmp_path / "link")):
        with pytest.raises(WrongStateError, match="not a shared or slave mount"):
            check(host, cri.PROPAGATION_HOST_TO_CONTAINER)
