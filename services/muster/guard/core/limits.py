"""Every bound of the guard's core, in one place."""

ADVICE_MAX = 200
"""Active advice; at the bound no more is raised until some is cleared."""
WORSE = 2.0
"""Advice is repeated once its degree grew by this factor."""
BETTER = 0.8
"""Advice is cleared below this degree, so that it does not flap at the threshold."""

CLIENTS_MAX = 1_000
"""Clients counted separately; the rest is counted as one."""
WINDOW_S = 60
"""Window in which requests of clients are counted."""
SLOTS = 6
"""Parts of the window, forgotten one by one."""
SHOWN_MAX = 50
"""Rows of each table of a report."""

MEMORY_FLOOR_MIB = 512.0
"""Below this no advice is given about an API server's memory."""
SKEW_FLOOR_MIB = 256.0
"""A smaller difference between replicas is ignored, whatever the ratio."""
GOGC_DEFAULT = 100
GOGC_ADVISED = 50
MEMORY_LIMIT_PART = 0.95
"""Advised GOMEMLIMIT, as a part of the container's limit."""

STREAMS_PART = 0.8
"""Part of the streams of one HTTP/2 connection above which a kubelet's requests soon wait for each other."""
KUBELET_WATCHES = 20
"""Watches of a kubelet besides one for each secret and config map of its pods."""
TERMINATED_MIN = 1_000
"""Terminated pods from which advice is given."""
TERMINATED_PART = 0.2
"""Part of all pods that must be terminated, too."""
TERMINATED_DEFAULT = 12_500
"""Default of --terminated-pod-gc-threshold of kube-controller-manager."""
