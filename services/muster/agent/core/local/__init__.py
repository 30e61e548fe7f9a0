"""The pure part of a cluster whose jobs are processes of one machine: the worked example of an adapter."""
