"""The scaler: attach a GPU, add a node, take a GPU away, take a node away, or nothing."""
