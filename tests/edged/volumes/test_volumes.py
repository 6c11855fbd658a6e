"""Volumes hold the content that the pod specifies."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from beehive.files.removal import remove_tree
from edged.pods.config.downward import DownwardView
from edged.pods.paths import PodPaths
from edged.volumes import (
    Files,
    HostPath,
    MemoryMounts,
    MissingContentError,
    VolumeError,
    VolumePlan,
    plan_volume,
    set_up,
)
from edged.volumes.plan import EmptyDirectory
from modules.apimachinery.types import (
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    ResourceFieldSelector,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from modules.apimachinery.types.persistent import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    SecretReference,
    VolumeAttachment,
)
from tests.edged.pods.builders import UID, a_pod, at

SEC, NONE = "sec", "none"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a group needs root")


class Known:
    """A namespace with one configmap, one secret, and tokens for one audience."""

    def config_map(self, name: str) -> ConfigMap | None:
        if name == "both":
            return ConfigMap(data={"key": "text"}, binary_data={"key": b"binary"})
        return ConfigMap(data={"greeting": "hello"}, binary_data={"raw": b"\xff"}) if name == "cm" else None

    def secret(self, name: str) -> Secret | None:
        return Secret(data={"password": b"s3cr3t"}) if name == "sec" else None

    def token(self, wanted: ServiceAccountTokenProjection) -> str | None:
        return "eyJ" if wanted.audience == "" else None

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        return None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return None

    def attachment(self, name: str) -> VolumeAttachment | None:
        return None

    def csi_driver(self, name: str) -> CSIDriver | None:
        return None

    def secret_of(self, reference: SecretReference) -> Secret | None:
        return self.secret(reference.name)


def planned(volume: Volume, root: Path = Path("/root"), **pod: Any) -> VolumePlan:
    view = DownwardView(pod_ips=("10.0.0.1",))
    volume = replace(volume, name=volume.name or "v")
    return plan_volume(a_pod(meta={"labels": {"a": "b"}}, **pod), volume, PodPaths(root), Known(), view)


def files(volume: Volume) -> dict[str, tuple[bytes, int]]:
    plan = planned(volume)
    assert isinstance(plan, Files)
    return {path: (file.data, file.mode) for path, file in plan.payload.items()}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (Volume(config_map=ConfigMapVolumeSource(name="cm")), {"greeting": (b"hello", 0o644), "raw": (b"\xff", 0o644)}),
        (
            Volume(
                config_map=ConfigMapVolumeSource(
                    name="cm",
                    default_mode=0o440,
                    items=(KeyToPath(key="greeting", path="x/y", mode=0o600), KeyToPath(key="raw", path="r")),
                )
            ),
            {"x/y": (b"hello", 0o600), "r": (b"\xff", 0o440)},
        ),
        (Volume(config_map=ConfigMapVolumeSource(name="none", optional=True)), {}),
        (
            Volume(config_map=ConfigMapVolumeSource(name="cm", optional=True, items=(KeyToPath(key="no", path="p"),))),
            {},
        ),
        (Volume(secret=SecretVolumeSource(secret_name=SEC, default_mode=0)), {"password": (b"s3cr3t", 0)}),
        (Volume(secret=SecretVolumeSource(secret_name=SEC, default_mode=0o6755)), {"password": (b"s3cr3t", 0o755)}),
        (Volume(config_map=ConfigMapVolumeSource(name="both")), {"key": (b"binary", 0o644)}),
        (
            Volume(
                downward_api=DownwardAPIVolumeSource(
                    items=(
                        DownwardAPIVolumeFile(path="l", field_ref=ObjectFieldSelector(field_path="metadata.labels")),
                        DownwardAPIVolumeFile(
                            path="c",
                            mode=0o400,
                            resource_field_ref=ResourceFieldSelector(container_name="bb", resource="requests.cpu"),
                        ),
                    )
                )
            ),
            {"l": (b'a="b"', 0o644), "c": (b"0", 0o400)},
        ),
        (
            Volume(
                projected=ProjectedVolumeSource(
                    default_mode=0o600,
                    sources=(
                        VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token")),
                        VolumeProjection(
                            config_map=ConfigMapProjection(name="cm", items=(KeyToPath(key="raw", path="ca"),))
                        ),
                        VolumeProjection(secret=SecretProjection(name="none", optional=True)),
                        VolumeProjection(
                            downward_api=DownwardAPIProjection(
                                items=(
                                    DownwardAPIVolumeFile(
                                        path="namespace", field_ref=ObjectFieldSelector(field_path="metadata.namespace")
                                    ),
                                )
                            )
                        ),
                    ),
                )
            ),
            {"token": (b"eyJ", 0o600), "ca": (b"\xff", 0o600), "namespace": (b"default", 0o600)},
        ),
    ],
    ids=["all keys", "items", "optional object", "optional key", "secret", "mode", "both", "downward", "projected"],
)
def test_files_of_a_volume(volume: Volume, expected: dict[str, tuple[bytes, int]]) -> None:
    """Names, contents and modes are as Kubernetes defines them for each source."""
    assert files(volume) == expected


@pytest.mark.parametrize(
    ("volume", "message", "may_come"),
    [
        (Volume(config_map=ConfigMapVolumeSource(name="none")), "configmap not found: none", True),
        (Volume(secret=SecretVolumeSource(secret_name=NONE)), "secret not found: none", True),
        (
            Volume(secret=SecretVolumeSource(secret_name=SEC, items=(KeyToPath(key="k", path="p"),))),
            "secret references non-existent key: sec: k",
            True,
        ),
        (
            Volume(
                projected=ProjectedVolumeSource(
                    sources=(
                        VolumeProjection(service_account_token=ServiceAccountTokenProjection(audience="x", path="t")),
                    )
                )
            ),
            "no token for the service account: default",
            True,
        ),
        (
            Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c")),
            "cannot make the volume: v .persistentVolumeClaim",
            False,
        ),
        (
            Volume(name="v", ephemeral=EphemeralVolumeSource()),
            "cannot make the volume: v .persistentVolumeClaim",
            False,
        ),
        (Volume(name="v"), "cannot make the volume: v", False),
        (Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="HugePages")), "medium HugePages", False),
        (Volume(projected=ProjectedVolumeSource(sources=(VolumeProjection(),))), "cannot project", False),
        (Volume(host_path=HostPathVolumeSource(path="relative")), "host path: 'relative'", False),
        (Volume(host_path=HostPathVolumeSource(path="/a/../b")), "host path: '/a/../b'", False),
        (Volume(downward_api=DownwardAPIVolumeSource(items=(DownwardAPIVolumeFile(path="p"),))), "fieldRef", False),
    ],
)
def test_impossible_volume_is_named(volume: Volume, message: str, *, may_come: bool) -> None:
    """The error names the missing or unsupported part, and whether a retry may help."""
    with pytest.raises(VolumeError, match=message) as raised:
        planned(volume)
    assert isinstance(raised.value, MissingContentError) is may_come
    assert raised.value.retryable is may_come


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "..data", "..x/y", "a\0"])
def test_files_cannot_leave_their_volume(path: str) -> None:
    """A path out of the volume, or into its machinery, is refused."""
    with pytest.raises(VolumeError, match="cannot place a file"):
        files(Volume(config_map=ConfigMapVolumeSource(name="cm", items=(KeyToPath(key="raw", path=path),))))


def test_secrets_do_not_show_in_a_plan() -> None:
    """A plan that is logged shows sizes only."""
    assert "s3cr3t" not in repr(planned(Volume(secret=SecretVolumeSource(secret_name=SEC))))


def test_config_map_change_reaches_the_files(tmp_path: Path) -> None:
    """Set up twice with different content, the second is what readers find, at kubelet's place."""
    plan = planned(Volume(name="v", config_map=ConfigMapVolumeSource(name="cm")), tmp_path)
    assert isinstance(plan, Files)
    path = set_up(plan, at(0))
    assert path == tmp_path / "pods" / UID / "volumes/kubernetes.io~configmap/v"
    assert (path / "greeting").read_text() == "hello"
    changed = {**plan.payload, "greeting": type(plan.payload["greeting"])(b"bye")}
    set_up(Files(plan.path, changed), at(1))
    assert (path / "greeting").read_text() == "bye"


