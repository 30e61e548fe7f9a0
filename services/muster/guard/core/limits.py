"""Every bound of the guard's core, in one place."""

ADVICE_MAX = 200
"""Advice that stands at a time; more is not raised before some of it is cleared."""
WORSE = 2.0
"""Advice is said again once it is so many times as bad as it was said to be."""
BETTER = 0.8
"""Advice is cleared below this part of what raises it, so that it does not come and go at the threshold."""

CLIENTS_MAX = 1_000
"""Clients that are told apart; the rest is counted as one."""
WINDOW_S = 60
"""Requests of clients are counted over so long."""
SLOTS = 6
"""Parts of that window, which are forgotten one by one."""
SHOWN_MAX = 50
"""Rows of each table of a report."""

MEMORY_FLOOR_MIB = 512.0
"""Below this nobody needs advice about an API server's memory."""
SKEW_FLOOR_MIB = 256.0
"""Replicas that differ by less are not called uneven, whatever the ratio."""
GOGC_DEFAULT = 100
GOGC_ADVISED = 50
MEMORY_LIMIT_PART = 0.95
"""GOMEMLIMIT that is advised, of the container's own limit."""

STREAMS_PART = 0.8
"""Of the streams that one HTTP/2 connection may have: from here on a kubelet's requests soon wait for each other."""
KUBELET_WATCHES = 20
"""Watches that a kubelet has besides one for each secret and config map of its pods."""
TERMINATED_MIN = 1_000
"""Pods that have ended and are still there: from so many it is told."""
TERMINATED_PART = 0.2
"""Of all pods."""
TERMINATED_DEFAULT = 12_500
"""--terminated-pod-gc-threshold of kube-controller-manager."""
