"""Labels of a job that Muster itself reads."""

RUN_S = "sim.muster.dev/run-s"
"""For a simulated cluster: seconds that the job runs, as a decimal number."""
EXIT_CODE = "sim.muster.dev/exit-code"
"""For a simulated cluster: the job's exit code, 0 to 255."""
PREFLIGHT = "sim.muster.dev/preflight"
"""For a simulated cluster: the result of the job's checks: fail, fail-once (the first attempt), cannot-run, or hang
(never reported)."""
GPU_BUSY = "sim.muster.dev/gpu-busy"
"""For a simulated cluster: share of the time in which a program runs on the job's GPUs, 0 to 1."""
GPU_SM = "sim.muster.dev/gpu-sm"
"""For a simulated cluster: share of the multiprocessors that are active, 0 to 1."""
