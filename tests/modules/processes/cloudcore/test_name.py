"""The name of a cloud (`--name`): on the page's head, by commands, and in metrics."""

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from beehive.clock import RealClock
from beehive.decoding import convert
from beehive.http.request import Request
from modules.processes.cloudcore.cli import command_line, main
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.page_command import socket_api
from tests.modules.processes.cloudcore.stubs import Stub


@pytest.mark.parametrize("name", ["plant-kiel", ""])
def test_a_cloud_is_called_by_its_name_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with Stub(tmp_path, name=name) as stub:
        socket = stub.config.control_socket
        said = {}
        for command in ("cluster-info", "doctor", "metrics"):
            main([command, "--socket", str(socket)])
            said[command] = capsys.readouterr().out
        clock = RealClock()
        with closing(clock), closing(socket_api(socket, (), clock)) as api:
            me = json.loads(api.serve(Request(method="GET", target="me", parts=("me",)), ("me",)).body)
    assert ("The cloud is called plant-kiel\n" in said["cluster-info"]) is bool(name)
    assert ("it is called plant-kiel" in said["doctor"]) is bool(name)
    assert f'cloudcore_cloud_info{{cloud="{name}"}} 1' in said["metrics"]
    assert me["server"] == (name or str(socket))


@pytest.mark.parametrize(
    ("name", "is_one"), [("a", True), ("Plant.1_x-y", True), ("", True), ("a b", False), ("x" * 64, False)]
)
def test_a_name_is_short_and_plain(name: str, *, is_one: bool) -> None:
    made = {"name": name}
    if is_one:
        assert convert(made, CloudCoreConfig).name == name
        return
    with pytest.raises(msgspec.ValidationError):
        convert(made, CloudCoreConfig)


def test_the_option_is_taken() -> None:
    parser, _ = command_line(["run"])
    assert parser.parse_args(["run", "--name", "plant-kiel"]).name == "plant-kiel"
