"""Where volumes go: no name is ever made on the host, except inside the container's own volumes."""

from collections.abc import Mapping
from pathlib import PosixPath
from pathlib import PurePosixPath as Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.engine.errors import MountPlanError
from modules.runtimes.process.driver import HostFiles
from modules.runtimes.process.mount_plan import BindMount, PathKind, plan_mounts
from modules.runtimes.shim.protocol import Step

_ROOT = Path("/R")


class FakeHost:
    """A file system as a table: None is a directory, a text the target of a link, bytes a file."""

    def __init__(self, entries: Mapping[str, str | bytes | None]) -> None:
        self._entries = {Path("/"): None, **{Path(path): value for path, value in entries.items()}}

    def kind(self, path: Path) -> PathKind:
        if path not in self._entries:
            return PathKind.MISSING
        value = self._entries[path]
        if value is None:
            return PathKind.DIRECTORY
        return PathKind.LINK if isinstance(value, str) else PathKind.FILE

    def read_link(self, path: Path) -> str:
        target = self._entries[path]
        assert isinstance(target, str)
        return target


def test_a_path_of_thousands_of_directories_is_refused() -> None:
    """The plan for 2,040 took seven seconds and blocked everything else."""
    deep = BindMount(Path("/a" * 2040), Path("/v"), readonly=False)
    with pytest.raises(MountPlanError, match="deeper than 64 directories"):
        plan_mounts([deep], [], _HOST, _ROOT)
    with pytest.raises(MountPlanError, match="deeper than 64 directories"):
        plan_mounts([], [Path("/a" * 2040)], _HOST, _ROOT)
    assert plan_mounts([BindMount(Path("/a" * 60), Path("/v"), readonly=False)], [], _HOST, _ROOT)


