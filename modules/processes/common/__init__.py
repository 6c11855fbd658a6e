"""What edgecore and cloudcore share as processes: exit codes, version, service manager, backups, state directories."""
