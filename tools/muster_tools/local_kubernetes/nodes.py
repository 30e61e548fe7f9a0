"""Simulated GPU nodes as Kubernetes objects: nodes that are ready from the start, and their devices in slices."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

DRIVER = "gpu.nvidia.com"
GPU = "nvidia.com/gpu"
RACK_LABEL = "muster.dev/rack"
ZONE_LABEL = "topology.kubernetes.io/zone"
PRODUCT_LABEL = "nvidia.com/gpu.product"
ALWAYS = "2026-01-01T00:00:00Z"
"""Since when a node is ready: any moment will do."""

Manifest = Mapping[str, object]


class Devices(StrEnum):
    """Form in which a node offers its GPUs: a number (device plugin), one by one in ResourceSlices (DRA), or not at
    all."""

    PLUGIN = "plugin"
    DRA = "dra"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Shape of every node of a fleet. product: in the device plugin's label and in the devices' productName.

    sockets: NUMA nodes, over which the GPUs are spread evenly. root_ports: PCIe roots per node.
    """

    cpu: int = 96
    memory_gib: int = 1_024
    pods: int = 110
    gpus: int = 8
    gpu_memory_gib: int = 80
    product: str = "NVIDIA-H100-80GB-HBM3"
    sockets: int = 2
    root_ports: int = 4
    nodes_per_rack: int = 16
    racks_per_zone: int = 8
    devices: Devices = Devices.PLUGIN


def node_name(index: int, *, prefix: str = "gpu") -> str:
    """gpu-0000 and so on."""
    return f"{prefix}-{index:04}"


def device_uuid(node: int, device: int) -> str:
    """Return a uuid in NVIDIA's form; the same for the same node and device."""
    return f"GPU-{node:08x}-0000-4000-8000-{device:012x}"


def node(index: int, shape: NodeShape, *, prefix: str = "gpu", labels: Mapping[str, str] | None = None) -> Manifest:
    """Return a node that is Ready at once, in a rack and a zone."""
    rack = index // shape.nodes_per_rack
    name = node_name(index, prefix=prefix)
    capacity = {"cpu": str(shape.cpu), "memory": f"{shape.memory_gib}Gi", "pods": str(shape.pods)}
    if shape.devices is Devices.PLUGIN:
        capacity[GPU] = str(shape.gpus)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": ALWAYS,
        "lastTransitionTime": ALWAYS,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                RACK_LABEL: f"rack-{rack}",
                ZONE_LABEL: f"zone-{rack // shape.racks_per_zone}",
                **({PRODUCT_LABEL: shape.product} if shape.gpus else {}),
                **(labels or {}),
            },
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [ready],
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


def resource_slice(index: int, shape: NodeShape, *, prefix: str = "gpu") -> Manifest:
    """Return the slice with every GPU of a node: the whole pool, in its first generation."""
    name = node_name(index, prefix=prefix)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{index:05}-{DRIVER}-{name}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(index, device, shape) for device in range(shape.gpus)],
        },
    }


def device_class(name: str = DRIVER) -> Manifest:
    """Return the class of every GPU of the driver."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _device(node_index: int, device: int, shape: NodeShape) -> Manifest:
    socket = device * shape.sockets // shape.gpus
    root = device * shape.root_ports // shape.gpus
    return {
        "name": f"gpu-{device}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": device_uuid(node_index, device)},
            "productName": {"string": shape.product},
            "driverVersion": {"version": "570.86.15"},
            "resource.kubernetes.io/numaNode": {"int": socket},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{root * 0x20:02x}"},
        },
        "capacity": {"memory": {"value": f"{shape.gpu_memory_gib}Gi"}},
    }
