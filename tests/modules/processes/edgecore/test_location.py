"""Where the commands find a node: one rule, which `join` follows too."""

import argparse
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.state_directory import state_directory
from modules.processes.edgecore import cli, join, location
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig
from modules.processes.edgecore.location import NodeLocation, load_node, located

ROOT, PERSON = 0, 1000


@pytest.fixture
def kubeedge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of KubeEdge's file, moved below the test's directory; it does not exist. The state is there too."""
    file = tmp_path / "etc" / "edgecore.yaml"
    file.parent.mkdir()
    monkeypatch.setattr(location, "KUBEEDGE_FILE", file)
    monkeypatch.setattr(join, "KUBEEDGE_FILE", file)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("os.geteuid", lambda: PERSON)
    return file


def test_a_file_wins(kubeedge_file: Path) -> None:
    """Also over a directory, which only `join` takes beside it."""
    assert located(Path("f"), None) == NodeLocation(Path("f"), None)
    assert located(Path("f"), Path("d")) == NodeLocation(Path("f"), None)


def test_a_directory_has_its_file_or_the_defaults(kubeedge_file: Path, tmp_path: Path) -> None:
    """KubeEdge's file does not matter, not even to root."""
    kubeedge_file.touch()
    assert located(None, tmp_path) == NodeLocation(None, tmp_path)
    assert located(None, tmp_path).load().config == EdgeCoreConfig.below(tmp_path)
    (tmp_path / "edgecore.yaml").write_text("modules: {edged: {workers: 7}}")
    assert located(None, tmp_path) == NodeLocation(tmp_path / "edgecore.yaml", tmp_path)
    assert located(None, tmp_path).load().config.modules.edged.workers == 7


@pytest.mark.parametrize("user", [ROOT, PERSON])
@pytest.mark.parametrize("exists", [True, False])
def test_without_options(
    kubeedge_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, exists: bool
) -> None:
    """KubeEdge's file is root's; everybody else has a directory of their own, whose file counts."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    if exists:
        kubeedge_file.touch()
    own = tmp_path / "state" / "edgecore"
    wanted = NodeLocation(kubeedge_file, None) if user == ROOT and exists else NodeLocation(None, own)
    assert located(None, None) == wanted
    own.mkdir(parents=True)
    (own / "edgecore.yaml").touch()
    assert located(None, None) == (wanted if wanted.file else NodeLocation(own / "edgecore.yaml", own))


def test_a_link_to_nowhere_is_no_missing_file(kubeedge_file: Path, tmp_path: Path) -> None:
    """The node would otherwise start with the defaults, as if it had never been configured."""
    (tmp_path / "edgecore.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="there is no such file"):
        located(None, tmp_path).load()


@pytest.mark.parametrize(
    ("user", "variable", "wanted"),
    [
        (ROOT, None, "/var/lib/edgecore"),
        (PERSON, None, "/home/p/.local/state/edgecore"),
        (ROOT, "/s", "/s/edgecore"),
        (PERSON, "/s", "/s/edgecore"),
        (PERSON, "relative", "/home/p/.local/state/edgecore"),
    ],
)
def test_the_state_directory(monkeypatch: pytest.MonkeyPatch, user: int, variable: str | None, wanted: str) -> None:
    """Root's does not follow the home directory of the user who called sudo."""
    monkeypatch.setenv("HOME", "/home/p")
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if variable is not None:
        monkeypatch.setenv("XDG_STATE_HOME", variable)
    assert state_directory("edgecore") == Path(wanted)


@pytest.mark.parametrize("user", [ROOT, PERSON])
@pytest.mark.parametrize("given", [[], ["--root", "node"], ["--config", "node/x.yaml"]])
def test_join_writes_what_run_reads(
    kubeedge_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, given: list[str]
) -> None:
    """With the same options, for both kinds of users."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: user)
    options = dict(zip(("config", "root"), (None, None), strict=True)) | {
        name.lstrip("-"): Path(value) for name, value in zip(given[::2], given[1::2], strict=True)
    }
    file, _ = join.written(options["config"], options["root"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("modules: {edged: {workers: 7}}")
    assert load_node(argparse.Namespace(**options)).config.modules.edged.workers == 7
    assert join.written(options["config"], options["root"])[0] == file


def test_the_options_lead_there_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are absolute."""
    monkeypatch.chdir(tmp_path)
    assert NodeLocation(Path("a.yaml"), None).options == ("--config", f"{tmp_path}/a.yaml")
    assert NodeLocation(None, Path("node")).options == ("--root", f"{tmp_path}/node")


@pytest.mark.parametrize(
    "command", ["run", "doctor", "pods", "logs x", "attach x", "store list", "trace dump", "config check"]
)
def test_every_command_reads_the_file_in_the_directory(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with an error shows that it was read; the message names it."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("modules: {edged: {workers: many}}")
    arguments = [*command.split(), "--root", str(tmp_path)]
    try:
        status = cli.main(arguments)
    except SystemExit as ended:
        status = int(str(ended.code))
    said = capsys.readouterr()
    assert status == ExitCode.CONFIGURATION
    assert f"{file}:1" in said.out + said.err