def mounting(*mounts: tuple[str, str, str]) -> Container:
    """A container with mounts: of a volume, at a path, of a path within the volume."""
    made = tuple(VolumeMount(name=name, mount_path=path, sub_path=sub) for name, path, sub in mounts)
    return Container(name="c", volume_mounts=made)


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([("v", "/etc/app", ""), ("e", "/etc/app/conf", "")], ("conf",)),
        ([("e", "/etc/app/a/b/", ""), ("v", "/etc//app/", "")], ("a/b",)),
        ([("v", "/a", ""), ("e", "/a/b", ""), ("w", "/a/b/c", "")], ("b",)),
        ([("v", "/a", ""), ("v", "/a/b", ""), ("e", "/a/b/c", "")], ("b", "c")),
        ([("v", "/a", ""), ("e", "/ab", ""), ("w", "/b", "")], ()),
        ([("v", "/a", "dir"), ("e", "/a/b", "")], ()),
        ([("v", "/a", ""), ("e", "/a/dir", "dir"), ("w", "/a/file", "key")], ("dir",)),
        ([("v", "/a", ""), ("e", "/a/../../etc/cron.d", ""), ("w", "/a/..data/x", "")], ()),
    ],
    ids=["one", "deep", "within another", "within itself", "beside", "of a part", "parts of others", "out of it"],
)
def test_other_mounts_have_their_directories_in_a_volume_of_files(
    mounts: list[tuple[str, str, str]], expected: tuple[str, ...]
) -> None:
    """A container runtime cannot make them, as the volume is read-only."""
    volumes = (
        Volume(name="v", config_map=ConfigMapVolumeSource(name="cm")),
        Volume(name="e", empty_dir=EmptyDirVolumeSource()),
        Volume(name="w", secret=SecretVolumeSource(secret_name=SEC)),
    )
    pod = a_pod(init=(mounting(*mounts),), volumes=volumes)
    plan = plan_volume(pod, volumes[0], PodPaths(Path("/edged")), Known(), DownwardView())
    assert isinstance(plan, Files)
    assert plan.mount_points == expected


