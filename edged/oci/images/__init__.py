"""Images of the OCI runtime: references, pulls, archives, the content store and root file systems.

All code that reads images and answers of registries runs in `worker`, a short-lived process.
"""

from edged.oci.images.declared_volumes import DECLARED, ImageRoot, make_declared_volumes
from edged.oci.images.exporting import export_image
from edged.oci.images.idmapping import MappedRoot
from edged.oci.images.model import ImageConfig, PullSettings, StorageUsage, StoredImage
from edged.oci.images.root_filesystems import RootFilesystems
from edged.oci.images.store import ImageStore
from edged.oci.images.worker_process import LayerProgress

__all__ = [
    "DECLARED",
    "ImageConfig",
    "ImageRoot",
    "ImageStore",
    "LayerProgress",
    "MappedRoot",
    "PullSettings",
    "RootFilesystems",
    "StorageUsage",
    "StoredImage",
    "export_image",
    "make_declared_volumes",
]
