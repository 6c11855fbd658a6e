"""The OCI runtime of an ordinary user. These tests are skipped as root: an ordinary user runs them."""
