"""Bodies of all facts, by kind of subject."""
