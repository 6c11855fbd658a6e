"""Backups of both processes: the archive, and the replacement of a directory by its content."""
