"""The modules of an edge node, except the three at the top level (metamanager, edgehub and edged)."""