def test_a_path_with_an_impossible_name_counts_as_missing(tmp_path: PosixPath) -> None:
    """Such as a name that is too long for the file system, or a circle of links."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert HostFiles().read_link(Path(tmp_path, "loop")) == str(tmp_path / "loop")
    assert HostFiles().kind(Path("/" + "x" * 300)) is PathKind.MISSING
    assert HostFiles().kind(Path(tmp_path, "loop", "x")) is PathKind.MISSING


_HOST = FakeHost(
    {
        "/etc": None,
        "/etc/hosts": b"",
        "/run": None,
        "/var": None,
        "/var/run": "/run",
        "/var/lock": "../run/lock",
        "/loop": "loop",
        "/v": None,
        "/v/sub": None,
        "/v/link": "/etc",
        "/v/file": b"",
        "/w": None,
        "/f": b"",
        "/tolink": "v/file",
    }
)


def _volume(container_path: str, host_path: str = "/v", *, readonly: bool = False) -> BindMount:
    return BindMount(Path(container_path), Path(host_path), readonly)


def _plan(*volumes: BindMount, directories: tuple[str, ...] = ()) -> list[Step]:
    steps = plan_mounts(volumes, [Path(path) for path in directories], _HOST, _ROOT)
    assert steps[-1] == ["enter", "/R"]
    return steps[:-1]


@pytest.mark.parametrize(
    ("volume", "steps"),
    [
        pytest.param(_volume("/etc"), [["bind", "/", "/R"], ["bind", "/v", "/R/etc"]], id="a mount point that exists"),
        pytest.param(_volume("/etc/hosts", "/f"), [["bind", "/", "/R"], ["bind", "/f", "/R/etc/hosts"]], id="a file"),
        pytest.param(
            _volume("/data"),
            [["scaffold", "/", "/R"], ["directory", "/R/data"], ["bind", "/v", "/R/data"]],
            id="missing in the root directory",
        ),
        pytest.param(
            _volume("/etc/a/b"),
            [
                ["bind", "/", "/R"],
                ["scaffold", "/etc", "/R/etc"],
                ["directory", "/R/etc/a"],
                ["directory", "/R/etc/a/b"],
                ["bind", "/v", "/R/etc/a/b"],
            ],
            id="missing below a directory",
        ),
        pytest.param(
            _volume("/etc/a.conf", "/f"),
            [
                ["bind", "/", "/R"],
                ["scaffold", "/etc", "/R/etc"],
                ["file", "/R/etc/a.conf"],
                ["bind", "/f", "/R/etc/a.conf"],
            ],
            id="a missing file",
        ),
        pytest.param(
            _volume("/var/run/secrets"),
            [
                ["bind", "/", "/R"],
                ["scaffold", "/run", "/R/run"],
                ["directory", "/R/run/secrets"],
                ["bind", "/v", "/R/run/secrets"],
            ],
            id="through a link of the host",
        ),
        pytest.param(
            _volume("/var/lock/x"),
            [
                ["bind", "/", "/R"],
                ["scaffold", "/run", "/R/run"],
                ["directory", "/R/run/lock"],
                ["directory", "/R/run/lock/x"],
                ["bind", "/v", "/R/run/lock/x"],
            ],
            id="through a relative link to something missing",
        ),
        pytest.param(
            _volume("/etc", readonly=True),
            [["bind", "/", "/R"], ["bind", "/v", "/R/etc"], ["readonly", "/R/etc"]],
            id="read-only",
        ),
        pytest.param(
            _volume("/etc/hosts", "/tolink"),
            [["bind", "/", "/R"], ["bind", "/tolink", "/R/etc/hosts"]],
            id="a host path that is a link",
        ),
    ],
)
def test_one_volume(volume: BindMount, steps: list[Step]) -> None:
    """One volume takes the fewest steps that show it at its path."""
    assert _plan(volume) == steps


def test_nested_volumes() -> None:
    """A volume inside another is mounted after it; its missing mount point is made in the outer one."""
    assert _plan(_volume("/etc/in/ner", "/w", readonly=True), _volume("/etc", readonly=True)) == [
        ["bind", "/", "/R"],
        ["bind", "/v", "/R/etc"],
        ["directory", "/R/etc/in"],
        ["directory", "/R/etc/in/ner"],
        ["bind", "/w", "/R/etc/in/ner"],
        ["readonly", "/R/etc"],
        ["readonly", "/R/etc/in/ner"],
    ]


def test_outer_scaffold_comes_first() -> None:
    """A directory whose parent is scaffolded too is scaffolded after it, or it would be covered."""
    host = FakeHost({"/a": None, "/a/b": None, "/v": None})
    steps = plan_mounts([_volume("/a/b/c"), _volume("/a/d")], [], host, _ROOT)
    assert [step for step in steps if step[0] == "scaffold"] == [
        ["scaffold", "/a", "/R/a"],
        ["scaffold", "/a/b", "/R/a/b"],
    ]


def test_missing_working_directory() -> None:
    """A working directory that the host does not have is made in memory."""
    assert _plan(directories=("/app",)) == [["scaffold", "/", "/R"], ["directory", "/R/app"]]


@pytest.mark.parametrize(
    ("volumes", "reason"),
    [
        ([_volume("/")], "the root directory"),
        ([_volume("/etc"), _volume("/etc", "/w")], "another volume"),
        ([_volume("/var/run"), _volume("/run", "/w")], "another volume"),
        ([_volume("/etc/hosts")], "a file on this machine where a directory is needed"),
        ([_volume("/etc", "/f")], "a directory on this machine where a file is needed"),
        ([_volume("/f/x")], "a file on this machine where a directory is needed"),
        ([_volume("/loop/x")], "too many symbolic links"),
        ([_volume("/etc", "/gone")], '"/gone" does not exist'),
        ([_volume("/etc"), _volume("/etc/link/x", "/w")], "a symbolic link inside a volume"),
    ],
)
def test_refusals(volumes: list[BindMount], reason: str) -> None:
    """A volume that cannot be placed is refused with the obstacle."""
    with pytest.raises(MountPlanError, match=reason):
        _plan(*volumes)


@pytest.mark.parametrize("links", [40, 41])
def test_as_many_links_are_followed_as_in_linux(links: int) -> None:
    chain = {f"/l{number}": f"l{number + 1}" for number in range(links)}
    host = FakeHost({**chain, f"/l{links}": None, "/v": None})
    if links > 40:
        with pytest.raises(MountPlanError, match="too many symbolic links"):
            plan_mounts([_volume("/l0")], [], host, _ROOT)
    else:
        assert ["bind", "/v", f"/R/l{links}"] in plan_mounts([_volume("/l0")], [], host, _ROOT)


_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.lists(_PATHS, max_size=8), st.lists(_PATHS, min_size=1, max_size=5, unique=True))
def test_only_memory_and_volumes_get_new_names(directories: list[str], mount_points: list[str]) -> None:
    """Carried out in order, no step makes a name in a directory of the host, and each volume's mount point exists."""
    existing = {str(parent) for path in directories for parent in (Path(path), *Path(path).parents)}
    host = FakeHost({**dict.fromkeys(existing - {"/"}), "/host": None})
    steps = plan_mounts([_volume(path, "/host") for path in mount_points], [], host, _ROOT)
    made: set[Path] = set()
    scaffolds: set[Path] = set()
    bound: set[Path] = set()
    for action, *paths in steps:
        target = Path(paths[-1])
        path = Path("/") / target.relative_to(_ROOT)
        in_volume = any(parent in bound for parent in (path, *path.parents))
        there = path in made or (not in_volume and (str(path) in existing or path == Path("/")))
        if action == "scaffold":
            assert there
            scaffolds.add(path)
        elif action == "directory":
            assert path.parent in made | scaffolds or in_volume
            made.add(path)
        elif action == "bind" and path != Path("/"):
            assert there
            bound.add(path)
    assert bound == {Path(path) for path in mount_points}
