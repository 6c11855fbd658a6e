"""Where a cloudcore keeps its files: one rule, which does not depend on the current directory."""

import argparse
from pathlib import Path

import pytest

from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.paths import CloudPaths, add_socket_options, paths_of, remark_on_former_files
from modules.processes.common.exit_codes import ExitCode


def chosen(*arguments: str) -> argparse.Namespace:
    """Parse the options that have to do with paths."""
    parser = argparse.ArgumentParser()
    add_socket_options(parser)
    parser.add_argument("--database", default="")
    parser.add_argument("--tls-dir", type=Path)
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs' state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "cloudcore"


def test_everything_is_below_the_root(state: Path, tmp_path: Path) -> None:
    """The default one, or the given one."""
    for root, options in ((state, ()), (tmp_path / "a", ("--root", "a"))):
        wanted = CloudPaths(root, root / "cloudcore.sock", str(root / "cloudcore.db"), root / "tls")
        assert paths_of(chosen(*options)) == wanted


def test_each_can_be_elsewhere(tmp_path: Path) -> None:
    """And the others stay where they are."""
    more = ("--socket", "/s/x.sock", "--database", "postgresql://h/d", "--tls-dir", "/t")
    paths = paths_of(chosen("--root", "a", *more))
    assert paths == CloudPaths(tmp_path / "a", Path("/s/x.sock"), "postgresql://h/d", Path("/t"))
    assert paths_of(chosen("--root", "a", "--socket", "/s/x.sock")).database == str(tmp_path / "a" / "cloudcore.db")


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--state", "cluster"), "kubeconfig"), (("--state", "cluster", "--database", "x.db"), "exclude each other")],
)
def test_with_the_state_in_the_cluster_there_is_no_database_unless_one_is_named(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first fails later, for want of the kubeconfig."""
    status = main(["run", "--kubeconfig", "absent", *options])
    error = capsys.readouterr().err
    assert words in error
    assert status == (ExitCode.START_FAILED if words == "kubeconfig" else ExitCode.USAGE)


def test_a_socket_alone_takes_the_others_along() -> None:
    """So two cloudcores with two sockets in a directory have two databases."""
    assert paths_of(chosen("--socket", "/s/x.sock")) == CloudPaths(
        Path("/s"), Path("/s/x.sock"), "/s/x.db", Path("/s/tls")
    )


def test_files_of_an_earlier_cloudcore_are_mentioned(state: Path, tmp_path: Path) -> None:
    """Unless a place is given, or it is the present one."""
    assert remark_on_former_files(chosen(), tmp_path) == ""
    (tmp_path / "cloudcore.db").touch()
    (tmp_path / "cloudcore-tls").mkdir()
    remark = remark_on_former_files(chosen(), tmp_path)
    assert "./cloudcore.db, ./cloudcore-tls: of an earlier cloudcore" in remark
    assert str(state) in remark
    assert "--socket cloudcore.sock --tls-dir cloudcore-tls" in remark
    assert remark_on_former_files(chosen("--root", "a"), tmp_path) == ""
    state.mkdir(parents=True)
    (state / "cloudcore.db").touch()
    assert remark_on_former_files(chosen(), state) == ""


def test_a_client_looks_where_run_listens(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the socket."""
    assert main(["get", "pods"]) == ExitCode.INTERNAL_ERROR
    assert str(state / "cloudcore.sock") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--root", "file"], "it is a file, not a directory; --root names another"),
        (["--root", "file/below"], "a part of the path is a file"),
        (["--manifests", "nowhere"], "cannot read the manifests: nowhere"),
    ],
)
def test_what_cannot_start(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that says why, and the status of a failed start."""
    (tmp_path / "file").touch()
    assert main(["run", *arguments, "--listen", "127.0.0.1:0"]) == ExitCode.START_FAILED
    assert words in capsys.readouterr().err
