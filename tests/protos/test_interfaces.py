"""The interfaces equal the specification: packages, methods, field numbers that other programs rely on."""

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor

from protos.cri.v1 import api_pb2 as cri
from protos.csi.v1 import api_pb2 as csi
from protos.deviceplugin.v1beta1 import api_pb2 as deviceplugin
from protos.pluginregistration.v1 import api_pb2 as pluginregistration
from protos.podresources.v1 import api_pb2 as podresources

_PROTOS = Path(cri.__file__).parents[2]


@pytest.mark.parametrize(
    ("interface", "package", "services"),
    [
        (cri.DESCRIPTOR, "runtime.v1", {"RuntimeService", "ImageService"}),
        (csi.DESCRIPTOR, "csi.v1", {"Identity", "Controller", "GroupController", "Node"}),
        (deviceplugin.DESCRIPTOR, "v1beta1", {"Registration", "DevicePlugin"}),
        (pluginregistration.DESCRIPTOR, "pluginregistration", {"Registration"}),
        (podresources.DESCRIPTOR, "v1", {"PodResourcesLister"}),
    ],
)
def test_packages_and_services_have_the_names_on_the_wire(
    interface: FileDescriptor, package: str, services: set[str]
) -> None:
    assert interface.package == package
    assert set(interface.services_by_name) == services


@pytest.mark.parametrize(
    ("message", "field", "number"),
    [
        (cri.ImageSpec, "user_specified_image", 18),
        (cri.LinuxContainerSecurityContext, "run_as_group", 12),
        (cri.ContainerConfig, "CDI_devices", 17),
        (cri.Namespace, "options", 2),
        (cri.ContainerStatus, "image_id", 17),
        (deviceplugin.ContainerAllocateRequest, "devices_ids", 1),
        (csi.NodePublishVolumeRequest, "secrets", 7),
    ],
)
def test_fields_with_numbers_out_of_order_have_the_numbers_of_the_wire(message: type, field: str, number: int) -> None:
    assert message.DESCRIPTOR.fields_by_name[field].number == number  # type: ignore[attr-defined]


def test_each_request_of_cri_belongs_to_one_method() -> None:
    """The client finds the method by the type of the request."""
    requests = [m.input_type.name for s in cri.DESCRIPTOR.services_by_name.values() for m in s.methods]
    assert len(requests) == len(set(requests)) == 43


def test_streaming_methods_of_cri_answer_with_a_stream() -> None:
    methods = cri.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name
    assert methods["GetContainerEvents"].server_streaming
    assert methods["StreamContainers"].server_streaming
    assert not methods["ListContainers"].server_streaming


def test_every_directory_is_a_package_and_every_proto_has_its_stubs() -> None:
    for proto in _PROTOS.rglob("*.proto"):
        assert (proto.parent / "__init__.py").is_file()
        assert proto.with_name("api_pb2.py").is_file()
        assert re.search(r'^syntax = "proto3";$', proto.read_text(), re.MULTILINE)
