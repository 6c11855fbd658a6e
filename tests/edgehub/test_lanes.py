"""The order of messages: the node, its pods, uploads, events; no lane starves, no object goes backwards."""

import random

import pytest

from beehive import Message, ModuleName
from edgehub.classes import Entry, classify
from edgehub.lanes import LOOKED_AT, SHARE, Lane, Lanes, lane_of
from tests.edgehub.beds import Bed, started
from tests.edgehub.messages import message

LEASE = message("kube-node-lease/lease/n1", "update", sync=True)
NODE = message("null/nodepatch/n1", "patch", sync=True)
POD = message("default/podpatch/web", "patch", sync=True)
QUERY = message("default/secret/s", "query", sync=True)
UPLOAD = message("default/device/d", "upload")
EVENT = message("default/event/e", "insert")


def entry(sent: Message) -> Entry:
    """As the module makes it."""
    return Entry(sent, b"x", classify(sent))


@pytest.mark.parametrize(
    ("sent", "lane"),
    [
        (LEASE, Lane.NODE),
        (NODE, Lane.NODE),
        (message("null/node/n1", "insert", sync=True), Lane.NODE),
        (POD, Lane.PODS),
        (message("default/podpatch/web", "patch"), Lane.PODS),
        (message("default/pod/web", "delete", sync=True), Lane.PODS),
        (QUERY, Lane.PODS),
        (UPLOAD, Lane.UPLOADS),
        (message("$hw/events/upload", "upload", group="user"), Lane.UPLOADS),
        (EVENT, Lane.EVENTS),
        (message("default/event/e", "update"), Lane.EVENTS),
        (message("default/event/e", "insert", sync=True), Lane.EVENTS),
    ],
)
def test_each_message_has_a_lane(sent: Message, lane: Lane) -> None:
    assert lane_of(sent, classify(sent)) is lane


def order(lanes: Lanes) -> list[str]:
    """Ids as they leave."""
    ids = []
    while (key := lanes.next(lambda _: True)) is not None:
        ids.append(lanes.remove(key).message.id)
    return ids


def test_the_node_comes_before_its_pods_and_events_last() -> None:
    lanes = Lanes()
    for number, sent in enumerate((EVENT, UPLOAD, QUERY, POD, NODE, LEASE)):
        lanes.put(number, entry(sent))
    assert order(lanes) == [each.id for each in (NODE, LEASE, QUERY, POD, UPLOAD, EVENT)]


def test_a_lane_that_was_empty_meanwhile_waits_anew() -> None:
    lanes = Lanes()
    lanes.put("first", entry(UPLOAD))
    for number in range(3 * SHARE):
        lanes.put(number, entry(message(f"default/secret/{number}", "query", sync=True)))
    for number in range(SHARE - 1):
        assert lanes.next(lambda _: True) == number
        lanes.remove(number)
    lanes.pop("first")
    lanes.put("second", entry(UPLOAD))
    assert order(lanes).index(UPLOAD.id) == SHARE


def test_nothing_is_kept_of_what_has_left() -> None:
    lanes = Lanes()
    for number in range(3):
        lanes.put(number, entry(message(f"default/event/{number}", "insert")))
    order(lanes)
    assert not lanes._about


def test_what_must_not_leave_yet_costs_the_same_however_much_waits() -> None:
    """While a slow disk writes thousands of uploads, each new one is looked at for the next to leave."""
    lanes, looked = Lanes(), []

    def may_leave(one: Entry) -> bool:
        looked.append(one)
        return False

    for number in range(5000):
        lanes.put(number, entry(UPLOAD))
    assert lanes.next(may_leave) is None
    assert len(looked) == LOOKED_AT


def test_no_lane_starves_but_the_events() -> None:
    """However many statuses there are, each ninth message is an upload. An event comes before nothing that waits."""
    lanes, events, uploads = Lanes(), [], []
    for number in range(100):
        events.append(message(f"default/event/{number}", "insert"))
        uploads.append(message(f"default/device/{number}", "upload"))
        lanes.put(("event", number), entry(events[-1]))
        lanes.put(("upload", number), entry(uploads[-1]))
        lanes.put(("pod", number), entry(message(f"default/podpatch/{number}", "patch", sync=True)))
    left = order(lanes)
    assert left[200:] == [each.id for each in events]
    places = [left.index(each.id) for each in uploads]
    assert places == sorted(places)
    assert places[0] <= SHARE + 1
    assert places[10] <= 11 * (SHARE + 1) + 11


@pytest.mark.parametrize("seed", range(20))
def test_messages_about_one_object_leave_in_their_order(seed: int) -> None:
    """Also if the first message has no waiting sender and a later one has."""
    draw, lanes = random.Random(seed), Lanes()  # noqa: S311 - reproducible on purpose
    sent: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}

    def leave() -> None:
        key = lanes.next(lambda _: True)
        if key is not None:
            one = lanes.remove(key).message
            left.setdefault(one.route.resource.replace("podpatch", "pod"), []).append(one.id)

    kinds = ("device", "pod", "podpatch", "event", "lease", "secret")
    for number in range(400):
        about = f"default/{draw.choice(kinds)}/{draw.randrange(3)}"
        one = message(about, draw.choice(["insert", "upload", "delete"]), sync=draw.random() < 0.5)
        sent.setdefault(about.replace("podpatch", "pod"), []).append(one.id)
        lanes.put(number, entry(one))
        if draw.random() < 0.4:
            leave()
    while len(lanes):
        leave()
    assert left == sent


def events_sent(bed: Bed) -> int:
    """How many events have left."""
    return sum("/event/" in one.route.resource for one in bed.sent())


@pytest.mark.parametrize("seconds_of_events", [0.0, 1.0, 5.0])
def test_a_status_finds_most_of_the_burst_after_any_events(seconds_of_events: float) -> None:
    """120 events before the patches that somebody waited for made 30 pods come up in 4.9 s and not in 1.6 s."""
    bed = started(message_qps=8, message_burst=20)
    with bed.bee:
        for number in range(100):
            bed.hub(message(f"default/event/{number}", "insert"))
        bed.bee.run_for(seconds_of_events)
        before = events_sent(bed)
        assert before == 2 + seconds_of_events * 8, "two at a time, an eighth of the burst"
        patches = [message(f"default/podpatch/{number}", "patch", {}, source="edged") for number in range(24)]
        for patch in patches:
            bed.bee.future(ModuleName.EDGEHUB, patch)
        bed.bee.settle()
        assert [one.id for one in bed.sent() if "/podpatch/" in one.route.resource] == [p.id for p in patches[:18]]
        bed.bee.run_for(0.76)
        assert {patch.id for patch in patches} <= {one.id for one in bed.sent()}
        assert events_sent(bed) == before
        bed.bee.run_for(30)
        assert events_sent(bed) == 100


def test_events_that_waited_for_the_rate_leave_after_a_status_that_did_not() -> None:
    bed = started(message_qps=8, message_burst=20)
    with bed.bee:
        for number in range(4):
            bed.hub(message(f"default/event/{number}", "insert"))
        bed.hub(message("default/podpatch/web", "patch", {}, source="edged"))
        assert events_sent(bed) == 2
        bed.bee.run_for(5)
        assert events_sent(bed) == 4


def test_without_a_limit_events_leave_immediately() -> None:
    """`messageQPS: 0`."""
    bed = started(message_qps=0, message_burst=0)
    with bed.bee:
        for number in range(10):
            bed.hub(message(f"default/event/{number}", "insert"))
        assert events_sent(bed) == 10
