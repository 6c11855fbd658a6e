"""A kill or a power cut at each step of what the node's other modules write; the databases have tests of their own."""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from modules.edge.eventbus import mosquitto_files
from modules.edge.eventbus.internal_broker import DATA, InternalBroker
from modules.edge.testmanager.token import read_token
from tests.modules.edge.eventbus.test_mosquitto_sessions import queue_of
from tests.support.power_cuts import Cut, Promise, after_each_cut

Life = Callable[[Promise], object]
Check = Callable[[Cut], object]


def broker_in(directory: Path) -> InternalBroker:
    """The settings of a broker."""
    return InternalBroker(
        directory=directory,
        program=Path("mosquitto"),
        host="127.0.0.1",
        port=1,
        client_id="own",
    )


def token(root: Path) -> tuple[Life, Check]:
    """testmanager's token, which is told to nobody before it is kept."""
    path = root / "token"

    def check(cut: Cut) -> None:
        found = read_token(path)
        assert not cut.promised or cut.promised == (found,)

    return lambda promise: promise(read_token(path)), check


def client_id(root: Path) -> tuple[Life, Check]:
    """The name of the session in which the broker keeps messages for edgecore."""

    def check(cut: Cut) -> None:
        found = mosquitto_files.client_id(root / "broker")
        assert not cut.promised or cut.promised == (found,)

    return lambda promise: promise(mosquitto_files.client_id(root / "broker")), check


def configuration(root: Path) -> tuple[Life, Check]:
    """mosquitto's files, which each start writes again."""
    broker, user = broker_in(root), mosquitto_files.owner()

    def check(_: Cut) -> None:
        mosquitto_files.write_files(broker, user)
        assert "persistence true" in (root / "mosquitto.conf").read_text()
        assert [each.name for each in root.iterdir() if each.name.startswith(".")] == []

    return lambda _: mosquitto_files.write_files(broker, user), check


def stored_messages(root: Path) -> tuple[Life, Check]:
    """The broker's stored messages: all or the fewer ones, and mosquitto can read them."""
    broker, user = broker_in(root), mosquitto_files.owner()
    stored = root / DATA / mosquitto_files.STORED
    kept = b"\x00\xb5\x00mosquitto db" + struct.pack("!II", 0, 6) + queue_of(b"early", 1, 100)
    stored.parent.mkdir()
    stored.write_bytes(kept + queue_of(b"late", 2, 9000))
    stored.chmod(0o600)
    os.chown(stored, *user)

    def check(_: Cut) -> None:
        found = stored.stat()
        assert (found.st_uid, found.st_gid) == user
        mosquitto_files.shorten_messages(broker, user)
        assert stored.read_bytes() == kept

    return lambda _: mosquitto_files.shorten_messages(broker, user), check


WRITERS: Final = {made.__name__: made for made in (token, client_id, configuration, stored_messages)}


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(mosquitto_files, "_SMALL", 100)
    monkeypatch.setattr(mosquitto_files, "MOST_BYTES", 5000)
    assert after_each_cut(tmp_path, *WRITERS[name](tmp_path)) >= 3
