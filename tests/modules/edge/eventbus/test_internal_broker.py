"""The broker that eventbus runs itself: a real mosquitto, its access control, its life and its end."""

import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from beehive import RealClock
from beehive.wakeup import Wakeup
from modules.edge.eventbus import module, mosquitto_files, mosquitto_process
from modules.edge.eventbus.internal_broker import DATA, PASSWORDS, InternalBroker, acl, configuration
from modules.edge.eventbus.module import EventBusSettings
from modules.edge.eventbus.self_message import NoAnswerError, send_to_itself
from modules.edge.eventbus.session import BrokerSettings
from tests.end_to_end.processes import wait_until
from tests.modules.edge.eventbus.broker import Application, Broker, needs_mosquitto
from tests.modules.edge.eventbus.node import Node
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.stopping import stopping

pytestmark = needs_mosquitto
IN_NAMESPACE = ("unshare", "--user", "--map-root-user")
needs_user_namespaces = pytest.mark.skipif(
    subprocess.run([*IN_NAMESPACE, "true"], check=False, capture_output=True).returncode != 0,
    reason="this machine does not let ordinary users make user namespaces",
)
WORD = "open sesame"
P = "$hw/events/device/ns/thermo"


def _broker(directory: Path, **changes: Any) -> InternalBroker:
    program = mosquitto_files.find_mosquitto()
    assert program is not None
    made = InternalBroker(
        directory=directory / "m", program=program, host="127.0.0.1", port=free_port(), client_id="secret"
    )
    return replace(made, **changes)


@pytest.fixture
def broker(tmp_path: Path) -> InternalBroker:
    return _broker(tmp_path)


@pytest.fixture
def node(tmp_path: Path, broker: InternalBroker) -> Iterator[Node]:
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as made:
        _wait(made)
        yield made


def _wait(node: Node, **connected: bool) -> None:
    wanted = connected or {"internal": True}
    wait_until(lambda: node.counters.connected == wanted, "the broker has accepted the node", PATIENCE)


def _pid(broker: InternalBroker) -> int:
    return int((broker.directory / mosquitto_files.PID).read_text())


