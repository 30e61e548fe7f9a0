"""Which running jobs have to stop, shrink or move, for whom and when."""
