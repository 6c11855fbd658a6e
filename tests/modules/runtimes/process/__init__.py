"""The process runtime: pure parts by tables and laws, the rest with real processes."""
