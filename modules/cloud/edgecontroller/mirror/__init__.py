"""The objects of the API server in memory, and the lists and watches that keep them up to date."""
