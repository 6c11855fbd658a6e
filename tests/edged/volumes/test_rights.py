"""Access rights of volumes, and volumes that must never be on the disk."""

import os
import stat
from pathlib import Path

import pytest

from edged.pods.config.downward import DownwardView
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes import Files, MemoryMounts, PodVolumes, VolumeError, VolumeFile, resolve_sub_path, set_up
from edged.volumes.mounting import is_mounted, points_below
from edged.volumes.ownership import owner_of
from edged.volumes.payload import projected_payload
from modules.apimachinery.types import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    Nanoseconds,
    Pod,
    PodSecurityContext,
    ProjectedVolumeSource,
    SecretVolumeSource,
    SecurityContext,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from tests.edged.pods.builders import UID, a_container, a_pod, at
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end
from tests.edged.volumes.test_volumes import SEC, Known, needs_root, planned


@needs_root
@pytest.mark.parametrize("medium", ["", "Memory"])
def test_a_container_may_change_the_mode_of_its_volume(tmp_path: Path, medium: str) -> None:
    """postgres wants its directory to be closed to others; it was opened again at each turn, while it ran."""
    plan = planned(Volume(name="e", empty_dir=EmptyDirVolumeSource(medium=medium)), tmp_path)
    path = set_up(plan, at(0), 4242, mounts := MemoryMounts())
    os.chown(path, 1000, 1000)
    path.chmod(0o700)
    set_up(plan, at(1), 4242, mounts)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1000, 1000, 0o700)


@needs_root
def test_a_volume_that_a_crash_left_half_made_is_given_to_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its name only when it is complete."""
    plan = planned(Volume(name="e", empty_dir=EmptyDirVolumeSource()), tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "chown", killed)
        with pytest.raises(KeyboardInterrupt):
            set_up(plan, at(0), 4242)
    assert not plan.path.exists()
    assert set_up(plan, at(0), 4242).stat().st_gid == 4242
    assert [path.name for path in plan.path.parent.iterdir()] == ["e"]


TOKEN = VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token"))


def _runs_as(*users: int | None, pod: int | None = None, group: int | None = None) -> Pod:
    """A pod with an init container and others, of these users."""
    init, *others = (
        a_container(f"c{number}", security_context=None if user is None else SecurityContext(run_as_user=user))
        for number, user in enumerate(users)
    )
    return a_pod(*others, init=(init,), security_context=PodSecurityContext(run_as_user=pod, fs_group=group))


@pytest.mark.parametrize(
    ("pod", "mode", "owner"),
    [
        (_runs_as(None, None), 0o644, None),
        (_runs_as(1000, None), 0o644, None),
        (_runs_as(1000, 1001), 0o644, None),
        (_runs_as(1000, 1000), 0o600, 1000),
        (_runs_as(None, 1000, pod=1000), 0o600, 1000),
        (_runs_as(None, 0, pod=1000), 0o644, None),
        (_runs_as(None, None, group=7), 0o600, None),
        (_runs_as(1000, 1000, group=7), 0o600, 1000),
    ],
    ids=["nobody says", "one says", "they differ", "all", "by the pod", "one differs", "a group", "both"],
)
def test_a_token_has_the_audience_of_the_pods_volume(pod: Pod, mode: int, owner: int | None) -> None:
    """As a kubelet gives it (projectedVolumeMounter); other files of the volume have the volume's mode."""
    sources = (TOKEN, VolumeProjection(config_map=ConfigMapProjection(name="cm")))
    made = projected_payload(pod, ProjectedVolumeSource(sources=sources), Known(), DownwardView())
    assert (made["token"].mode, made["token"].owner) == (mode, owner)
    assert (made["greeting"].mode, made["greeting"].owner) == (0o644, None)
    closed = projected_payload(pod, ProjectedVolumeSource(sources=(TOKEN,), default_mode=0), Known(), DownwardView())
    assert closed["token"].mode == (mode if mode == 0o600 else 0), "only its user has to be able to read it"


@needs_root
def test_a_token_on_the_node_belongs_to_the_containers_user_and_the_group(tmp_path: Path) -> None:
    """0600 of its user; the group may read it, too. What an agent before this one left open is closed."""
    projected = Volume(name="p", projected=ProjectedVolumeSource(sources=(TOKEN,)))
    plan = planned(projected, tmp_path, security_context=PodSecurityContext(run_as_user=1000))
    assert isinstance(plan, Files)
    mounts = MemoryMounts()
    set_up(Files(plan.path, {"token": VolumeFile(b"eyJ")}, plan.memory), at(0), None, mounts)
    path = set_up(plan, at(1), None, mounts)
    found = (path / "token").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (1000, 0o600)
    found = (set_up(plan, at(2), 4242, mounts) / "token").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1000, 4242, 0o640)
    version = (path / "..data").readlink()
    set_up(plan, at(3), 4242, mounts)
    assert (path / "..data").readlink() == version


