"""Containers that crun, runc or Docker isolates: the common parts of their records."""

from collections.abc import Sequence

from modules.runtimes.cri_server.model import RuntimeContainer
from modules.runtimes.cri_server.records import ContainerRecord


class IsolatedRecord(ContainerRecord, frozen=True):
    """The facts of a container at its creation; the image's name may refer to another image later."""

    image_id: str
    image_ref: str
    stop_signal: int


def reference_of(image_id: str, repo_digests: Sequence[str] | None) -> str:
    """Return the reference by which clients find an image: its first name with a digest, or its id without one."""
    return repo_digests[0] if repo_digests else image_id


class IsolatedContainer(RuntimeContainer):
    """A container that was made from an image."""

    record: IsolatedRecord

    @property
    def image_id(self) -> str:
        """The digest of the image's configuration."""
        return self.record.image_id

    @property
    def image_ref(self) -> str:
        """A name with a digest, if the image has one; its id otherwise."""
        return self.record.image_ref