def _add_device(node: Node, application: Application) -> None:
    device = {"metadata": {"name": "thermo", "namespace": "ns", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    node.send("metamanager", "ns/device/thermo", "insert", device, source="devicecontroller", group="resource")
    assert application.hear()[0] == "$hw/events/node/n1/membership/updated"


def _report(value: str) -> str:
    return json.dumps({"event_id": value, "timestamp": 1, "twin": {"t": {"actual": {"value": value}}}})


def test_applications_report_and_nobody_speaks_for_the_cloud(node: Node, broker: InternalBroker) -> None:
    """A report is answered. What only edgecore and the cloud say is not heard from an application, by others or by
    devicetwin; and mosquitto is not root.
    """
    spoken = [f"{P}/{end}" for end in ("twin/update/+", "state/update/+", "twin/cloud_updated")]
    with (
        closing(Application(broker.port, "$hw/events/node/#", *spoken, "free/#")) as application,
        closing(Application(broker.port)) as forger,
    ):
        _add_device(node, application)
        for topic in ("twin/update/result", "twin/update/delta", "twin/cloud_updated", "state/update/result"):
            forger.publish(f"{P}/{topic}", _report("forged"))
        forger.publish("$hw/events/node/n1/membership/updated", "{}")
        forger.publish("free/x", "heard")
        assert application.hear() == ("free/x", b"heard"), "nothing forged came before it"
        application.publish(f"{P}/twin/update", _report("21"))
        assert application.hear()[0] == f"{P}/twin/update/result"
        assert (broker.directory / DATA).stat().st_uid == mosquitto_files.owner().uid
        status = Path(f"/proc/{_pid(broker)}/status").read_text()
        assert f"Uid:\t{mosquitto_files.owner().uid}\t" in status


def test_a_broker_that_dies_is_started_again(node: Node, broker: InternalBroker) -> None:
    """After SIGKILL the node connects to the next one, and publishes what it was to publish meanwhile."""
    first = _pid(broker)
    assert os.getsid(first) != os.getsid(0), "Ctrl-C at edgecore's terminal is not for it"
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: node.counters.broker_starts == 2, "it is started again", PATIENCE)
    node.send("eventbus", "out/x", "publish", "while it was away", source="router_eventbus", group="user")
    wait_until(lambda: node.counters.published == 1, "the message is published", PATIENCE)
    assert _pid(broker) != first


def test_a_broker_that_passes_no_message_on_is_started_again(
    tmp_path: Path, broker: InternalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still accepts connections, as one without memory does. Events of the node tell both.

    The next one starts when the first event is stored: a restart may take less time than the module needs to notice.
    """
    monkeypatch.setattr(mosquitto_process, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(mosquitto_process, "FIRST_DELAY", 0.1)
    monkeypatch.setattr(mosquitto_files, "END_SECONDS", 0.2)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(module, "DOWN_SECONDS", 0.1)
    node = Node(tmp_path, EventBusSettings("n1", None, broker)).start()
    may_start = threading.Event()
    try:
        _wait(node)
        monkeypatch.setattr(mosquitto_files, "end_left_over", lambda _directory: may_start.wait(PATIENCE))
        os.kill(_pid(broker), signal.SIGSTOP)
        monkeypatch.setattr(mosquitto_process, "ANSWER_SECONDS", 0.2)
        wait_until(lambda: node.counters.broker_starts > 1, "it is started again", PATIENCE)
        monkeypatch.setattr(mosquitto_process, "ANSWER_SECONDS", PATIENCE)
        wait_until(lambda: "MQTTBrokerNotReady" in _reasons(tmp_path), "the event of its absence", PATIENCE)
        may_start.set()
        _wait(node)
        wait_until(lambda: "MQTTBrokerReady" in _reasons(tmp_path), "the event of its return", PATIENCE)
    finally:
        may_start.set()
        node.stop()


def _reasons(directory: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{directory / 'edgecore.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT value FROM meta WHERE type = 'event'").fetchall()
    return {json.loads(row[0])["reason"] for row in rows}


def test_stored_messages_that_keep_it_from_starting_are_set_aside(
    tmp_path: Path, broker: InternalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that devices reach is worth more than they are; a taken port sets nothing aside."""
    monkeypatch.setattr(mosquitto_process, "FIRST_DELAY", 0.1)
    data = broker.directory / DATA
    data.mkdir(parents=True)
    (data / "mosquitto.db").write_bytes(b"spoilt" * 100)
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as node:
        _wait(node)
        assert (data / "mosquitto.db.unusable").read_bytes() == b"spoilt" * 100
    run = mosquitto_process.MosquittoProcess(broker, RealClock())
    with socket.create_server(("127.0.0.1", broker.port)):
        why = run.run(lambda: None)
    assert "status" in why and not run.may_be_stored


@pytest.mark.parametrize(
    ("answer", "why"),
    [(b"", "ends the connection"), (None, "does not answer in time"), (b"HTTP/1.1 400 Bad Request" * 300, "not MQTT")],
    ids=["ends", "silent", "no-broker"],
)
def test_what_passes_no_message_on_has_not_answered(tmp_path: Path, answer: bytes | None, why: str) -> None:
    wakeup, clock = Wakeup(), RealClock()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def act() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                if answer is None:
                    connection.recv(4096)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=act)
        thread.start()
        with pytest.raises(NoAnswerError, match=why):
            send_to_itself(tmp_path / "s", clock, 0.3 if answer is None else PATIENCE, wakeup)
        thread.join(PATIENCE)
    clock.close()
    wakeup.close()


def test_a_look_at_a_broker_is_broken_off_when_this_node_stops(tmp_path: Path) -> None:
    wakeup, clock = Wakeup(), RealClock()
    wakeup.wake()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(NoAnswerError, match="stopped"):
            send_to_itself(tmp_path / "s", clock, PATIENCE, wakeup)
    clock.close()
    wakeup.close()


def test_what_waits_for_an_absent_client_outlives_a_restart(node: Node, broker: InternalBroker) -> None:
    """The session of an application, and the cloud's subscriptions of eventbus, are there after edgecore's restart."""
    node.send("eventbus", "sensors/+/raw", "subscribe", None, source="router_eventbus", group="user")
    away = Application(broker.port, "out/#", session="app")
    away.close()
    node.send("eventbus", "out/x", "publish", "kept", source="router_eventbus", group="user")
    wait_until(lambda: node.counters.published == 1, "the message is published", PATIENCE)
    node.stop()
    node.start()
    _wait(node)
    with closing(Application(broker.port, session="app")) as back:
        back.publish("sensors/1/raw", "x")
        assert back.hear() == ("out/x", b"kept")
    wait_until(lambda: sum(node.counters.received.values()) == 1, "it is stored for the cloud", PATIENCE)
    node.stop()
    assert node.uploads() == [("sensors/1/raw", "x")]


def test_only_those_with_the_password_come_in(tmp_path: Path) -> None:
    """Its hash is in mosquitto's file, the password itself nowhere."""
    broker = _broker(tmp_path, user="plant", password=WORD, retain=True)
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as node:
        _wait(node)
        node.send("eventbus", "out/x", "publish", "in", source="router_eventbus", group="user")
        wait_until(lambda: node.counters.published == 1, "the message is published", PATIENCE)
        known = Application(broker.port, "out/#", user=("plant", WORD))
        assert known.hear() == ("out/x", b"in"), "it was retained for later subscribers"
        known.close()
        with pytest.raises(ConnectionRefusedError):
            Application(broker.port, user=("plant", "guess"))
        with pytest.raises(ConnectionRefusedError):
            Application(broker.port)
    assert (broker.directory / PASSWORDS).read_text().startswith("plant:$7$")
    assert all(WORD not in file.read_text() for file in broker.directory.iterdir() if file.is_file())


def test_both_brokers(tmp_path: Path, broker: InternalBroker) -> None:
    """`mqttMode: 1`: messages of applications come from both, and what is for them is published at both."""
    directory = tmp_path / "outside"
    directory.mkdir()
    outside = Broker(directory).start()
    settings = BrokerSettings("127.0.0.1", outside.port, "edgecore-n1")
    node = Node(tmp_path, EventBusSettings("n1", settings, broker)).start()
    applications: list[Application] = []
    try:
        _wait(node, internal=True, external=True)
        applications += [Application(port, "out/#") for port in (broker.port, outside.port)]
        node.send("eventbus", "out/x", "publish", "all", source="router_eventbus", group="user")
        for number, each in enumerate(applications):
            assert each.hear() == ("out/x", b"all")
            each.publish("a/user/b", str(number))
        wait_until(lambda: sum(node.counters.received.values()) == 2, "both are stored", PATIENCE)
    finally:
        for each in applications:
            each.close()
        node.stop()
        outside.stop()
    assert sorted(node.uploads()) == [("a/user/b", "0"), ("a/user/b", "1")]


_PARENT = """
import sys
from pathlib import Path
import msgspec
from beehive import RealClock
from modules.edge.eventbus.internal_broker import InternalBroker
from modules.edge.eventbus.mosquitto_process import MosquittoProcess
from tests.support.patience import PATIENCE
broker = msgspec.json.decode(sys.argv[1], type=InternalBroker, dec_hook=lambda kind, value: Path(value))
MosquittoProcess(broker, RealClock()).run(lambda: print("listening", flush=True))
"""


def _has_ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(PATIENCE * 1000))