def test_empty_dir_is_open_to_all_and_kept(tmp_path: Path) -> None:
    """Everybody may write despite the umask; setting up again keeps the content. Nothing of an agent that was killed
    while it made the directory is in it.
    """
    plan = planned(Volume(name="v", empty_dir=EmptyDirVolumeSource()), tmp_path)
    assert isinstance(plan, EmptyDirectory)
    (plan.path.with_name(f"..{plan.path.name}.new") / "half").mkdir(parents=True)
    path = set_up(plan, at(0))
    assert list(path.iterdir()) == []
    (path / "kept").touch()
    assert set_up(plan, at(1)) == path
    assert (path / "kept").exists()
    assert path.stat().st_mode & 0o7777 == 0o777


@needs_root
def test_group_owns_the_pods_own_volumes(tmp_path: Path) -> None:
    """With fsGroup the group can read files and write to emptyDir; setting up again changes nothing."""
    empty = set_up(planned(Volume(name="e", empty_dir=EmptyDirVolumeSource()), tmp_path), at(0), 4242)
    assert (empty.stat().st_gid, stat.S_IMODE(empty.stat().st_mode)) == (4242, 0o2777)
    plan = planned(Volume(name="s", secret=SecretVolumeSource(secret_name=SEC, default_mode=0o400)), tmp_path)
    path = set_up(plan, at(0), 4242, mounts := MemoryMounts())
    found = (path / "password").stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (4242, 0o440)
    version = (path / "..data").readlink()
    set_up(plan, at(9), 4242, mounts)
    assert (path / "..data").readlink() == version


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        ("", "missing", True),
        ("Directory", "directory", True),
        ("Directory", "file", False),
        ("Directory", "missing", False),
        ("DirectoryOrCreate", "missing/deep", True),
        ("DirectoryOrCreate", "file", False),
        ("File", "file", True),
        ("File", "directory", False),
        ("FileOrCreate", "missing", True),
        ("FileOrCreate", "directory", False),
        ("Socket", "socket", True),
        ("Socket", "file", False),
        ("CharDevice", "/dev/null", True),
        ("BlockDevice", "/dev/null", False),
        ("Nonsense", "file", False),
    ],
)
def test_host_path_is_checked(tmp_path: Path, kind: str, name: str, *, good: bool) -> None:
    """The required file exists, or is made if the type says so, or the pod gets an error."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    plan = HostPath(tmp_path / name, kind)
    if good:
        assert set_up(plan, at(0)) == plan.path
        assert plan.path.exists() or not kind
    else:
        with pytest.raises(VolumeError, match=r"hostPath type check failed|type 'Nonsense' is unknown"):
            set_up(plan, at(0))


def test_files_may_lie_as_deep_as_a_path_reaches(memory_path: Path) -> None:
    """A configmap's item names them; deeper ones are refused in the kernel's words."""
    deep = KeyToPath(key="greeting", path="a/" * 1500 + "file")
    plan = planned(Volume(name="v", config_map=ConfigMapVolumeSource(name="cm", items=(deep,))), memory_path)
    path = set_up(plan, at(0))
    assert (path / deep.path).read_text() == "hello"
    version = (path / "..data").readlink()
    set_up(plan, at(1))
    assert (path / "..data").readlink() == version
    remove_tree(path)
    deeper = KeyToPath(key="greeting", path="a/" * 3000 + "file")
    with pytest.raises(OSError, match="name too long"):
        set_up(planned(Volume(config_map=ConfigMapVolumeSource(name="cm", items=(deeper,))), memory_path), at(0))
