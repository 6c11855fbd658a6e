"""The durable copy of the cluster: one SQL database, which several cloudcores may share."""

from typing import Final

IN_MEMORY: Final = "sqlite://"
"""The URL of a database that lives as long as the process; here, as cloudcore's settings load no SQLAlchemy."""
