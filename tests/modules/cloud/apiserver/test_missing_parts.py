"""Objects that lack a part, or have it empty, are refused or stored, and never stop the API server's own work."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import KINDS, Kind
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.reconcilers import ControlPlane, Reconcilers, reconcilers_of
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.client.calls import ApiCall
from tests.modules.cloud.apiserver.test_reconcilers import attempt
from tests.modules.cloud.apiserver.updates.samples import sample

GONE = object()


def with_missing_parts(obj: Any) -> Iterator[Any]:
    """Yield copies of a value with one member gone, null, or empty."""
    members = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    for name, value in list(members):
        for instead in (GONE, None, {}, [], ""):
            made = copied(obj)
            if instead is GONE:
                del made[name]
            else:
                made[name] = instead
            yield made
        for inner in with_missing_parts(value):
            made = copied(obj)
            made[name] = inner
            yield made


@pytest.mark.parametrize("kind", KINDS, ids=[kind.key_name for kind in KINDS])
def test_an_object_that_lacks_a_part_is_refused_or_reconciled(kind: Kind) -> None:
    """A ResourceQuota without a spec, which Kubernetes accepts, had the API server start again and again."""
    cluster = Cluster(Simulation(1).clock, plugins=PLUGINS)
    make_system_objects(cluster, ())
    cluster.create({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
    reconcilers = Reconcilers(partial(reconcilers_of, cluster, ControlPlane(authority="PEM")))
    reconcilers.load()
    namespace = "default" if kind.namespaced else ""
    whole = sample(kind.key_name.partition(".")[0], "x")
    content = {name: value for name, value in whole.items() if name not in ("kind", "apiVersion", "metadata")}
    for number, part in enumerate(({}, *with_missing_parts(content))):
        body = {**{name: whole[name] for name in ("kind", "apiVersion")}, "metadata": {"name": f"x{number}"}, **part}
        call = ApiCall(verb="create", api_version=kind.api_version, plural=kind.plural, namespace=namespace, body=body)
        try:
            serve(cluster, call)
        except ApiError as refused:
            assert refused.code < 500, body
        for event in cluster.storage.drain_events():
            reconcilers.handle_event(event, is_own=True)
        reconcilers.run(attempt)
        cluster.storage.drain_events()
