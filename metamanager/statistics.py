"""The statistics of the database; `metamanager.metrics` exports them."""


class StoreStatistics:
    """Counts since the process started. They outlive the module's restarts."""

    def __init__(self) -> None:
        self.write_failures = 0
        """Changes and commits refused by the database."""
        self.takes_changes = True
        """Whether the database accepted the last one."""
