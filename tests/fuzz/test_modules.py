"""Live modules that get mutated recordings of a real cloud: none of them fails, and the next good message is served."""

import json
from pathlib import Path
from random import Random

import pytest

from beehive import Message, ModuleName
from beehive.codec import LONGEST_TEXT, decode
from beehive.testing import Harness
from tests.edged.conftest import Bench
from tests.edged.conftest import pod as good_pod
from tests.fuzz import mqtt
from tests.fuzz.mutate import misshape
from tests.fuzz.wire import recorded_frames
from tests.metamanager.support import META, from_cloud, node, thing
from tests.modules.edge.devicetwin.recorded import Node

CASES = 250


def misshapen(seed: int, *, side: str) -> list[Message]:
    """Return messages as edgehub or metamanager forwards them: well-formed, with parts of another kind, missing or odd.

    Messages that the codec rejects for a long text in the route are left out.
    """
    random = Random(f"{side}/{seed}")
    whole = [json.loads(frame) for frame in recorded_frames() if frame.endswith(b"}\n")]
    pods = [each for each in whole if "/pod/" in each["route"]["resource"] and isinstance(each.get("content"), dict)]
    found: list[Message] = []
    for number in range(2 * CASES):
        message = json.loads(json.dumps(random.choice(pods or whole if number % 2 else whole)))
        part = random.choice(("content", "content", "content", "route"))
        for _ in range(random.randint(1, 3)):
            message[part] = misshape(random, message.get(part))
        route = message["route"] if isinstance(message["route"], dict) else {}
        message["route"] = {key: value for key, value in route.items() if isinstance(value, str)}
        message["header"] = {"msg_id": f"{side}-{number}", "timestamp": 1, "resourceversion": str(number)}
        if any(len(text.encode()) > LONGEST_TEXT for text in message["route"].values()):
            continue
        found.append(decode(json.dumps(message).encode()))
    return found[:CASES]


def failures(bee: Harness, name: str) -> int:
    """Return how often a module was restarted."""
    return bee.hive.slot(name).restarts


@pytest.mark.parametrize("seed", range(2))
def test_metamanager_stores_right_objects_after_wrong_ones(seed: int) -> None:
    """It is never restarted, and a good object is stored and acknowledged."""
    with node(connected=True, seed=seed) as bee:
        for message in misshapen(seed, side="meta"):
            bee.send(META, message)
            assert failures(bee, META) == 0, message
        bee.run_for(120.0)
        bee.forget()
        good = from_cloud(bee, "default/configmap/good", "insert", thing("good", version=10**9, data={"a": "b"}))
        bee.send(META, good)
        assert failures(bee, META) == 0
        assert any(sent.message.parent_id == good.id for sent in bee.sent)


@pytest.mark.parametrize("seed", range(2))
def test_edged_runs_a_good_pod_after_wrong_ones(seed: int, tmp_path: Path) -> None:
    """No pod restarts it, and a good pod runs."""
    bench = Bench(tmp_path, seed)
    with bench.bee as bee:
        bee.start()
        for number, message in enumerate(misshapen(seed, side="edged")):
            bee.send(ModuleName.EDGED, message)
            if number % 25 == 0:
                bee.run_for(20.0)
            assert failures(bee, ModuleName.EDGED) == 0, message
        bee.run_for(60.0)
        bench.tell("insert", good_pod("good"))
        bee.run_for(60.0)
        assert failures(bee, ModuleName.EDGED) == 0
        assert "Running" in bench.meta.phases("good")


@pytest.mark.parametrize("seed", range(2))
def test_devicetwin_answers_a_good_report_after_wrong_ones(seed: int, tmp_path: Path) -> None:
    """No topic and no payload of an application restarts it; a good report is answered, and what waits has gone."""
    random, topics, reports = Random(f"twin/{seed}"), *(target.seeds() for target in mqtt.TARGETS[:2])
    twin = Node(tmp_path, name="edge-1")
    try:
        for payload in mqtt.hostile(random, CASES):
            twin.from_application(random.choice(topics).decode(), payload)
            assert failures(twin.bee, ModuleName.DEVICETWIN) == 0, payload
        metadata = {"name": "thermo", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        device = twin.bee.message(
            "default/device/thermo", "update", {"metadata": metadata}, source="edgecontroller", group="resource"
        )
        twin.from_cloud(device)
        for payload in mqtt.hostile(random, CASES):
            twin.from_application(topics[0].decode(), payload)
            assert failures(twin.bee, ModuleName.DEVICETWIN) == 0, payload
        before = len(twin.published)
        twin.from_application(topics[0].decode(), reports[0].decode())
        said = [payload for topic, payload in twin.published[before:] if topic.endswith("/update/result")]
        assert [one["twin"]["t"]["actual"]["value"] for one in said] == ["21"]
    finally:
        twin.stop()
