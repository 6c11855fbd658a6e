"""The container runtime of a node without a configuration file: what a machine must have, and what is kept."""

import os
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli, runtime_choice
from modules.processes.edgecore.config import PROCESS_ENDPOINT, EdgeCoreConfig
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.location import located
from modules.processes.edgecore.runtime_choice import (
    RECORD,
    Shortfall,
    choose_runtime,
    keep_runtime,
    kept_runtime,
    missing_for_isolation,
)

_ALL = ("crun", "conmon", "iptables", "newuidmap", "slirp4netns")
_PLUG_INS = ("bridge", "host-local", "portmap")
_NO_CRUN = Shortfall("not installed: crun", "apt-get install crun")


def _machine(directory: Path, *lacking: str) -> Path:
    """A directory of all programs but some."""
    directory.mkdir()
    for name in {*_ALL, *_PLUG_INS} - set(lacking):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("user", "lacking", "reason", "remedy"),
    [
        (0, ("crun",), "not installed: crun", "apt-get install crun"),
        (0, ("crun", "conmon"), "not installed: crun, conmon", "apt-get install crun conmon"),
        (0, ("bridge",), "not installed: CNI plug-ins", "apt-get install containernetworking-plugins"),
        (1000, ("newuidmap",), "not installed: newuidmap", "apt-get install uidmap"),
        (
            1000,
            (*_ALL, *_PLUG_INS),
            "not installed: crun, conmon, iptables, newuidmap, slirp4netns, CNI plug-ins",
            "apt-get install crun conmon iptables uidmap slirp4netns containernetworking-plugins",
        ),
    ],
)
def test_programs_that_are_missing_are_named_with_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, lacking: tuple[str, ...], reason: str, remedy: str
) -> None:
    """Root needs fewer of them."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    programs = _machine(tmp_path / "bin", *lacking)
    assert missing_for_isolation(str(programs), [programs]) == Shortfall(reason, remedy)


def test_root_of_a_container_has_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs alone do not help."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(runtime_choice, "_NEEDED", {63: "SOMETHING"})
    programs = _machine(tmp_path / "bin")
    found = missing_for_isolation(str(programs), [programs])
    assert found is not None
    assert str(found) == "root of this container has no capability SOMETHING"


@pytest.mark.parametrize(("shortfall", "endpoint"), [(_NO_CRUN, PROCESS_ENDPOINT), (None, OCI_ENDPOINT)])
def test_the_first_start_chooses_and_the_next_keeps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shortfall: Shortfall | None,
    endpoint: str,
) -> None:
    """What is installed, or removed, later changes nothing for a node; one line says what is missing."""
    started: list[EdgeCoreConfig] = []

    def run(config: EdgeCoreConfig, **_: object) -> int:
        started.append(config)
        return ExitCode.OK

    monkeypatch.setattr("modules.processes.edgecore.process.run", run)
    monkeypatch.setattr(cli, "enter_namespaces", lambda _: None)
    monkeypatch.setattr(runtime_choice, "missing_for_isolation", lambda: shortfall)
    monkeypatch.setattr(runtime_choice, "missing_by_trial", lambda _: None)
    arguments = ["run", "--root", str(tmp_path / "n"), "--allow-unisolated-root"]
    assert cli.main(arguments) == ExitCode.OK
    said = capsys.readouterr().err
    assert ("containers are not isolated: not installed: crun (apt-get install crun)" in said) is bool(shortfall)
    monkeypatch.setattr(runtime_choice, "missing_for_isolation", lambda: None if shortfall else _NO_CRUN)
    assert cli.main(arguments) == ExitCode.OK
    assert "not installed" not in capsys.readouterr().err
    found = [each.modules.edged.tailored_kubelet_config.container_runtime_endpoint for each in started]
    assert found == [endpoint] * 2
    assert located(None, tmp_path / "n").load().config == started[0], "other commands have it, too"


def test_pods_of_an_earlier_version_keep_their_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were started as processes without a record of a choice."""
    monkeypatch.setattr(runtime_choice, "missing_for_isolation", lambda: None)
    monkeypatch.setattr(runtime_choice, "missing_by_trial", lambda _: None)
    assert choose_runtime(tmp_path) == (OCI_ENDPOINT, None)
    for name in ("sandboxes", "containers"):
        (tmp_path / "edged" / "embedded" / name).mkdir(parents=True)
    assert choose_runtime(tmp_path) == (PROCESS_ENDPOINT, None)


@pytest.mark.parametrize("content", ["", "embedded://\0", "unix:///run/x.sock", "embedded://docker", "x" * 1000])
def test_a_damaged_record_is_none(tmp_path: Path, content: str) -> None:
    """The next start chooses again."""
    (tmp_path / RECORD).write_text(content)
    assert kept_runtime(tmp_path) == ""


def test_a_reset_lets_the_next_start_choose_again(tmp_path: Path) -> None:
    """There are no pods that another choice would part from the node."""
    keep_runtime(tmp_path, PROCESS_ENDPOINT)
    assert cli.main(["reset", "--runtime", "--yes", "--root", str(tmp_path)]) == ExitCode.OK
    assert kept_runtime(tmp_path) == ""
