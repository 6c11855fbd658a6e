"""The versions of a group in the order of Kubernetes' documentation."""

from modules.apimachinery.aggregated_discovery import aggregated
from modules.apimachinery.discovery import Discovery
from modules.apimachinery.resources import Resource
from modules.apimachinery.version_order import preferred_first

ORDER = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]


def test_versions_are_compared_as_numbers() -> None:
    assert preferred_first(sorted(ORDER)) == ORDER
    assert preferred_first(reversed(ORDER)) == ORDER


def test_the_discovery_of_a_group_has_the_preferred_version_first() -> None:
    """Also where another version is the stored one, which is served first in the list of kinds."""
    resources = [Resource("Foo", "foos", "foo", "example.com", version) for version in ("v9", "v10beta1", "v10")]
    document = Discovery(resources, "v1.32.10").document(("apis", "example.com"))
    assert document is not None
    assert document["preferredVersion"]["version"] == "v10"
    assert [one["version"] for one in document["versions"]] == ["v10", "v9", "v10beta1"]
    (group,) = aggregated(resources, "v2", core=False)["items"]
    assert [one["version"] for one in group["versions"]] == ["v10", "v9", "v10beta1"]
