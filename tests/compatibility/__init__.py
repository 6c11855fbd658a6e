"""What earlier versions have left, read by today's code; see docs/upgrades.md, "What stays"."""