_IN_MEMORY = (
    Volume(name="s", secret=SecretVolumeSource(secret_name="sec")),  # noqa: S106 - a name
    Volume(name="p", projected=ProjectedVolumeSource(sources=(TOKEN,))),
    Volume(name="d", downward_api=DownwardAPIVolumeSource()),
)
_ON_DISK = Volume(name="c", config_map=ConfigMapVolumeSource(name="cm"))


@needs_mounts
def test_secrets_tokens_and_facts_are_in_memory_and_configmaps_on_the_disk(tmp_path: Path) -> None:
    """As with a kubelet. Mounted once, found again by another agent, gone with the pod."""
    pod = a_pod(volumes=(*_IN_MEMORY, _ON_DISK))
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        paths = PodPaths(tmp_path)
        made = PodVolumes(paths, mounts).prepare(pod, Known(), Nanoseconds(0))
        again = PodVolumes(paths, mounts)
        assert again.prepare(pod, Known(), Nanoseconds(1)) == made
        assert sorted(points_below(mounts, tmp_path)) == sorted(made[name] for name in "spd")
        assert (made["s"] / "password").read_bytes() == b"s3cr3t"
        found = [
            path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_dev == tmp_path.stat().st_dev
        ]
        assert {path.name for path in found} == {"greeting", "raw"}
        again.remove(PodUid(UID))
        assert not any(is_mounted(mounts, path) for path in made.values())
        assert list(made["s"].iterdir()) == []


class _Forbidden(MemoryMounts):
    """Of an agent that is not root."""

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:
        raise VolumeError("mount memory", str(target), "mounting needs root") from PermissionError()


def test_without_the_right_to_mount_secrets_are_on_the_disk(tmp_path: Path) -> None:
    mounts = _Forbidden()
    path = set_up(planned(_IN_MEMORY[0], tmp_path), at(0), None, mounts)
    assert (path / "password").read_bytes() == b"s3cr3t"
    assert mounts.mounted == []


def test_a_former_agents_files_stay_where_its_containers_see_them(tmp_path: Path) -> None:
    """A mount over it would hide what follows from them."""
    plan = planned(_IN_MEMORY[0], tmp_path)
    assert isinstance(plan, Files)
    set_up(Files(plan.path, {"password": VolumeFile(b"former")}), at(0))
    mounts = MemoryMounts()
    assert (set_up(plan, at(1), None, mounts) / "password").read_bytes() == b"s3cr3t"
    assert mounts.mounted == []


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o3777, 0o755])
def test_a_directory_made_for_a_sub_path_is_as_open_as_its_volume(tmp_path: Path, mode: int) -> None:
    """It was root's alone: a container of another user could not write to it."""
    volume = tmp_path / "volume"
    volume.mkdir()
    if os.geteuid() == 0:
        os.chown(volume, -1, 4242)
    volume.chmod(mode)
    before = os.umask(0o077)
    try:
        made = resolve_sub_path(volume, "a/b")
    finally:
        os.umask(before)
    assert made == volume / "a" / "b"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent)} == {mode}
    if mode & stat.S_ISGID:
        assert {path.stat().st_gid for path in (made, made.parent)} == {volume.stat().st_gid}


@pytest.mark.parametrize("links", [60, 1500])
def test_a_chain_of_links_is_refused(tmp_path: Path, links: int) -> None:
    """The kernel follows forty; a container can make it longer than a function can call itself."""
    for number in range(links):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}")
    with pytest.raises(VolumeError, match="too many links"):
        resolve_sub_path(tmp_path, "l0")


class RootsMounts(MemoryMounts):
    """Memory is its mounter's, whoever has the directory below it."""

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:
        """See `Mounts`."""
        super().tmpfs(target, size, mode=mode, group=group)
        os.chown(target, 0, group)


@needs_root
@pytest.mark.parametrize("group", [None, 4242])
@pytest.mark.parametrize(
    "volume",
    [
        Volume(name="v", empty_dir=EmptyDirVolumeSource()),
        Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory")),
        Volume(name="v", config_map=ConfigMapVolumeSource(name="cm")),
        Volume(name="v", secret=SecretVolumeSource(secret_name=SEC, default_mode=0o400)),
    ],
    ids=["emptyDir", "memory", "configMap", "secret"],
)
def test_without_root_a_volume_is_the_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volume: Volume, group: int | None
) -> None:
    """Its root is a sub-id of the user; a file that is the user's own would be nobody's there, and closed if its mode
    is 0400.
    """
    monkeypatch.setattr("beehive.node_namespaces.namespaces_id", lambda: "abc123")
    owner = owner_of(a_pod(security_context=PodSecurityContext(fs_group=group)))
    given = owner.group if owner is not None else None
    path = set_up(planned(volume, tmp_path), at(0), given, RootsMounts())
    if volume.empty_dir is not None:
        resolve_sub_path(path, "made/below")
    files = [path, *path.rglob("*")]
    assert len(files) > 1
    assert {each.lstat().st_uid for each in files} == {1}
    assert {each.lstat().st_gid for each in files} <= {1, 1 if group is None else group + 1}
    assert path.parent.stat().st_uid == 0
