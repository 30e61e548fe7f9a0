"""The composer's pure part."""
