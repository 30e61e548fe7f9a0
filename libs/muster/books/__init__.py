"""Who holds what where, folded from facts: nodes, devices, grants, and the holds of jobs. Pure: no I/O, no clock."""
