"""In which order pending jobs are tried: the rank within a queue, and fair shares between queues."""
