"""The scaler's pure part."""
