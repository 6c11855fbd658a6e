"""What a node may write is limited, in number and memory."""

import sys
from random import Random
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, key_kind, key_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.authorization.node_accounts import NodeAccounts, _charge_of, _cost, most_mirror_pods

KIB = 1024


class Site:
    """The account of node n1."""

    def __init__(self) -> None:
        self.simulation = Simulation()
        self.accounts = NodeAccounts(self.simulation.clock)
        self.own: JsonObject = {}

    def create(self, obj: JsonObject, *, reported: bool = True) -> str:
        """Create an object in the node's name; return why it is refused, "" if it is not."""
        why = self.accounts.refusal("n1", None, obj, self.own)
        if not why and reported:
            self.accounts.put(key_of(obj), obj)
        return why


@pytest.fixture
def site() -> Site:
    return Site()


def pod(name: str, size: int = 0, *, mirror: bool = True, node: str = "n1", **status: Any) -> JsonObject:
    annotations = {CONFIG_MIRROR: "x" * size} if mirror else {}
    metadata = {"namespace": "default", "name": name, "annotations": annotations}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": node}, "status": status}


def test_mirror_pods_have_a_number(site: Site) -> None:
    site.own = {"status": {"capacity": {"pods": "3"}}}
    assert [site.create(pod(name)) for name in "abcd"] == [""] * 3 + [
        'exceeded quota: node "n1" has 3 mirror pods, limited: 3'
    ]
    site.accounts.put(key_of(pod("b")), None)
    assert site.create(pod("e")) == ""


@pytest.mark.parametrize(
    ("capacity", "most"),
    [(None, 110), ("20", 20), ("100000", 250), ("-1", 110), ("0", 0), ("9" * 5000, 110), ([], 110)],
)
def test_the_number_is_the_nodes_capacity_within_bounds(capacity: Any, most: int) -> None:
    assert most_mirror_pods({"status": {"capacity": {"pods": capacity}}}) == most


def test_mirror_pods_have_bytes(site: Site) -> None:
    """The review's attack: some of 1.4 MB."""
    assert site.create(pod("a", 1400 * KIB)) == ""
    assert "more than 1572864 bytes of memory" in site.create(pod("b", 1400 * KIB))
    assert site.create(pod("c", 10 * KIB)) == ""


def test_many_small_values_count_as_the_memory_that_they_take(site: Site) -> None:
    assert "exceeded quota" in site.create(pod("a", conditions=[{}] * 20_000))


@pytest.mark.parametrize(
    "values",
    [
        [{"a": [number]} for number in range(1000)],
        [{"key": f"value {number}"} for number in range(1000)],
        [[[number]] for number in range(1000, 2000)],
        [f"a text of some length, {number}" for number in range(1000)],
        {f"key {number}": {} for number in range(1000)},
    ],
    ids=["lists", "objects", "nested", "texts", "keys"],
)
def test_what_counts_is_not_much_less_than_the_memory(values: Any) -> None:
    found = msgspec.json.decode(msgspec.json.encode(values))
    assert memory_of(found, set()) <= 1.15 * _cost(values)


