"""The kinds of runtimes inside edgecore: whose pods are left, and whose directories may be emptied."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive.clock import RealClock
from edged.errors import EdgedError
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import container_runtime
from modules.processes.edgecore.cli import command_line, main
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.runtime_commands import reset
from modules.processes.edgecore.runtime_kinds import (
    LeftKind,
    RuntimeKind,
    configured_kind,
    has_records,
    kinds_with_records,
    of_kind,
    other_kinds,
)

DIRECTORIES = {RuntimeKind.PROCESSES: "embedded", RuntimeKind.OCI: "oci", RuntimeKind.DOCKER: "docker"}


def state(directory: Path, sandboxes: int = 0, containers: int = 0) -> None:
    """Make the directory of a runtime with so many records."""
    for name, count in (("sandboxes", sandboxes), ("containers", containers)):
        (directory / name).mkdir(parents=True)
        for number in range(count):
            (directory / name / f"{number}").mkdir()
    (directory / "lock").touch()


@pytest.fixture
def config(tmp_path: Path) -> EdgeCoreConfig:
    """A node whose containers are processes."""
    (tmp_path / "edged").mkdir()
    return EdgeCoreConfig.below(tmp_path)


@pytest.mark.parametrize("kind", RuntimeKind)
def test_the_same_node_with_another_kind(kind: RuntimeKind, config: EdgeCoreConfig) -> None:
    """It has its own directory and sockets; everything else is the same."""
    changed = of_kind(config, kind)
    root = config.modules.edged.root_directory
    assert configured_kind(changed) is kind
    assert changed.container_runtime_root == root / DIRECTORIES[kind]
    assert changed.image_endpoint == changed.runtime_endpoint == f"unix://{root}/{DIRECTORIES[kind]}.sock"
    assert of_kind(changed, RuntimeKind.PROCESSES) == config


def test_pods_of_other_kinds_are_found(config: EdgeCoreConfig) -> None:
    """The configured kind's own, half-made entries, and an empty directory do not count."""
    root = config.modules.edged.root_directory
    state(root / "embedded", 3, 3)
    state(root / "oci", 2, 2)
    (root / "oci/sandboxes/.half").mkdir()
    state(root / "docker")
    assert other_kinds(config) == (LeftKind(RuntimeKind.OCI, str(root / "oci"), 2),)
    assert [each.kind for each in other_kinds(of_kind(config, RuntimeKind.OCI))] == [RuntimeKind.PROCESSES]
    assert len(other_kinds(EdgeCoreConfig.default())) == 0
    (left,) = other_kinds(config)
    assert str(left) == f"embedded://oci is not configured and has 2 pods in {root}/oci"
    assert "`edgecore reset --runtime --kind oci --root /n`" in left.remedy("--root /n")


def test_containers_without_a_sandbox_are_found(config: EdgeCoreConfig) -> None:
    """They may run."""
    root = config.modules.edged.root_directory
    state(root / "docker", 0, 1)
    assert [(each.kind, each.sandboxes) for each in other_kinds(config)] == [(RuntimeKind.DOCKER, 0)]


@pytest.mark.parametrize("lost", ["lock", "sandboxes", "containers"])
def test_a_damaged_directory_is_still_one(lost: str, config: EdgeCoreConfig) -> None:
    """Its containers may run."""
    oci = config.modules.edged.root_directory / "oci"
    state(oci, 1, 1)
    (oci / lost).rename(oci / "damaged")
    assert (has_records(oci), [each.kind for each in other_kinds(config)]) == (True, [RuntimeKind.OCI])


def test_a_directory_of_somebody_else(config: EdgeCoreConfig) -> None:
    """Docker's own has the name and `containers`, but not the form."""
    root = config.modules.edged.root_directory
    (root / "docker/containers/abc").mkdir(parents=True)
    (root / "oci").write_text("a file")
    assert (other_kinds(config), kinds_with_records(config)) == ((), [])


