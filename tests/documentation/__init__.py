"""The commands in `README.md` and `docs/`: each is parsed, and most are run."""
