"""The processes: edgecore, cloudcore and the demo. Each puts modules together on one bus."""
