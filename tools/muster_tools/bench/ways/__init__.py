"""Three scaling strategies for the same number of GPUs and the same work: share GPUs, scale nodes, scale devices."""
