"""Errors of kubeconfig files."""

from beehive.errors import BeehiveError


class KubeconfigError(BeehiveError):
    """A kubeconfig file cannot be used; the text names the file and the entry, and no secret."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__("cannot use the kubeconfig", where, why)
