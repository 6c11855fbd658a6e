"""The custom resources of nodes' jobs (KubeEdge's `operations.kubeedge.io`)."""

from typing import Final

from modules.apimachinery.kinds import Kind
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import API_VERSION

JOBS: Final = {
    name: Kind(name.value, API_VERSION, f"{name.lower()}s", namespaced=False, counts_generations=True, is_custom=True)
    for name in JobKind
}
"""The kinds by their names."""
KIND_NAMES: Final = {kind.key_name: name for name, kind in JOBS.items()}
"""By the kind in an object's key."""
