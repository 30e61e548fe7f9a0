"""I/O of a cluster whose jobs are local processes: it starts and ends them, and publishes their output."""
