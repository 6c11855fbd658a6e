"""The names of modules by which people know them."""

from beehive import ModuleName


def module_title(name: str) -> str:
    """Return edgehub for the module that is called `websocket` on the bus, else the name."""
    return "edgehub" if name == ModuleName.EDGEHUB else name
