"""What checks a pod before its first step is called, in its manifest and in what is seen of it."""

CHECKS, GATE = "muster-preflight", "muster-gate"
INIT_CONTAINERS = frozenset({CHECKS, GATE})
GATE_ANNOTATION = "muster.dev/gate"
OPEN = "open"
GATE_FOLDER, GATE_FILE = "/etc/muster-gate", "gate"
GATE_VOLUME = "muster-gate"
