"""Laws of one property, and the table of its state machine."""

import string
from collections.abc import Iterator
from contextlib import nullcontext
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.apimachinery.device_properties import ModelProperty, number_of
from modules.edge.devicetwin import changes, twins
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.errors import TwinRefused
from modules.edge.devicetwin.past import MAX_AGE, MAX_SIZE, MOST, entries, extended, last_time
from modules.edge.devicetwin.requests import TwinRequest, TwinsRequest, Version
from modules.edge.devicetwin.state import (
    APPLICATION,
    CLOUD,
    OWNER,
    Device,
    Side,
    Twin,
    confirmed,
    decode,
    encode,
    settled,
)
from modules.edge.devicetwin.twins import At
from modules.edge.devicetwin.values import MAX_DEVICE, check_key, check_type

AT = At(1000, 1)
TEMPERATURE = ModelProperty("temperature", "INT", "ReadOnly", "-40", "125", "degree")

_texts = st.text(string.ascii_letters + string.digits, max_size=4)
_KINDS = ("update", "update", "sync", "desire", "confirm", "give back", "withdraw", "remove")
_Step = tuple[str, TwinRequest | None, str, int]
"""A change, with what the clock does before it."""


def _steps(random: Random) -> Iterator[_Step]:
    """Yield changes of few values and versions, so that they repeat and contradict each other."""
    texts = ("", "1", "2", "a")

    def version() -> Version | None:
        return random.choice((None, Version(random.randint(0, 3), random.randint(0, 3))))

    def asked() -> TwinRequest | None:
        if random.random() < 0.15:
            return None
        return TwinRequest(
            random.choice((None, *texts)), random.choice((None, *texts)), random.choice((None, True, False)),
            random.choice((None, None, "string", "int", "deleted", "odd")), version(), version(),
            observed=random.choice((None, *texts)),
        )  # fmt: skip

    for _ in range(random.randint(1, 10)):
        yield random.choice(_KINDS), asked(), random.choice(texts), random.choice((0, 1, 1, 50, 500, -1000))


def _numbers(twin: Twin | None) -> list[int]:
    sides = [] if twin is None else [twin.expected, twin.actual]
    return [number for side in sides for number in ((0, 0) if side is None else (side.cloud, side.edge))]


def _step(twin: Twin | None, kind: str, asked: TwinRequest | None, text: str, at: At) -> Twin | None:
    match kind:
        case "update":
            try:
                return twins.update(twin, asked, None, at)
            except TwinRefused:
                return twin
        case "sync":
            return twins.sync(twin, asked, at)
        case "desire":
            try:
                return twins.desire(twin, text, None, at)
            except TwinRefused:
                return twin
        case "remove":
            return twins.desire(twin, None, None, at)
        case "give back":
            return None if twin is None else twins.give_back(twin, at)
        case "withdraw":
            return None if twin is None else twins.withdraw(twin, lambda value: "no" if value == "1" else "", at)
    device = Device("n/d", twins={} if twin is None else {"p": twin}, number=at.number)
    return confirmed(device, at.number).twins.get("p")


@pytest.mark.parametrize("seed", range(4))
def test_laws_of_a_property(seed: int) -> None:
    """Whatever comes from applications and the cloud, in whatever order and with whatever clock, and it never raises
    anything but a refusal.
    """
    random = Random(seed)  # noqa: S311 - reproducible
    for _ in range(1500):
        twin: Twin | None = None
        now = 10_000
        for number, (kind, asked, text, seconds) in enumerate(_steps(random), 1):
            now += seconds
            at = At(now, number, 100)
            after = _step(twin, kind, asked, text, at)
            if twin is None or after is None:
                assert twin is None, "a property is never forgotten: its versions count"
            else:
                _check_step(twin, after, kind, asked, at)
            if after is not None:
                _check_state(after)
                assert decode(encode(Device("n/d", twins={"p": after}))).twins == {"p": after}, "the row has all of it"
            twin = after


