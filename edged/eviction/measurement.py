"""Measures the node's free resources, and their use by pods, for the evictor."""

import logging
from pathlib import Path

from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.eviction_api.usage import PodUsage
from edged.gc.images import images_directory
from edged.node.machine import MachineInfo, MachineUsage

_log = logging.getLogger(__name__)


class UsageReader:
    """The reader of the usage of the node and of its pods.

    Args:
        runtime: names the directory of its images, and has the pods' statistics.
        machine_info: measures.
        root: the agent's root directory, on the node's file system.
        with_images: whether a threshold is for the images' file system.
    """

    def __init__(self, runtime: ContainerRuntime, machine_info: MachineInfo, root: Path, *, with_images: bool) -> None:
        self._runtime = runtime
        self._machine_info = machine_info
        self._root = root
        self._with_images = with_images
        self._image_directory: Path | None = None

    def node(self) -> MachineUsage:
        """Return the node's usage; without the images' file system while the runtime does not answer.

        Raises:
            MachineError: the node cannot be measured.
        """
        if self._image_directory is None and self._with_images:
            try:
                self._image_directory = images_directory(self._runtime)
            except CriError as error:
                _log.debug("the file system of the images is unknown: %s", error)
        return self._machine_info.usage(self._root, self._image_directory)

    def pods(self, *, anew: bool = False) -> dict[str, PodUsage]:
        """Return the pods' usage by uid. `anew`: count files again instead of taking the last count.

        Raises:
            CriError: the runtime does not report the usage of pods.
        """
        return {usage.uid: usage for usage in self._machine_info.pods(self._runtime, anew=anew)}
