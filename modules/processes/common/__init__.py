"""The common parts of both processes: exit codes, version, service manager, backups, state directories."""
