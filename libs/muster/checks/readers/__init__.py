"""Readers of what the field's tools print: text in, a verdict out. Pure; each is tested in both directions."""
