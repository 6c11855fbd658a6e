"""Reading the logs that the container runtime writes: `options`, `lines`, `files`, `tail`, `reader`."""
