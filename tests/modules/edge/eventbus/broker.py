"""A real mosquitto, and an application on it."""

import queue
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.patience import PATIENCE
from tests.support.ports import free_port

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed (.ci/install-runtime)")


class Broker:
    """mosquitto on this machine, which can be stopped and started again with what it has kept.

    Args:
        directory: of its files.
        lines: more lines of its configuration.
    """

    def __init__(self, directory: Path, *lines: str) -> None:
        self.port = free_port()
        self._configuration = directory / "mosquitto.conf"
        access = [] if any("allow_anonymous" in line for line in lines) else ["allow_anonymous true"]
        text = [
            f"listener {self.port} 127.0.0.1",
            "persistence true",
            f"persistence_location {directory}/",
            "user root",
            *access,
            *lines,
        ]
        self._configuration.write_text("\n".join(text) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Broker":
        """Start it, and wait until it listens."""
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._configuration)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while True:
            assert self._process.poll() is None, "mosquitto has ended"
            try:
                socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
            except ConnectionRefusedError:
                continue
            return self

    def stop(self) -> None:
        """Stop it; it writes what it keeps. A new process may miss the first signal."""
        if self._process is not None:
            for _ in range(round(PATIENCE)):
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)
                    break
            else:
                self.kill()
                raise AssertionError("mosquitto does not end")
            self._process = None

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None


class Application:
    """A client of the broker that hears what it subscribed to.

    Args:
        port: of the broker.
        topics: subscribed to.
        user: and password, or "".
        session: name of its session at the broker, or "".
        qos: of the subscriptions.

    Raises:
        ConnectionRefusedError: the broker does not accept the user.
    """

    def __init__(
        self, port: int, *topics: str, user: tuple[str, str] | None = None, session: str = "", qos: int = 1
    ) -> None:
        self.heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
        ready: queue.Queue[bool] = queue.Queue()
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=session, clean_session=not session, reconnect_on_failure=False
        )
        if user is not None:
            self._client.username_pw_set(*user)

        def connected(client: Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
            if topics and not reason.is_failure:
                client.subscribe([(topic, qos) for topic in topics])
            else:
                ready.put(not reason.is_failure)

        def hear(_client: Client, _data: Any, message: MQTTMessage) -> None:
            self.heard.put((message.topic, message.payload))

        self._client.on_connect = connected
        self._client.on_subscribe = lambda *_rest: ready.put(True)  # noqa: FBT003
        self._client.on_message = hear
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not ready.get(timeout=PATIENCE):
            self.close()
            raise ConnectionRefusedError

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, *, retain: bool = False) -> None:
        """Publish, and wait for the broker's acknowledgement."""
        self._client.publish(topic, payload, qos, retain).wait_for_publish(PATIENCE)

    def hear(self) -> tuple[str, bytes]:
        """Return the next message."""
        return self.heard.get(timeout=PATIENCE)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()
