"""The modules of an edge node beside the three at the top level: metaserver."""