@pytest.mark.parametrize("link", ["oci", "oci/sandboxes", "oci/containers"])
def test_no_link_is_followed(link: str, config: EdgeCoreConfig, tmp_path: Path) -> None:
    """Nothing is counted, ended or removed through it; the error names it."""
    root = config.modules.edged.root_directory
    state(root / "oci", 1, 1)
    (root / link).rename(tmp_path / "elsewhere")
    (root / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EdgedError, match="it is a link") as refusal:
        has_records(root / "oci")
    assert str(root / link) in str(refusal.value)


def _node(tmp_path: Path, endpoint: RuntimeKind = RuntimeKind.PROCESSES) -> Path:
    (tmp_path / "edged").mkdir(exist_ok=True)
    config = of_kind(EdgeCoreConfig.below(tmp_path), endpoint)
    (tmp_path / "edgecore.yaml").write_text(render(config))
    return tmp_path / "edged"


def test_reset_removes_the_chosen_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default the configured one; kinds without records are not touched; pods that are left are named."""
    root, purged = _node(tmp_path), list[str]()

    def purge(config: EdgeCoreConfig, _: RealClock) -> None:
        purged.append(config.container_runtime_root.name)

    monkeypatch.setattr(container_runtime, "purge_container_runtime", purge)
    monkeypatch.setattr(reset, "enter_namespaces", lambda _: None)
    state(root / "embedded", 1, 1)
    state(root / "oci", 1, 1)
    cases: dict[tuple[str, ...], list[str]] = {
        (): ["embedded"],
        ("--kind", "oci"): ["oci"],
        ("--kind", "docker"): [],
        ("--kind", "all"): ["embedded", "oci"],
    }
    for options, wanted in cases.items():
        purged.clear()
        assert main(["reset", "--runtime", "--yes", *options, "--root", str(tmp_path)]) == ExitCode.OK
        assert purged == wanted
        assert f"`edgecore reset --runtime --kind oci --root {tmp_path}`" in capsys.readouterr().err


def test_the_command_takes_all_kinds() -> None:
    """Its parser names them itself, to load nothing."""
    _, commands = command_line()
    (action,) = (each for each in commands.choices["reset"]._actions if each.dest == "kind")
    assert set(action.choices or ()) == {*RuntimeKind, "all"}


def test_reset_goes_on_after_a_kind_that_resists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are removed, and the failure is the command's."""
    root, purged = _node(tmp_path), list[str]()

    def purge(config: EdgeCoreConfig, _: RealClock) -> None:
        from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415 - as the command does

        if config.uses_oci_runtime:
            raise ContainerRuntimeError("find crun", "it is not installed")
        purged.append(config.container_runtime_root.name)

    monkeypatch.setattr(container_runtime, "purge_container_runtime", purge)
    monkeypatch.setattr(reset, "enter_namespaces", lambda _: None)
    for name in DIRECTORIES.values():
        state(root / name, 1)
    assert main(["reset", "--runtime", "--yes", "--kind", "all", "--root", str(tmp_path)]) == ExitCode.NOT_DONE
    assert purged == ["embedded", "docker"]
    assert "it is not installed" in capsys.readouterr().err


def test_uninstall_removes_no_file_of_a_kind_whose_pods_it_cannot_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Docker does not answer: the records that name its containers stay with everything else."""
    root = _node(tmp_path)
    (root / "edgecore.lock").touch()
    state(root / "docker", 1, 1)
    config = EdgeCoreConfig.below(tmp_path)
    edged = replace(config.modules.edged, docker_address=f"unix://{tmp_path}/no.sock")
    config = replace(config, modules=replace(config.modules, edged=edged))
    (tmp_path / "edgecore.yaml").write_text(render(config))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert main(["uninstall", "--yes", "--root", str(tmp_path)]) == ExitCode.NOT_DONE
    said = capsys.readouterr().err
    assert "embedded://docker is not configured and has 1 pod" in said
    assert "no.sock" in said
    assert ((root / "docker/sandboxes/0").exists(), (tmp_path / "edgecore.yaml").exists()) == (True, True)
