"""The scaler: attaches or removes GPUs, adds or removes nodes, or reports why nothing helps."""
