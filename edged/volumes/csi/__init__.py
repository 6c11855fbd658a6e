"""Volumes of storage drivers (CSI): registered drivers, their calls, staged and published volumes."""
