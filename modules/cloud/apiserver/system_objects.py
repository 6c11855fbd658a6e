"""The objects that an API server makes at its start: system namespaces, PriorityClasses and roles."""

import logging
from collections.abc import Iterable
from functools import partial

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, Kind, key_for, key_of, kind_named
from modules.apimachinery.validation.classes import SYSTEM_CLASSES
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.namespaces import SYSTEM
from modules.cloud.apiserver.reconciler import Attempt
from modules.cloud.apiserver.system_roles import system_roles

_log = logging.getLogger(__name__)

_NAMESPACE, _PRIORITY_CLASS = kind_named("Namespace"), kind_named("PriorityClass")

_EVENT = "Event"


def make_system_objects(cluster: Cluster, namespaces: Iterable[str] = ()) -> None:
    """Make the system objects that are missing, and the namespaces of stored objects: earlier versions took
    objects in namespaces that were never created. (Events of nodes may come later than the end of their namespace.)

    Args:
        cluster: the objects.
        namespaces: further namespaces.
    """
    used = {key.namespace for key in cluster.storage if key.namespace and key.kind != _EVENT}
    for name in sorted({*SYSTEM, *namespaces, *used}):
        _make(cluster, _NAMESPACE, name)
    for name, priority in SYSTEM_CLASSES.items():
        _make(cluster, _PRIORITY_CLASS, name, value=priority, description=f"Used for {name.replace('-', ' ')} pods")
    for role in system_roles():
        if cluster.storage.find(key_of(role)) is None:
            cluster.create(role)


def apply_definitions(cluster: Cluster, definitions: Iterable[JsonObject], attempt: Attempt) -> None:
    """Apply CustomResourceDefinitions, but those that a person has changed in the meantime so that they cannot be."""
    for definition in definitions:
        try:
            attempt(partial(_apply, cluster, definition))
        except ApiError as error:
            _log.warning("%s cannot be applied: %s", definition["metadata"]["name"], error)


def _apply(cluster: Cluster, manifest: JsonObject) -> None:
    cluster.apply(manifest)


def _make(cluster: Cluster, kind: Kind, name: str, **fields: object) -> None:
    if cluster.storage.find(key_for(kind, "", name)) is None:
        made: JsonObject = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": {"name": name}, **fields}
        cluster.create(made)
