"""What the node tells the cloud, and again until the cloud has it."""
