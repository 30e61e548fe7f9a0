"""Every bound of the local control plane, in one place."""

BUILD_S_MAX = 3_600.0
"""Building Kubernetes takes about 15 minutes on two cores with nothing cached."""

LOCK_S_MAX = BUILD_S_MAX
"""Waiting while another process builds the same."""

BUILDS_KEPT_MAX = 2
"""Per Go module: this version and the one before, so that two checkouts do not undo each other's."""

READY_S_MAX = 120.0
"""From the start of one process until it says that it is ready; two API servers on a busy machine need a minute."""

STOP_S_MAX = 15.0
"""From SIGTERM to SIGKILL: an API server takes 2 to 4 s."""

KILL_S_MAX = 10.0
"""From SIGKILL until the kernel has taken the process away."""

PROBE_S_MAX = 3.0
"""One question whether a process is ready."""

POLL_S = 0.05
"""Between two looks at a process."""

PORT_TRIES_MAX = 4
"""Number of starts on other ports after another process took a free port before our process listened."""

FLEET_PARALLEL = 32
"""Requests at a time when a fleet is made."""

REQUEST_S_MAX = 60.0
"""One request to the API server."""

API_SERVERS_MAX = 3
