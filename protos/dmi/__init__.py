"""The Device Mapper Interface."""
