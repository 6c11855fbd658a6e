"""What the command lines of edgecore and cloudcore share: kubectl's flags, a REST client, errors for the terminal."""
