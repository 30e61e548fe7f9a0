"""The fleet that clusters of the contract simulate."""

from muster.agent.core.fleet import regular_fleet

FLEET = regular_fleet(
    nodes=2, gpus_per_node=8, gpu_model="H100", cpu_milli=1000, memory_mib=1000, rack_size=8, racks_per_block=8
)