def _check_step(before: Twin, after: Twin, kind: str, asked: TwinRequest | None, at: At) -> None:
    numbers = list(zip(_numbers(before), _numbers(after), strict=True))
    assert all(new >= old for old, new in numbers), "versions never fall"
    for old, new in ((before.expected, after.expected), (before.actual, after.actual)):
        if old is not None and new is not None:
            assert new.timestamp >= old.timestamp, "a value that is newer has a time that is later, as the cloud's is"
            assert new.told >= old.told, "what the cloud has confirmed stays confirmed"
            if kind != "confirm" and new.value != old.value:
                assert new.timestamp > old.timestamp or kind == "sync"
                assert new.due == at.number or kind in ("sync", "desire", "remove"), "the cloud gets the node's change"
    if kind == "sync" and asked is not None:
        _check_sync(before, after, asked, at)
    if kind == "remove" and before.expected is not None and (before.expected.value or "") != (before.desired or ""):
        assert after.expected == before.expected, "a value that the node has set outlives the cloud's"
    actual = before.actual
    if kind == "update" and asked is not None and after is before and actual is not None and actual.value is not None:
        is_repetition = before.is_live and asked.actual == actual.value and asked.expected is None
        since = actual.timestamp if actual.timestamp <= at.now else last_time(before.past)
        assert not is_repetition or 0 <= at.now - since < at.heartbeat, "a repetition counts in time"


def _check_sync(before: Twin, after: Twin, asked: TwinRequest, at: At) -> None:
    """A value of the cloud is taken unless the node has a newer one, which the cloud then gets."""
    sides = (
        (before.expected, after.expected, asked.expected, asked.expected_version),
        (before.actual, after.actual, asked.actual, asked.actual_version),
    )
    if asked.type == "deleted":
        is_old = any(
            old is not None and version is not None and _is_behind(version, old) for old, _, _, version in sides
        )
        for old, new, _, _ in sides if before.is_live else ():
            assert old is None or not is_old or new == replace(old, due=at.number), "the cloud gets what the node has"
        assert after.is_live is (is_old and before.is_live)
        return
    is_old = False
    for old, new, value, version in sides:
        if version is None or value is None or old is None:
            continue
        if is_old:
            assert new == old, "a message with an old side is not taken in parts"
        elif is_old := _is_behind(version, old):
            assert new == replace(old, due=at.number), "the cloud gets what the node has"
        elif new is not None and (new.value, new.cloud, new.edge) != (value, version.cloud, version.edge):
            assert new == old and _refuses(before, asked, value), "a value of the wrong type is skipped"


def _is_behind(version: Version, side: Side) -> bool:
    return side.cloud > version.cloud or side.edge > version.edge


def _refuses(before: Twin, asked: TwinRequest, value: str | None) -> bool:
    """Return whether a property is of a type that has no such value."""
    kind = before.type if before.is_live else asked.type or "string"
    try:
        check_type(kind, value or "")
    except TwinRefused:
        return True
    return False


def _check_state(twin: Twin) -> None:
    expected = twin.expected
    if not twin.is_live:
        assert all(side is None or side.value is None for side in (expected, twin.actual)), "a tombstone has no value"
        return
    if twin.desired:
        assert expected is not None and expected.value is not None, "a wish of the cloud is in force, or was replaced"
    if expected is not None and expected.value == "" and expected.due and not expected.by and expected.edge:
        assert expected.seen or not twin.desired, "what the node withdraws is confirmed"
    if expected is not None and expected.value is not None:
        (*_, last) = entries(twin.past_expected, 0)
        assert (last.value, last.by) == (expected.value, expected.by or "cloud"), "the history ends with what is"


@given(st.lists(_texts, min_size=1, max_size=6), st.integers(0, 5))
def test_a_confirmation_settles_no_later_change(values: list[str], confirmed_up_to: int) -> None:
    """Law: a value that was set after the message left is due until its own confirmation."""
    device = Device("n/d")
    for number, value in enumerate(values, 1):
        twin = twins.update(device.twins.get("p"), TwinRequest(actual=value), None, At(number, number))
        assert twin is not None
        device = Device("n/d", twins={"p": twin}, number=number)
    after = settled(device, confirmed_up_to)
    assert after.twins_are_due is (len(values) > confirmed_up_to)


def test_a_first_report_is_sent_twice() -> None:
    """A cloud of KubeEdge loses the first report of a property that it confirms."""
    twin = twins.update(None, TwinRequest(actual="1"), None, AT)
    assert twin is not None
    once = confirmed(Device("n/d", twins={"p": twin}, number=1), 1)
    assert once.twins_are_due
    assert not confirmed(once, 1).twins_are_due


