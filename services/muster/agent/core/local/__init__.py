"""Pure part of a cluster whose jobs are local processes: the worked example of an adapter."""
