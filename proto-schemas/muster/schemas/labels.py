"""Labels of a job that Muster itself reads."""

RUN_S = "sim.muster.dev/run-s"
"""For a simulated cluster: seconds that the job runs, as a decimal number."""
EXIT_CODE = "sim.muster.dev/exit-code"
"""For a simulated cluster: the job's exit code, 0 to 255."""
PREFLIGHT = "sim.muster.dev/preflight"
"""For a simulated cluster: how the checks of the job go: fail, fail-once (the first attempt), cannot-run, or hang (they
are never reported)."""
