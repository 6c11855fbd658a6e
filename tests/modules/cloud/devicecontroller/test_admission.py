"""What the embedded API server refuses of a Device or a DeviceModel."""

from typing import Any

import pytest

from beehive import RealClock
from modules.apimachinery.api_errors import ApiError
from modules.cloud.apiserver.cluster import ApplyOutcome, Cluster
from modules.cloud.devicecontroller.admission import ADMISSIONS, model_causes
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devices import API_VERSION
from tests.modules.cloud.test_device_forms import OLD_DEVICE, OLD_MODEL

Json = dict[str, Any]
TARGET = {"name": "target", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "5", "maximum": "80"}
SENSOR = {"name": "sensor", "type": "INT", "accessMode": "ReadOnly"}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(RealClock(), admissions=ADMISSIONS)
    for definition in definitions():
        made.apply(definition)
    return made


def _model(*properties: Json) -> Json:
    spec = {"protocol": "demo", "properties": list(properties or (TARGET, SENSOR))}
    return {"apiVersion": API_VERSION, "kind": "DeviceModel", "metadata": {"name": "boiler"}, "spec": spec}


def _device(*, label: str = "", **desired: str) -> Json:
    properties = [{"name": name, **({"desired": {"value": value}} if value else {})} for name, value in desired.items()]
    spec = {"deviceModelRef": {"name": "boiler"}, "nodeName": "n1", "properties": properties}
    meta = {"name": "boiler1", "labels": {"room": label} if label else {}}
    return {"apiVersion": API_VERSION, "kind": "Device", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("desired", "why"),
    [
        ({"target": "600"}, 'spec.properties[0].desired.value: Invalid value: "600": the value 600 is out of range '
                            "(target is FLOAT 5 to 80 in the device's model)"),
        ({"sensor": "", "target": "warm"}, "spec.properties[1].desired.value: Invalid value: \"warm\""),
        ({"sensor": "1"}, "ReadOnly"),
        ({"humidity": "1"}, "the device's model has no property humidity"),
    ],
    ids=["range", "type", "read-only", "unknown"],
)  # fmt: skip
def test_a_desired_value_that_the_model_forbids_is_refused(cluster: Cluster, desired: dict[str, str], why: str) -> None:
    """At a creation, at an update, and at a patch, which is an update for the API server."""
    cluster.apply(_model())
    with pytest.raises(ApiError) as refused:
        cluster.apply(_device(**desired))
    assert why in str(refused.value)
    stored, _ = cluster.apply(_device(target="50"))
    with pytest.raises(ApiError) as refused:
        cluster.update({**stored, "spec": _device(**desired)["spec"]})
    assert why in str(refused.value)
    assert cluster.apply(_device(target="50"))[1] is ApplyOutcome.UNCHANGED


def test_a_device_may_come_before_its_model_and_change_after_its_model_has(cluster: Cluster) -> None:
    """What was there before may stay, so that a label or another property can be changed; no new fault may come."""
    cluster.apply(_device(target="600"))
    cluster.apply(_model())
    cluster.apply(_device(target="600", label="cellar"))
    cluster.apply(_device(target="600", sensor=""))
    with pytest.raises(ApiError, match="601"):
        cluster.apply(_device(target="601"))
    cluster.apply(_device(target="60"))
    with pytest.raises(ApiError, match="600"):
        cluster.apply(_device(target="600"))


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ((TARGET | {"maximum": "high"},), "high is no number"),
        ((TARGET | {"minimum": "90"},), "the minimum 90 lies above the maximum 80"),
        ((TARGET, TARGET), 'spec.properties: Duplicate value: "target"'),
    ],
)
def test_a_model_whose_limits_limit_nothing_is_refused(cluster: Cluster, properties: tuple[Json], why: str) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.apply(_model(*properties))
    assert why in str(refused.value)


def test_a_faulty_model_that_is_there_may_be_changed_elsewhere() -> None:
    faulty = _model({"name": "t", "type": "INT", "minimum": "low"})
    labelled = {**faulty, "metadata": {"name": "boiler", "labels": {"a": "b"}}}
    assert model_causes(labelled, None, lambda _: None)
    assert model_causes(labelled, faulty, lambda _: None) == []


def test_a_faulty_property_without_a_name_has_its_place(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match=r"spec\.properties\[1\]"):
        cluster.apply(_model(TARGET, {"type": "INT", "minimum": "low"}))


def test_the_cost_of_a_model_is_linear_in_its_faults() -> None:
    """Each looked for its own place among all: seconds of the processor for a body of half a megabyte."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    properties = [{"name": Name(f"p{number}"), "type": "INT", "minimum": "low"} for number in range(1000)]
    assert len(model_causes(_model(*properties), None, lambda _: None)) == 1000
    assert compared < 20 * 1000


def test_a_property_that_is_there_twice_is_refused(cluster: Cluster) -> None:
    twice = _device(target="50")
    twice["spec"]["properties"] *= 2
    with pytest.raises(ApiError, match="Duplicate value"):
        cluster.apply(twice)


def test_objects_of_v1alpha2_are_held_to_the_same_rules(cluster: Cluster) -> None:
    """In the form for nodes."""
    cluster.apply({**OLD_MODEL, "apiVersion": "devices.kubeedge.io/v1alpha2"})
    cluster.apply({**OLD_DEVICE, "apiVersion": "devices.kubeedge.io/v1alpha2"})
