"""The shell of a cluster whose jobs are processes of one machine: it starts and ends them, and tells what they say."""