def test_nothing_is_left_when_edgecore_is_killed(broker: InternalBroker) -> None:
    """The kernel ends mosquitto with its parent, and mosquitto writes what it keeps."""
    text = msgspec.json.encode(broker, enc_hook=str).decode()
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, text], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"listening\n"
    Application(broker.port).close()
    process = os.pidfd_open(_pid(broker))
    try:
        parent.kill()
        parent.wait(PATIENCE)
        assert _has_ended(process)
        assert (broker.directory / DATA / "mosquitto.db").exists()
    finally:
        parent.stdout.close()
        os.close(process)


def test_a_broker_that_was_left_over_is_ended(tmp_path: Path, broker: InternalBroker) -> None:
    """It would hold the port. A process of another directory that has its number is left alone."""
    mosquitto_files.write_files(broker, mosquitto_files.owner())
    command = [mosquitto_files.mark(broker.directory), "-c", "mosquitto.conf"]
    left = subprocess.Popen(command, executable=broker.program, cwd=broker.directory, stderr=subprocess.DEVNULL)
    try:
        (broker.directory / mosquitto_files.PID).write_text(str(left.pid))
        wait_until(broker.socket.exists, "mosquitto listens", PATIENCE)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / mosquitto_files.PID).write_text(str(left.pid))
        mosquitto_files.end_left_over(elsewhere)
        assert left.poll() is None
        mosquitto_files.end_left_over(broker.directory)
        assert left.wait(PATIENCE) is not None
    finally:
        left.kill()
        left.wait(PATIENCE)


@pytest.mark.parametrize("uid", [0, 1000])
def test_only_root_of_a_node_without_root_stays_root(tmp_path: Path, uid: int) -> None:
    """mosquitto is another user where edgecore is the machine's root, and would become one in namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "chown", lambda *_, **__: None)
        mosquitto_files.write_files(_broker(tmp_path), mosquitto_files.Owner(uid, uid))
    assert ("user root\n" in (tmp_path / "m" / "mosquitto.conf").read_text()) is (uid == 0)


@needs_user_namespaces
def test_it_reads_its_files_in_the_namespaces_of_an_ordinary_user(broker: InternalBroker) -> None:
    """There it is root, and would become a user who is nobody and may not read them."""
    (broker.directory / DATA).mkdir(parents=True)
    (broker.directory / "mosquitto.conf").write_text(configuration(broker, is_root=True))
    (broker.directory / "acl").write_text(acl(""))
    broker.directory.chmod(0o700)
    command = [*IN_NAMESPACE, str(broker.program), "-c", "mosquitto.conf"]
    with subprocess.Popen(command, cwd=broker.directory, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: broker.socket.exists() or process.poll() is not None, "mosquitto listens", PATIENCE)
            assert broker.socket.exists(), process.communicate()[1]
        finally:
            process.kill()


def test_the_configuration_bounds_what_clients_can_take(broker: InternalBroker) -> None:
    """Queues, packets, connections and memory; a small queue is no smaller than what eventbus itself needs."""
    lines = configuration(replace(broker, queue=100)).splitlines()
    for wanted in ("max_queued_messages 10000", "max_connections 1024", "sys_interval 0", "acl_file acl"):
        assert wanted in lines
    assert "retain_available false" in lines, "nothing else bounds the number of retained messages"
    assert "retain_available true" in configuration(replace(broker, retain=True)).splitlines()
    assert any(line.startswith("memory_limit ") for line in lines)
    assert "allow_anonymous false" in configuration(replace(broker, user="u", password=WORD)).splitlines()
    assert acl("u").splitlines()[0] == "user u"
