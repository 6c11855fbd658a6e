"""The fields of Devices and DeviceModels that devicecontroller remembers in place of the objects."""

from collections.abc import Iterator
from typing import Final

import msgspec

from modules.apimachinery.device_properties import ModelProperty
from modules.apimachinery.kinds import JsonObject, uid_of
from modules.apimachinery.unvalidated import as_object, as_objects, as_text
from modules.cloud.device_forms import converted_device, converted_model

_RULES: Final = ("name", "type", "accessMode", "minimum", "maximum", "unit")
"""The fields of ModelProperty, in its order, as a DeviceModel names them."""


class WantedProperty(msgspec.Struct, frozen=True, gc=False):
    """A property in a Device's spec."""

    name: str
    desired: str
    """Empty: nothing is desired, as KubeEdge's encoder has it."""


class DeviceRecord(msgspec.Struct, frozen=True):
    """A Device."""

    uid: str
    node: str
    """Empty: it belongs to no node yet."""
    description: str
    """The label `description`."""
    model: str
    """The name of its model; empty: it names none."""
    properties: tuple[WantedProperty, ...]
    is_old: bool = False
    """Whether it was applied in the form of v1alpha2."""
    unused: tuple[str, ...] = ()
    """Fields that have no place in v1beta1."""
    untold: tuple[str, ...] = ()
    """Settings that mappers cannot get: DMI has texts, numbers and booleans alone."""

    @property
    def names(self) -> set[str]:
        """The names of its properties."""
        return {each.name for each in self.properties}


class ModelRecord(msgspec.Struct, frozen=True):
    """A DeviceModel."""

    rules: dict[str, ModelProperty]
    """Its properties, by name."""
    is_old: bool = False
    """Whether it was applied in the form of v1alpha2."""
    unused: tuple[str, ...] = ()
    """Fields that have no place in v1beta1."""


def device_record(given: JsonObject) -> DeviceRecord:
    """Return the record of a Device; a field of an unexpected type counts as absent."""
    obj, is_old, unused = converted_device(given)
    spec, labels = as_object(obj.get("spec")), as_object(obj["metadata"].get("labels"))
    properties = tuple(
        WantedProperty(as_text(each.get("name")), as_text(as_object(each.get("desired")).get("value")))
        for each in as_objects(spec.get("properties"))
    )
    return DeviceRecord(
        uid=uid_of(obj),
        node=as_text(spec.get("nodeName")),
        description=as_text(labels.get("description")),
        model=as_text(as_object(spec.get("deviceModelRef")).get("name")),
        properties=properties,
        is_old=is_old,
        unused=unused,
        untold=tuple(_untold(spec)),
    )


def _untold(spec: JsonObject) -> Iterator[str]:
    """Yield the paths of the settings that are lists or objects, of the device and of its properties."""
    settings = {"spec.protocol": spec.get("protocol")}
    settings |= {f"the visitors of {as_text(each.get('name'), 80)!r}": each.get("visitors")
                 for each in as_objects(spec.get("properties"))}  # fmt: skip
    for where, given in settings.items():
        for name, value in as_object(as_object(given).get("configData")).items():
            if isinstance(value, dict | list):
                yield f"{where}.configData.{name[:80]}"


def model_record(given: JsonObject) -> ModelRecord:
    """Return the record of a DeviceModel."""
    obj, is_old, unused = converted_model(given)
    rules = {
        as_text(each.get("name")): ModelProperty(*(as_text(each.get(name)) for name in _RULES))
        for each in as_objects(as_object(obj.get("spec")).get("properties"))
    }
    return ModelRecord(rules, is_old, unused)
