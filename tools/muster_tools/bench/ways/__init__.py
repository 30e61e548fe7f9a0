"""Three ways to use the same number of GPUs well, on the same work: split them, scale nodes, scale devices."""
