"""What the scheduler decides by: the nodes with their pods, filters and scores. All of it is pure."""