def test_an_equal_value_is_no_change_for_a_minute() -> None:
    twin = twins.update(None, TwinRequest(actual="1"), None, At(1000, 1, 60_000))
    again = twins.update(twin, TwinRequest(actual="1"), None, At(60_999, 2, 60_000))
    assert again is twin
    later = twins.update(twin, TwinRequest(actual="1"), None, At(61_000, 2, 60_000))
    assert later is not None and later.actual == Side("1", 61_000, edge=2, due=2)


def test_the_expected_value_is_checked_too() -> None:
    """KubeEdge checks it only if there was one before."""
    stored = Twin(actual=Side("1"), type="int")
    with pytest.raises(TwinRefused, match="not int"):
        twins.update(stored, TwinRequest(expected="warm"), None, AT)


def test_a_deleted_property_comes_back_with_higher_versions() -> None:
    twin = twins.update(None, TwinRequest(actual="1", type="int"), None, AT)
    gone = twins.update(twin, None, TEMPERATURE, At(2000, 2))
    assert gone is not None and not gone.is_live and gone.actual is not None and gone.actual.edge == 2
    back = twins.update(gone, TwinRequest(actual="on"), None, At(3000, 3))
    assert back is not None and back.type == "string" and back.actual == Side("on", 3000, edge=3, due=3)


def test_a_property_that_is_not_optional_stays() -> None:
    stored = Twin(actual=Side("1"), optional=False)
    assert twins.update(stored, None, None, AT) is stored
    assert twins.update(stored, TwinRequest(optional=True), None, AT) is stored


@pytest.mark.parametrize(
    ("stored", "asked", "after"),
    [
        (None, None, True), (None, True, True), (None, False, False), (True, None, True), (True, False, False),
        (False, None, False), (False, True, False),
    ],
)  # fmt: skip
def test_a_property_is_optional_until_somebody_says_otherwise(
    stored: bool | None, asked: bool | None, *, after: bool
) -> None:
    """An application or the cloud; and it stays so, as does its type, when the cloud desires a value."""
    twin = None if stored is None else Twin(Side("1"), Side("1"), type="int", optional=stored)
    request = TwinRequest("2", optional=asked, type="int", expected_version=Version(9, 9))
    for changed in (twins.update(twin, request, None, AT), twins.sync(twin, request, AT)):
        assert changed is not None
        assert changed.optional is after
        desired = twins.desire(changed, "3", None, AT)
        assert desired is not None
        assert (desired.optional, desired.type) == (after, "int")


def test_an_old_version_of_the_cloud_is_refused_and_named() -> None:
    stored = Twin(expected=Side("20", cloud=5, edge=2, told=True))
    after = twins.sync(stored, TwinRequest(expected="30", expected_version=Version(4, 2)), AT)
    assert after is not None and after.expected == Side("20", cloud=5, edge=2, due=1, told=True)


def test_values_of_the_cloud_without_metadata_or_version_do_no_harm() -> None:
    """KubeEdge's edge dereferences null, and the device is dead until a restart (issue 7126)."""
    assert twins.sync(None, TwinRequest(expected="30"), AT) is None
    assert twins.sync(None, None, AT) is None
    taken = twins.sync(None, TwinRequest(expected="30", expected_version=Version(1, 0)), AT)
    assert taken is not None and taken.type == "string"


def test_a_desired_value_becomes_the_expected_one() -> None:
    twin = twins.desire(None, "30.5", ModelProperty("t", "FLOAT", "ReadWrite"), AT)
    past = '1000 ["30.5","cloud"]\n'
    assert twin == Twin(Side("30.5", 1000, cloud=1), type="float", desired="30.5", past_expected=past)


