"""Which pods make room for a critical one."""

from fractions import Fraction

import pytest
from msgspec.structs import replace

from edged.admission.preemption import pods_to_preempt
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.types import Pod, Quantity, ResourceRequirements
from tests.edged.pods.builders import a_container, a_pod

CRITICAL = 2_000_000_000


def asking(name: str, cpu: str = "", memory: str = "", *, priority: int | None = 0, limited: bool = False) -> Pod:
    requests: dict[str, Quantity] = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount}
    resources = ResourceRequirements(requests=requests, limits=requests if limited else {})
    made = a_pod(a_container(resources=resources), meta={"name": name, "uid": name})
    return replace(made, spec=replace(made.spec, priority=priority))


BURSTABLE = asking("burstable", "500m"), asking("large", "1500m"), asking("both", "500m", "1Gi")
GUARANTEED = asking("guaranteed", "2", "2Gi", limited=True)
BEST_EFFORT = asking("best-effort")
STATIC = asking("static", "2", priority=None)
STATIC = replace(STATIC, metadata=replace(STATIC.metadata, annotations={CONFIG_SOURCE: "file"}))


@pytest.mark.parametrize(
    ("missing", "others", "chosen"),
    [
        ({"cpu": "0.3"}, [BEST_EFFORT, *BURSTABLE, GUARANTEED], ["burstable"]),
        ({"cpu": "1.4"}, [*BURSTABLE, GUARANTEED], ["large"]),
        ({"cpu": "1.9"}, [*BURSTABLE, GUARANTEED], ["large", "burstable"]),
        ({"cpu": "0.4", "memory": str(1 << 29)}, [*BURSTABLE, GUARANTEED], ["both"]),
        ({"cpu": "3"}, [*BURSTABLE, GUARANTEED], ["large", "guaranteed"]),
        ({"pods": "1"}, [GUARANTEED, BEST_EFFORT, *BURSTABLE], ["best-effort"]),
        ({"cpu": "5"}, [*BURSTABLE, GUARANTEED], []),
        ({"example.com/gpu": "1"}, [*BURSTABLE, GUARANTEED], []),
        ({"cpu": "1"}, [asking("critical", "2", priority=CRITICAL + 2000)], []),
        ({"cpu": "1"}, [asking("less critical", "2", priority=CRITICAL)], ["less critical"]),
    ],
)
def test_who_makes_room(missing: dict[str, str], others: list[Pod], chosen: list[str]) -> None:
    """Guaranteed pods last, few rather than many, and nobody if that is not enough; a critical pod for a more critical
    one only.
    """
    amounts = {name: Fraction(amount) for name, amount in missing.items()}
    pod = asking("new", priority=CRITICAL + 1000)
    assert [each.metadata.name for each in pods_to_preempt(pod, amounts, others)] == chosen


@pytest.mark.parametrize(
    ("pod", "other"), [(asking("new", priority=CRITICAL), STATIC), (STATIC, asking("old", "2", priority=CRITICAL))]
)
def test_no_critical_pod_makes_room_without_two_priorities_to_compare(pod: Pod, other: Pod) -> None:
    """A cluster would end the static pods of a node's owner, which mostly have none."""
    assert pods_to_preempt(pod, {"cpu": Fraction(1)}, [other]) == []
