"""The admission plug-in NamespaceLifecycle, as far as it is about namespaces that do not exist."""

from modules.apimachinery.api_errors import NotFoundError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister

_NAMESPACE = kind_named("Namespace")


def admit(obj: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new object whose namespace exists.

    Raises:
        NotFoundError: it does not.
    """
    name = obj["metadata"].get("namespace")
    if live is None and name and objects.find(key_for(_NAMESPACE, "", name)) is None:
        raise NotFoundError(_NAMESPACE.plural, name)
    return obj