def memory_of(value: Any, seen: set[int]) -> int:
    """The bytes of a JSON value and of all in it, each once."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return sys.getsizeof(value) + sum(memory_of(each, seen) for each in inner)


def test_a_created_pod_counts_before_it_is_reported_and_no_more_if_it_never_is(site: Site) -> None:
    assert site.create(pod("a", 1400 * KIB), reported=False) == ""
    assert site.create(pod("b", 1400 * KIB)) != ""
    site.simulation.run_for(61.0)
    assert site.create(pod("b", 1400 * KIB)) == ""


def test_a_status_counts_and_may_always_change_if_it_does_not_grow(site: Site) -> None:
    """Also when the account has become too small, as other pods of the node have gone."""
    bound = pod("a", mirror=False)
    site.accounts.put(key_of(bound), bound)
    large = {**bound, "status": {"message": "x" * 1500 * KIB}}
    assert site.accounts.refusal("n1", bound, large, None) == ""
    site.accounts.put(key_of(large), large)
    larger = {**bound, "status": {"message": "x" * 1600 * KIB}}
    assert "exceeded quota" in site.accounts.refusal("n1", large, larger, None)
    site.accounts.put(key_of(larger), larger)
    for size in (1600 * KIB, 1600 * KIB - 1):
        assert site.accounts.refusal("n1", larger, {**bound, "status": {"message": "y" * size}}, None) == ""


def test_the_limit_grows_with_the_pods_that_others_bind_to_the_node(site: Site) -> None:
    for number in range(110):
        bound = pod(str(number), mirror=False, message="x" * 14 * KIB)
        site.accounts.put(key_of(bound), bound)
    assert site.create(pod("mirror", 1500 * KIB)) == ""


@pytest.mark.parametrize(
    ("kind", "most"), [("Event", 16 * KIB), ("Lease", 16 * KIB), ("CertificateSigningRequest", 64 * KIB)]
)
def test_small_objects_are_small(site: Site, kind: str, most: int) -> None:
    def of(size: int) -> JsonObject:
        return {"kind": kind, "metadata": {"name": "a"}, "spec": {"text": "x" * size}}

    assert site.create(of(most - 200)) == ""
    assert f"at most {most} bytes" in site.create(of(most))


def test_a_node_of_one_name_does_not_pay_for_another(site: Site) -> None:
    other = pod("a", 1400 * KIB, node="n2")
    site.accounts.put(key_of(other), other)
    assert site.create(pod("b", 1400 * KIB)) == ""
    site.accounts.put(key_of(other), None)
    assert [*site.accounts._cost] == [*site.accounts._mirrors] == ["n1"], "of a node that is gone nothing is kept"


@pytest.mark.parametrize("seed", range(6))
def test_an_account_is_the_sum_of_the_stored_objects(site: Site, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over any creations, reports, updates and deletions; and only what would be too much is refused."""
    monkeypatch.setattr("modules.cloud.authorization.node_accounts._COST", 4000)
    monkeypatch.setattr("modules.cloud.authorization.node_accounts._COST_OF_POD", 300)
    random = Random(seed)  # noqa: S311 - reproducible
    site.own = {"status": {"capacity": {"pods": "3"}}}
    stored: dict[str, JsonObject] = {}
    reserved: dict[str, tuple[JsonObject, float]] = {}
    now = 0.0
    for _ in range(200):
        name = random.choice("abcdef")
        old, is_mirror = stored.get(name), random.random() < 0.7
        is_mirror = is_mirror if old is None else bool(annotations_of(old))
        new = pod(name, random.randint(0, 1200), mirror=is_mirror, message="x" * random.randint(0, 300))
        everything = [*stored.values(), *(obj for obj, _ in reserved.values())]
        match random.randrange(5):
            case 0 | 1:
                for key in [key for key, (_, since) in reserved.items() if now - since >= 60.0]:
                    del reserved[key]
                everything = [*stored.values(), *(obj for obj, _ in reserved.values())]
                cost = sum(_charge_of(key_kind(obj), obj).cost for obj in everything)
                before = _charge_of(key_kind(old), old).cost if old is not None else 0
                limit = 4000 + 300 * sum(_charge_of(key_kind(obj), obj).is_bound for obj in everything)
                own = _charge_of(key_kind(new), new)
                mirrors = sum(_charge_of(key_kind(obj), obj).is_mirror for obj in everything)
                is_refused = own.cost > before and cost - before + own.cost > limit
                is_refused = is_refused or (old is None and own.is_mirror and mirrors >= 3)
                assert not (old and is_refused and site.accounts.has_room("n1", key_of(new), new["status"]))
                assert not site.accounts.has_room("n2", key_of(new), new["status"])
                assert bool(site.accounts.refusal("n1", old, new, site.own)) is is_refused
                if not is_refused and old is None and name not in reserved:
                    reserved[name] = new, now
                elif not is_refused and old is not None:
                    stored[name] = new
                    (site.accounts.put if is_mirror else site.accounts.put_status)(key_of(new), new)
            case 2:
                made, _ = reserved.pop(name, (new, 0.0))
                stored[name] = made
                site.accounts.put(key_of(made), made)
            case 3:
                stored.pop(name, None)
                reserved.pop(name, None)
                site.accounts.put(key_of(new), None)
            case _:
                seconds = random.choice((1.0, 30.0, 61.0))
                site.simulation.run_for(seconds)
                now += seconds
        everything = [*stored.values(), *(obj for obj, _ in reserved.values())]
        assert site.accounts._cost["n1"] == sum(_charge_of(key_kind(obj), obj).cost for obj in everything)
        mirrors = sum(_charge_of(key_kind(obj), obj).is_mirror for obj in everything)
        assert site.accounts._mirrors["n1"] == mirrors


def annotations_of(obj: JsonObject) -> JsonObject:
    found: JsonObject = obj["metadata"]["annotations"]
    return found


def test_a_node_does_not_pay_for_annotations_of_the_authors_of_its_pods(site: Site) -> None:
    """Ten pods with long annotations stopped all statuses of the node."""
    long = {"long": "x" * 200 * KIB}
    for number in range(10):
        made = pod(f"other-{number}", mirror=False)
        site.accounts.put(key_of(made), {**made, "metadata": {**made["metadata"], "annotations": long}})
    victim = pod("victim", mirror=False)
    site.accounts.put(key_of(victim), victim)
    assert site.accounts.refusal("n1", victim, {**victim, "status": {"message": "x" * KIB}}, site.own) == ""


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"a": "x" * KIB}, ""),
        ({}, {"a": "x" * 5 * KIB}, "exceeded quota"),
        ({"a": "x" * 5 * KIB}, {"a": "x" * 5 * KIB, "b": "x"}, "exceeded quota"),
        ({"a": "x" * 5 * KIB}, {"a": "y" * 5 * KIB}, ""),
        ({"a": "x" * 5 * KIB}, {}, ""),
        ({CONFIG_MIRROR: "x"}, {}, "a mirror pod stays one"),
        ({}, {CONFIG_MIRROR: "x"}, "no other pod becomes one"),
    ],
)
def test_the_annotations_that_a_node_gives_a_pod(
    site: Site, before: dict[str, str], after: dict[str, str], words: str
) -> None:
    """A mirror pod without its mark would be one that others have bound to the node, which pays for no spec of it."""
    old, new = ({**pod("a"), "metadata": {"namespace": "default", "name": "a", "annotations": each}}
                for each in (before, after))  # fmt: skip
    site.accounts.put(key_of(old), old)
    why = site.accounts.refusal("n1", old, new, site.own)
    assert words in why
    assert bool(words) == bool(why)
