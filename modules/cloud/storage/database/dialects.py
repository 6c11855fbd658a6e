"""The SQL of a database's driver."""

from sqlalchemy import URL, Dialect, create_engine


def dialect_of(driver: str) -> Dialect:
    """Return the dialect of all databases with a driver, as `sqlite`: nothing is opened."""
    return create_engine(URL.create(driver)).dialect
