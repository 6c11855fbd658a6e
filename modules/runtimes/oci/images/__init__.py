"""Images of the OCI runtime: references, pulls, archives, the content store and root file systems.

All code that reads images and answers of registries runs in `worker`, a short-lived process.
"""

from modules.runtimes.oci.images.declared_volumes import DECLARED, ImageRoot, make_declared_volumes
from modules.runtimes.oci.images.exporting import export_image
from modules.runtimes.oci.images.idmapping import MappedRoot
from modules.runtimes.oci.images.model import ImageConfig, PullSettings, StorageUsage, StoredImage
from modules.runtimes.oci.images.root_filesystems import RootFilesystems
from modules.runtimes.oci.images.store import ImageStore
from modules.runtimes.oci.images.worker_process import LayerProgress

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
