"""`torchrun ... -m muster.checks.torch_reduce MIB ROUNDS`: an all-reduce over a whole gang, for images with PyTorch.

nccl-tests need MPI, and so access from one pod to another, as soon as there are two nodes; torchrun needs a host
and a port. Each node's first process prints the bus bandwidth (2 (n - 1) / n of the bytes over the time, as
nccl-tests count) and the number of wrong sums.
"""

import importlib
import os
import sys
import time

from muster.checks.readers import OURS

WARM_UP = 3


def main(mib: int, rounds: int) -> int:
    """Measure the bandwidth. Raises exceptions of torch: then nothing is printed, and the check could not run."""
    torch = importlib.import_module("torch")  # of the image, if it has it: not a dependency of Muster
    dist = importlib.import_module("torch.distributed")
    has_gpus = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpus else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    numbers = torch.empty(mib * 1024 * 1024 // 4, dtype=torch.float32, device=device)
    began = 0.0
    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            began = time.monotonic()
        numbers.fill_(rank + 1)
        dist.all_reduce(numbers)
    if has_gpus:
        torch.cuda.synchronize()
    took_s = max(1e-9, time.monotonic() - began)
    wrong = int((numbers != world * (world + 1) // 2).sum().item())
    bytes_moved = numbers.numel() * 4 * rounds * 2 * (world - 1) / world
    if os.environ.get("LOCAL_RANK", "0") == "0":
        sys.stdout.write(f"{OURS} gb_per_s={bytes_moved / 1e9 / took_s:.3f} wrong={wrong}\n")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
