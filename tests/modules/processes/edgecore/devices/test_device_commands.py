"""`edgecore devices list|get|history` on a database with a device."""

import argparse
import json
import socket
from argparse import Namespace
from base64 import b64encode
from pathlib import Path

import pytest

from metamanager.rows import row_of
from metamanager.store import open_store, sqlite_path
from modules.edge.devicetwin import twins
from modules.edge.devicetwin.requests import TwinRequest
from modules.edge.devicetwin.state import Device, encode
from modules.edge.devicetwin.twins import At
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import completion_values
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.completion_values import node_values
from modules.processes.edgecore.config import EdgeCoreConfig


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with a thermometer that has reported twice."""
    twin = twins.update(None, TwinRequest(actual="20", type="int"), None, At(1_800_000_000_000, 1))
    twin = twins.update(twin, TwinRequest(actual="21", expected="22"), None, At(1_800_000_060_000, 2))
    assert twin is not None
    device = Device("default/thermo", "thermo", "by the door", "online", twins={"temperature": twin}, number=2)
    store = open_store(str(tmp_path / "edgecore.db"))
    store.put(row_of("default/devicetwin/thermo", encode(device), 0))
    store.commit()
    store.close()
    return str(tmp_path / "edgecore.db")


def test_the_devices_are_listed(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "list", "--database", database]) == ExitCode.OK
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split() == ["DEVICE", "STATE", "LAST", "ONLINE", "MAPPER", "PROPERTIES", "CLOUD", "KNOWS"]
    assert row.split() == ["default/thermo", "online", "-", "-", "1", "no"]


def test_a_device_is_listed_with_the_mapper_of_its_protocol(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The protocol is the model's, as the device names none."""
    named = {"namespace": "default", "name": "thermo"}
    rows = {
        "default/device/thermo": {"metadata": named, "spec": {"deviceModelRef": {"name": "tm"}}},
        "default/devicemodel/tm": {"metadata": {**named, "name": "tm"}, "spec": {"protocol": "modbus"}},
        "null/devicemapper/m": {"name": "m", "protocol": "modbus", "address": ""},
    }
    store = open_store(database)
    for key, value in rows.items():
        store.put(row_of(key, json.dumps(value).encode(), 0))
    store.commit()
    store.close()
    assert main(["devices", "list", "--database", database]) == ExitCode.OK
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["default/thermo", "online", "-", "m", "1", "no"]


def test_a_dead_mapper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its socket is still there without a listener; a living mapper is shown by its name alone."""
    config = EdgeCoreConfig.below(tmp_path)
    path = sqlite_path(str(config.database_url))
    assert path is not None
    store = open_store(str(path))
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as ended:
        for name, each in (("listening", listening), ("ended", ended)):
            each.bind(str(tmp_path / name))
            row = {"name": name, "protocol": name, "address": b64encode(bytes(tmp_path / name)).decode()}
            device = {"metadata": {"namespace": "default", "name": name}, "spec": {"protocol": {"protocolName": name}}}
            store.put(row_of(f"null/devicemapper/{name}", json.dumps(row).encode(), 0))
            store.put(row_of(f"default/device/{name}", json.dumps(device).encode(), 0))
            store.put(row_of(f"default/devicetwin/{name}", encode(Device(f"default/{name}", name)), 0))
        store.commit()
        store.close()
        listening.listen()
        ended.close()
        assert main(["devices", "list", "--root", str(tmp_path)]) == ExitCode.OK
        _, silent, answers = capsys.readouterr().out.splitlines()
        assert "  ended (does not answer)  " in silent
        assert answers.split() == ["default/listening", "-", "-", "listening", "0", "yes"]
        assert main(["devices", "list", "--json", "--root", str(tmp_path)]) == ExitCode.OK
        told = json.loads(capsys.readouterr().out)
        assert [(each["mapper"], each["mapperEnded"]) for each in told] == [("ended", True), ("listening", False)]


def test_a_device_has_expected_and_reported_values(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "get", "default/thermo", "--database", database]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "default/thermo  online  by the door"
    assert lines[2].split() == ["temperature", "int", "22", "application", "21", "2027-01-15T08:01:00Z", "no"]
    assert main(["devices", "get", "default/thermo", "--json", "--database", database]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["properties"]["temperature"]["reported"] == "21"


def test_the_history_has_each_report(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "history", "default/thermo", "--database", database]) == ExitCode.OK
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[1:] for row in rows] == [
        ["temperature", "20", "reported"],
        ["temperature", "21", "reported"],
        ["temperature", "22", "expected", "by", "application"],
    ]


@pytest.mark.parametrize(
    ("words", "text"), [(["get", "default/no"], "default/thermo"), (["history", "default/thermo", "no"], "temperature")]
)
def test_a_missing_object_is_reported_with_the_existing_ones(
    database: str, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", *words, "--database", database]) == ExitCode.START_FAILED
    assert text in capsys.readouterr().err


def test_a_shell_completes_devices_and_properties(database: str) -> None:
    """From the node's database, whether edgecore runs or not."""
    complete = node_values()
    chosen = Namespace(database=Path(database), device="default/thermo")
    assert list(complete["device"](parsed_args=chosen)) == ["default/thermo"]
    assert list(complete["property"](parsed_args=chosen)) == ["temperature"]
    assert list(complete["assignments"](parsed_args=chosen)) == ["temperature="]
    assert list(complete["device"](parsed_args=Namespace(database=Path("/nothing/there")))) == []


def test_where_there_is_no_node_nothing_is_completed() -> None:
    """The shell shows no error."""
    assert completion_values._stored_keys(argparse.Namespace()) == []
    assert completion_values._properties_by_device(argparse.Namespace()) == {}