def test_a_value_set_at_the_edge_stays_until_the_cloud_changes_its_own() -> None:
    twin = twins.desire(None, "30", None, AT)
    local = twins.update(twin, TwinRequest(expected="35"), None, At(2000, 2))
    assert twins.desire(local, "30", None, At(3000, 3)) is local
    after = twins.desire(local, "31", None, At(4000, 4))
    assert after is not None and after.expected == Side("31", 4000, cloud=2, edge=1)


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        (TwinRequest(actual="29", observed="30"), True),
        (TwinRequest(actual="30"), True),
        (TwinRequest(actual="29", observed="25"), False),
        (TwinRequest(actual="29"), False),
    ],
    ids=["mapper", "reached", "former", "silent"],
)
def test_the_cloud_learns_once_that_a_device_has_its_desired_value(asked: TwinRequest, is_told: bool) -> None:
    """A mapper that repeats an earlier value has not received the new one yet, and undoes nothing."""
    twin = twins.desire(None, "30", None, AT)
    after = twins.update(twin, asked, None, At(2000, 2))
    assert after is not None and after.expected is not None
    assert (after.expected.value, after.expected.due) == ("30", 2 if is_told else 0)
    assert after.expected.timestamp == (2000 if is_told else 1000)
    again = twins.update(after, TwinRequest(actual="28", observed="30"), None, At(3000, 3))
    assert again is not None and again.expected is not None
    assert again.expected.due == (2 if is_told else 3)
    assert twins.desire(again, "31", None, At(4000, 4)) != again


def test_another_spelling_of_a_desired_value_is_the_value() -> None:
    """By the type of the property: the cloud learns it, and applications get no delta."""
    model = ModelProperty("p", "FLOAT", "ReadWrite")
    after = twins.update(twins.desire(None, "60", model, AT), TwinRequest(actual="60.0"), model, At(2000, 2))
    assert after is not None and after.expected is not None
    assert (after.expected.seen, after.expected.due, twins.differs(after)) == (True, 2, False)
    text = twins.update(twins.desire(None, "60", None, AT), TwinRequest(actual="60.0"), None, At(2000, 2))
    assert text is not None and twins.differs(text)


def test_a_desired_value_that_is_taken_back_is_expected_no_more() -> None:
    twin = twins.desire(None, "30", None, AT)
    after = twins.desire(twin, "", None, At(2000, 2))
    assert after is not None and after.expected is not None and after.expected.value == ""
    assert not twins.differs(after)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (TwinRequest(actual="warm"), "not int or integer .*INT -40 to 125 degree"),
        (TwinRequest(actual="126"), "126 is out of range .*-40 to 125 degree"),
        (TwinRequest(expected="20"), "ReadOnly"),
    ],
)
def test_the_model_has_the_allowed_values(asked: TwinRequest, reason: str) -> None:
    with pytest.raises(TwinRefused, match=reason):
        twins.update(None, asked, TEMPERATURE, AT)


@pytest.mark.parametrize(
    ("kind", "text", "good"),
    [
        ("int", "-5", True), ("int", "1.0", False), ("int", "", False), ("int", "1_0", False), ("int", "0x1", False),
        ("integer", str(2**63 - 1), True), ("integer", str(2**63), False), ("int", "٣", False), ("int", "1\n", False),
        ("float", "1e5", True), ("float", ".5", True), ("float", "1e400", False), ("float", " 1", False),
        ("boolean", "true", True), ("boolean", "True", False), ("string", "21.5 °C", True), ("", "", True),
        ("bytes", "aGk=", True), ("bytes", "aGk", False), ("odd", "1", False),
    ],
)  # fmt: skip
def test_types(kind: str, text: str, good: bool) -> None:
    """KubeEdge's types, and the models' double and bytes; no infinite numbers."""
    if good:
        check_type(kind, text)
        return
    with pytest.raises(TwinRefused):
        check_type(kind, text)


