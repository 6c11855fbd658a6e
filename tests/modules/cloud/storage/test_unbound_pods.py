"""The order in which a scheduler looks at pods without a node."""

from random import Random
from typing import Any

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.unbound_pods import Rank, UnboundPods, priority_of


def _pod(priority: int | None, created: str) -> dict[str, Any]:
    spec = {} if priority is None else {"priority": priority}
    return {"metadata": {"creationTimestamp": created}, "spec": spec}


def _order(pods: UnboundPods) -> list[str]:
    found, rank = list[str](), pods.after(None)
    while rank is not None:
        found.append(rank.key.name)
        rank = pods.after(rank)
    return found


def test_the_order_is_sorted_after_any_changes() -> None:
    chance = Random(7)  # noqa: S311 - reproducible on purpose
    pods, known = UnboundPods(), dict[ObjectKey, dict[str, Any]]()
    for _ in range(2_000):
        key = ObjectKey("Pod", "default", f"p{chance.randrange(60)}")
        if chance.random() < 0.4:
            known.pop(key, None)
            pods.drop(key)
        else:
            known[key] = _pod(chance.choice((None, 0, 7, -3)), f"2026-01-0{chance.randrange(1, 4)}")
            pods.put(key, known[key])
        wanted = sorted(  # of one second, in the order in which they came, as in `known`
            known, key=lambda each: (-priority_of(known[each]), known[each]["metadata"]["creationTimestamp"])
        )
        assert _order(pods) == [each.name for each in wanted]


def test_a_round_goes_on_after_a_pod_that_has_gone() -> None:
    pods = UnboundPods()
    for name in ("a", "b", "c"):
        pods.put(ObjectKey("Pod", "default", name), _pod(0, "2026"))
    second = Rank(0, "2026", 1, ObjectKey("Pod", "default", "b"))
    pods.drop(second.key)
    pods.drop(second.key)
    after = pods.after(second)
    assert after is not None
    assert after.key.name == "c"
