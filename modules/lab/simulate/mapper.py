"""A mapper on a simulated node: dmi's own decisions about its messages, with calls that always succeed."""

from typing import Final

from beehive import Message, Module, ModuleName, ResourceType, handles
from beehive.errors import BeehiveError
from metamanager.client import AsyncMetaClient
from modules.edge.dmi.catalogue import Catalogue
from modules.edge.dmi.loading import CatalogueLoader
from modules.edge.dmi.peer import MapperStep, Peer
from modules.lab.simulate.device_watch import DeviceWatch
from protos.dmi.v1beta1 import api_pb2 as dmi

PROTOCOL: Final = "demo"
_LOAD_AGAIN_AFTER: Final = 5.0


class SimulatedMapper(Module):
    """The stand-in for dmi, without gRPC: it sends a mapper the objects that dmi would send.

    Args:
        watch: checks each device that the mapper receives.
    """

    name = ModuleName.DMI

    def __init__(self, watch: DeviceWatch) -> None:
        super().__init__()
        self._watch = watch
        self._catalogue = Catalogue()
        self._loader = CatalogueLoader(self, AsyncMetaClient(self), self._catalogue)
        self._peer = Peer(PROTOCOL, self._catalogue)

    def on_start(self) -> None:
        """Read the devices."""
        self._load()

    @handles(ResourceType.DEVICE)
    @handles(ResourceType.DEVICE_MODEL)
    @handles(ResourceType.DEVICE_TWIN)
    def changed(self, message: Message) -> None:
        """Take a change from devicetwin."""
        self._peer.mark(sorted(key for protocol, key in self._loader.changed(message) if protocol == PROTOCOL))
        self._pump()

    def _load(self) -> None:
        self._loader.when_loaded(self._loaded)

    def _loaded(self, error: BeehiveError | None) -> None:
        if error is not None:
            self.after(_LOAD_AGAIN_AFTER, self._load)
            return
        self._peer.forget()
        self._pump()

    def _pump(self) -> None:
        while isinstance(step := self._peer.next(self.clock.monotonic()), MapperStep):
            if isinstance(step.request, dmi.UpdateDeviceRequest | dmi.RegisterDeviceRequest):
                self._watch.check_mapper(step.request.device)
            self._peer.succeeded(step)
