"""The admission plug-ins in kube-apiserver's order."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject, is_custom
from modules.apimachinery.lister import Lister
from modules.cloud.apiserver.admission import (
    default_toleration_seconds,
    namespace_lifecycle,
    priority,
    runtime_class,
    service_account,
)

Admit = Callable[[JsonObject, JsonObject | None, Lister], JsonObject]
"""Takes an object with its defaults, its stored state (None: it is created) and all objects; returns it as it is to be
stored. Raises ApiError to refuse it."""


class Plugin(NamedTuple):
    """An admission plug-in."""

    name: str
    """As in kube-apiserver's `--disable-admission-plugins`."""
    admit: Admit
    kinds: frozenset[str] | None
    """The kinds that it looks at; None: all."""


_PODS: Final = frozenset({"Pod"})
PLUGINS: Final = (
    Plugin("NamespaceLifecycle", namespace_lifecycle.admit, None),
    Plugin("ServiceAccount", service_account.admit, _PODS),
    Plugin("Priority", priority.admit, frozenset({"Pod", "PriorityClass"})),
    Plugin("DefaultTolerationSeconds", default_toleration_seconds.admit, _PODS),
    Plugin("RuntimeClass", runtime_class.admit, _PODS),
)
PLUGINS_WITH_TOKENS: Final = tuple(
    each._replace(admit=service_account.admit_with_token) if each.admit is service_account.admit else each
    for each in PLUGINS
)
"""The plug-ins of an API server that pods reach: their containers get tokens."""


class AdmissionChain:
    """Asks plug-ins about objects that are created and updated.

    Args:
        objects: all objects.
        plugins: in the order of the calls.
    """

    def __init__(self, objects: Lister, plugins: Sequence[Plugin] = PLUGINS) -> None:
        self._objects = objects
        self._plugins = plugins

    def admitted(self, obj: JsonObject, live: JsonObject | None = None) -> JsonObject:
        """Return an object as the plug-ins change it.

        Args:
            obj: with its defaults; it is not changed.
            live: its stored state; None: it is created.

        Raises:
            ApiError: a plug-in refuses it.
        """
        for plugin in self._plugins:
            if plugin.kinds is None or (obj["kind"] in plugin.kinds and not is_custom(obj)):
                obj = plugin.admit(obj, live, self._objects)
        return obj
