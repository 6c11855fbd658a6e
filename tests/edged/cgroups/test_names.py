"""A pod's cgroup is where a kubelet would have it."""

import pytest

from edged.cgroups.errors import CgroupError
from edged.cgroups.names import CgroupNames
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupDriver
from modules.apimachinery.pods.qos import QosClass

UID = PodUid("cd5ab9a8-09a2")
SLICE = "cd5ab9a8_09a2.slice"


@pytest.mark.parametrize(
    ("driver", "root", "qos", "path"),
    [
        (CgroupDriver.CGROUPFS, "/", QosClass.GUARANTEED, f"/kubepods/pod{UID}"),
        (CgroupDriver.CGROUPFS, "/", QosClass.BURSTABLE, f"/kubepods/burstable/pod{UID}"),
        (CgroupDriver.CGROUPFS, "/", QosClass.BEST_EFFORT, f"/kubepods/besteffort/pod{UID}"),
        (CgroupDriver.CGROUPFS, "edge/one/", QosClass.BURSTABLE, f"/edge/one/kubepods/burstable/pod{UID}"),
        (CgroupDriver.SYSTEMD, "/", QosClass.GUARANTEED, f"/kubepods.slice/kubepods-pod{SLICE}"),
        (
            CgroupDriver.SYSTEMD, "/", QosClass.BURSTABLE,
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}",
        ),
        (
            CgroupDriver.SYSTEMD, "/my-edge", QosClass.BEST_EFFORT,
            "/my_edge.slice/my_edge-kubepods.slice/my_edge-kubepods-besteffort.slice"
            f"/my_edge-kubepods-besteffort-pod{SLICE}",
        ),
    ],
)  # fmt: skip
def test_where_a_pods_cgroup_is(driver: CgroupDriver, root: str, qos: QosClass, path: str) -> None:
    """Plain directories with cgroupfs; with systemd, slices named after all above them, without a `-` of their own."""
    assert CgroupNames(driver, root).of_pod(UID, qos) == path


def test_a_guaranteed_pod_stands_beside_the_classes() -> None:
    names = CgroupNames(CgroupDriver.CGROUPFS)
    assert names.of_class(QosClass.GUARANTEED) == names.pods == "/kubepods"
    assert names.of_class(QosClass.BEST_EFFORT) == "/kubepods/besteffort"


def test_a_pod_is_looked_for_in_every_class() -> None:
    assert len(set(CgroupNames(CgroupDriver.CGROUPFS).of_pod_anywhere(UID))) == 3


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "a\0"])
def test_no_name_leads_out(name: str) -> None:
    """A uid is a part of a path."""
    with pytest.raises(CgroupError):
        CgroupNames(CgroupDriver.CGROUPFS).of_pod(PodUid(name), QosClass.BURSTABLE)


def test_no_root_leads_out() -> None:
    with pytest.raises(CgroupError):
        CgroupNames(CgroupDriver.CGROUPFS, "/edge/../..")
    with pytest.raises(CgroupError):
        CgroupNames(CgroupDriver.CGROUPFS).external("/system/../..")
