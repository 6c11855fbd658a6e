"""The floor of eventbus: paho-mqtt alone takes messages and publishes others, on a process of its own.

python -m tests.bench.paho_alone PORT RATE SECONDS; the last line that it prints is its processor time in seconds.
"""

import sys
import threading
from time import monotonic, process_time

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.chaos.mqtt import TOPICS, text_of


def main() -> None:
    """Run for the given time."""
    port, rate, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    ready, never = threading.Event(), threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, client_id="floor", clean_session=False)
    client.max_inflight_messages_set(5000)
    client.on_connect = lambda one, *_rest: one.subscribe("plant/user/#", 1)
    client.on_subscribe = lambda *_rest: ready.set()
    client.on_message = lambda *_rest: None
    client.connect("127.0.0.1", port)
    client.loop_start()
    ready.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    begin, spent, number = monotonic(), process_time(), 0
    while number < rate * seconds:
        due = min(int(rate * seconds), int((monotonic() - begin) * rate))
        for each in range(number + 1, due + 1):
            client.publish(f"out/{each % TOPICS}", text_of(each), 1)
        number = max(number, due)
        never.wait(0.01)
    sys.stdout.write(f"{process_time() - spent}\n")
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    main()
