"""Which amounts of a ResourceQuota are whole numbers."""

import pytest

from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.quotas import resource_quota


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [
        ("pods", True),
        ("count/jobs.batch", True),
        ("example.com/gpu", True),
        ("gold.storageclass.storage.k8s.io/requests.storage", True),
        ("requests.example.com/gpu", False),
        ("requests.storage", False),
        ("cpu", False),
        ("kubernetes.io/batteries", False),
    ],
)
def test_what_is_counted_is_whole(name: str, is_whole: bool) -> None:
    """As a kube-apiserver 1.32.13 answered: so are extended resources, to which the storage of a class belongs."""
    found = Causes()
    resource_quota({"spec": {"hard": {name: "500m"}}}, "", found)
    wanted = [(f"spec.hard[{name}]", 'Invalid value: "500m": must be an integer')] if is_whole else []
    assert [(each.field, each.message) for each in found] == wanted
