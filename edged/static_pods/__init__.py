"""Static pods: pods from files of this machine, and their mirror pods in the cloud."""