@pytest.mark.parametrize("name", ["", "a b", "ä", "a\n", "x" * 129, "a/+\0"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(TwinRefused):
        check_key(name)


@given(st.text(max_size=30))
def test_a_number_is_finite(text: str) -> None:
    number = number_of(text)
    assert number is None or abs(number) < float("inf")


@given(st.lists(st.tuples(st.text(max_size=300), st.integers(0, 40_000_000)), max_size=60))
def test_the_past_is_bounded_and_has_the_newest(reports: list[tuple[str, int]]) -> None:
    """Law: by number, age and size; what is kept is the end of what was reported."""
    past, at = "", 0
    told: list[tuple[int, str]] = []
    for value, later in reports:
        at += later
        past = extended(past, value, at)
        told.append((at, value))
        kept = [(one.at, one.value) for one in entries(past, at)]
        assert kept == (told[-len(kept) :] if kept else [])
        assert len(kept) <= MOST and len(past) <= MAX_SIZE and all(at - when <= MAX_AGE for when, _ in kept)


def test_reported_and_expected_values_have_pasts_of_their_own() -> None:
    twin = twins.update(None, TwinRequest(actual="1", expected="2"), None, AT)
    assert twin is not None
    assert entries(twin.past, 1000) == [(1000, "1", "")]
    assert entries(twin.past_expected, 1000) == [(1000, "2", "application")]


@pytest.mark.parametrize("behind", [1, 3_600_000])
def test_a_repetition_is_none_although_the_clock_was_set_back(behind: int) -> None:
    """Without a clock in the machine, a power cut leaves one behind for as long as nobody tells the time: each report
    of a mapper would be written to the disk and sent to the cloud until it has caught up.
    """
    begin, heartbeat = 1_000_000_000_000, 60_000
    twin = twins.update(None, TwinRequest(actual="20"), None, At(begin, 1, heartbeat))
    numbers = list[int]()
    for second in range(121):
        now = begin - behind + 1000 * second
        twin = twins.update(twin, TwinRequest(actual="20"), None, At(now, 2 + second, heartbeat))
        assert twin is not None and twin.actual is not None
        numbers.append(twin.actual.due)
    assert len(set(numbers)) <= 4, "after the clock's change, and after each heartbeat"
    assert numbers[-1] > numbers[0], "and it goes on"


def test_a_value_is_newer_than_the_one_before_although_the_clock_was_set_back() -> None:
    """The cloud keeps the value with the later time: found by simulation, where no report counted for an hour."""
    twin = twins.desire(None, "30", None, At(10_000, 1))
    twin = twins.update(twin, TwinRequest(actual="1"), None, At(10_000, 2))
    for number, value in enumerate(("2", "3"), 3):
        twin = twins.update(twin, TwinRequest(actual=value, expected=value), None, At(500, number))
    twin = twins.desire(twin, "31", None, At(600, 5))
    assert twin is not None and twin.expected is not None and twin.actual is not None
    assert (twin.actual.timestamp, twin.expected.timestamp) == (10_002, 10_003)


def test_a_device_that_is_too_large_may_shrink() -> None:
    """As one whose bound was another one in an earlier version: it could report nothing else."""
    large = "x" * (MAX_DEVICE + 9)
    device = Device("ns/d", number=1, twins={"t": Twin(expected=Side(large)), "u": Twin(actual=Side("ab"))})
    for value, is_taken in (("a", True), ("ab", True), ("abc", False)):
        request = TwinsRequest("e", {"u": TwinRequest(actual=value)})
        with nullcontext() if is_taken else pytest.raises(TwinRefused, match="characters together"):
            changes.update_twins(device, request, {}, MessageStamp(1, str), Rules(heartbeat=0))


def test_a_value_that_is_given_back_to_the_cloud_is_not_told_to_it_as_seen_once_more() -> None:
    """The cloud has it from what is due."""
    for value in ("mine", "clouds"):  # an owner may set what the cloud desires already
        twin = twins.give_back(Twin(expected=Side(value, by=OWNER), desired="clouds"), AT)
        given = twin.expected
        assert given is not None
        assert (given.value, given.due, given.seen, given.by) == ("clouds", AT.number, True, "")
        assert twins.give_back(twin, At(2000, 2)) is twin


def test_who_writes_a_value_that_is_withdrawn_is_not_its_writer_any_more() -> None:
    twin = twins.withdraw(Twin(expected=Side("9", by=OWNER)), lambda _: "no", AT)
    assert [(one.value, one.by) for one in entries(twin.past_expected, AT.now)] == [("", CLOUD)]


@pytest.mark.parametrize(
    ("twin", "writer"),
    [
        (Twin(expected=Side("1", edge=1)), APPLICATION),
        (Twin(expected=Side("1", cloud=1)), CLOUD),
        (Twin(expected=Side("1", edge=1), desired="1"), CLOUD),
        (Twin(expected=Side("1", by=OWNER), desired="1"), OWNER),
        (Twin(expected=Side("", by=OWNER)), ""),
        (Twin(), ""),
    ],
)
def test_who_has_written_an_expected_value_of_a_row_of_any_version(twin: Twin, writer: str) -> None:
    assert twin.expected_by == writer
