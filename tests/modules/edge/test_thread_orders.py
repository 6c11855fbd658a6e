"""What holds of the queues between the edge's modules and their threads, in whatever order these run."""

import select
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paho.mqtt.enums import MQTTErrorCode

import beehive.wakeup
import modules.edge.devicetwin.feed
import modules.edge.edgestream.session
import modules.edge.eventbus.session
from beehive.wakeup import Wakeup
from modules.edge.devicetwin.feed import Listener, TwinChange
from modules.edge.edgestream.session import MOST_BYTES, Intake
from modules.edge.eventbus.client import BufferedClient
from modules.edge.eventbus.session import BrokerSettings, MqttSession
from modules.streams.frames import Frame, FrameType
from tests.support.interleaving import SEEDS, Interleaving, explore

pytestmark = pytest.mark.parametrize("seed", SEEDS)


def wait_for(wakeup: Wakeup) -> None:
    """Wait as the threads of the product do."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.poll()


def test_publications_wake_the_session_and_keep_their_order(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        session = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), threads.clock)
        sent: list[int] = []

        def send(topic: str, _payload: bytes, **_options: Any) -> int:
            sent.append(int(topic))
            return 7

        client = cast(
            "BufferedClient",
            SimpleNamespace(
                want_write=lambda: False,
                flush=lambda: None,
                loop_misc=lambda: MQTTErrorCode.MQTT_ERR_SUCCESS,
                send=send,
                socket=lambda: None,
            ),
        )

        def serve() -> None:
            while len(sent) < 3:
                wait_for(session._wakeup)
                session._turn(client, came=False, behind=False)

        def publish(*numbers: int) -> None:
            for number in numbers:
                session.publish([(number, str(number), b"")])

        threads.run(serve, lambda: publish(1, 2), lambda: publish(10))
        session._end(client)
        assert [number for number in sent if number < 10] == [1, 2]

    explore(scenario, modules.edge.eventbus.session, beehive.wakeup, seed=seed)


def test_frames_of_a_tunnel_wake_its_thread_and_keep_their_order(seed: int) -> None:
    frames = [Frame(number, FrameType.DATA, bytes(MOST_BYTES // 2)) for number in range(3)]

    def scenario(threads: Interleaving) -> None:
        intake, taken, confirmed = Intake(), list[Frame](), list[int]()

        def put() -> None:
            for frame in frames:
                intake.put(frame)

        def serve() -> None:
            while len(taken) < len(frames) or sum(confirmed) < 2:
                wait_for(intake.wakeup)
                confirmed.append(intake.drain_confirmed())
                while (frame := intake.head()) is not None:
                    taken.append(frame)
                    intake.drop_head()

        threads.run(serve, put, lambda: intake.confirm(2))
        intake.release()
        assert taken == frames

    explore(scenario, modules.edge.edgestream.session, beehive.wakeup, seed=seed)


def test_a_tunnel_that_ends_keeps_nobody(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        intake = Intake()

        def put() -> None:
            for _ in range(3):
                intake.put(Frame(1, FrameType.DATA, bytes(MOST_BYTES)))

        threads.run(put, intake.close)
        intake.release()

    explore(scenario, modules.edge.edgestream.session, beehive.wakeup, seed=seed)


def test_changes_of_devices_wake_their_listener(seed: int) -> None:
    changes = [TwinChange("reported", number) for number in range(3)]

    def scenario(threads: Interleaving) -> None:
        listener, taken = Listener(""), list[TwinChange]()

        def serve() -> None:
            while len(taken) < len(changes):
                wait_for(listener.wakeup)
                taken.extend(listener.drain())

        def put() -> None:
            for change in changes:
                listener.put(change)

        threads.run(serve, put)
        listener.close()
        assert taken == changes

    explore(scenario, modules.edge.devicetwin.feed, beehive.wakeup, seed=seed)
