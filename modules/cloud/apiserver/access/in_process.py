"""The Kubernetes API for cloudcore itself, in the same process."""

from typing import Final

from beehive.clock import Clock
from beehive.hive import Hive
from beehive.http.request import Request
from beehive.runtime import Runtime
from modules.cloud.apiserver.access.service import AccessService, NodeCaller
from modules.cloud.apiserver.endpoints.in_process import InProcessTransport
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.endpoints.service import ApiService
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.authentication.users import ADMINISTRATORS, User

_CLOUDCORE: Final = User("system:cloudcore", groups=(ADMINISTRATORS,))


class InProcessAccess:
    """Connects clients of the same process to the module apiserver. They are administrators, and may impersonate nodes.

    Args:
        hive: has the module.
        clock: for ages and the end of watches.
        version: the server's, such as `v1.32.10`.
    """

    def __init__(self, hive: Hive, clock: Clock, version: str) -> None:
        self.subscriptions = Subscriptions()
        """The watches of the clients; the module publishes in them."""
        self._caller = ModuleCaller(hive, clock)
        self._version = version
        self._clock = clock
        self._service = AccessService(self, self._service_of(""), self._service_of, self._caller.call)

    def user(self, _request: Request) -> User:
        """Return the user of a request (`Authenticates`)."""
        return _CLOUDCORE

    def connect(self, runtime: Runtime) -> InProcessTransport:
        """Return a transport for a client."""
        return InProcessTransport(self._service, self._caller.begin, runtime)

    def _service_of(self, node: str) -> ApiService:
        caller = NodeCaller(self._caller, node) if node else self._caller
        definitions = self._caller.call
        return ApiService(caller, self.subscriptions, self._version, self._clock, definitions=definitions)
