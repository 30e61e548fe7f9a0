"""The custom resource MusterJob, whose schema is derived from `JobSpec`.

Field names are in camel case (`totalRunTimeS`). The schema checks types, bounds and names, and by CEL rules what two
fields require of each other. The job's name is `metadata.name`, its team that of the namespace. The run times have no
defaults: those are the queue's.
"""

import re

import yaml

from muster.kube.objects import JsonObject, camel, is_object, mapping, sequence
from muster.kube.resources import MUSTER_JOBS
from muster.schemas.base import NAME_PATTERN
from muster.schemas.facts.workload import NODES_SHOWN_MAX
from muster.schemas.job import JobSpec, Phase

SHORT_NAME = "mj"
NOT_IN_SPEC = frozenset({"name", "team", "left_out"})
"""Fields of JobSpec that follow from the object."""
LEFT_TO_THE_QUEUE = ("total_run_time_s", "min_slice_s")
REFUSED = "refused"
"""Phase of an object whose job is refused; it is submitted again, and may be edited."""
REJECTED = "rejected"
"""Phase of an object that is not a valid job; it may be edited."""
_MESSAGE_MAX = 4096
_KEPT = ("type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")


def spec_schema() -> JsonObject:
    """Return the structural OpenAPI schema of `spec` for apiextensions.k8s.io/v1."""
    whole = JobSpec.model_json_schema()
    schema = _Converter(mapping(whole, "$defs")).convert(whole)
    fields = mapping(schema, "properties")
    for name in NOT_IN_SPEC:
        fields.pop(camel(name), None)
    for name in LEFT_TO_THE_QUEUE:
        mapping(fields, camel(name)).pop("default", None)
    schema["required"] = ["taskGroups"]
    schema["description"] = (
        "A job, as for `muster submit`. totalRunTimeS: run-time limit over all attempts, in seconds; minSliceS: "
        "minimum run time before preemption, in seconds; both default to the queue's. Queue: the team's by default. "
        "Priority: within the queue. Retries: maximum consecutive retries after failures of the job itself without "
        "progress (a checkpoint, or an hour where it checkpoints). GraceS: termination grace period, in seconds."
    )
    groups = mapping(fields, "taskGroups")
    groups |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    group = mapping(groups, "items")
    group["x-kubernetes-validations"] = [
        _rule(
            "self.gpus == 0 || self.gpuMilli == 0",
            "set either `gpus` (whole GPUs) or `gpuMilli` (a share of one), not both",
        ),
        _rule("!has(self.minReplicas) || self.minReplicas <= self.replicas", "minReplicas must be at most replicas"),
    ]
    return schema


def status_schema() -> JsonObject:
    """Return the OpenAPI schema of `status`."""
    instant: JsonObject = {"type": "string", "format": "date-time"}
    text: JsonObject = {"type": "string"}
    whole: JsonObject = {"type": "integer", "format": "int32"}
    phases = [*(phase.value for phase in Phase), REFUSED, REJECTED]
    return {
        "type": "object",
        "description": "State of the job; written only by Muster's agent.",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "jobId": text | {"description": "Id of the job in `muster` and the HTTP API."},
            "phase": text | {"enum": phases},
            "reason": text | {"description": "Reason of the phase, as one word."},
            "message": text | {"description": "Reason of the phase, for display.", "maxLength": _MESSAGE_MAX},
            "queue": text,
            "gpus": text | {"description": "Total GPUs of the gang."},
            "attempt": whole,
            "nodes": {"type": "array", "items": text, "maxItems": NODES_SHOWN_MAX},
            "nodesTotal": whole,
            "exitCode": whole,
            "queuedAt": instant,
            "startedAt": instant,
            "endedAt": instant,
            "conditions": _conditions(),
        },
    }


def crd() -> JsonObject:
    """Return the CustomResourceDefinition, as in k8s/base/crds/musterjob.yaml."""
    schema: JsonObject = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec_schema(),
            "status": status_schema(),
        },
        "x-kubernetes-validations": [
            _rule(
                "self.spec == oldSelf.spec || (has(oldSelf.status) && has(oldSelf.status.phase)"
                f" && oldSelf.status.phase in ['{REJECTED}', '{REFUSED}'])",
                "the spec of a submitted job is immutable: delete the object and create another one",
            ),
            _rule(
                f"self.metadata.name.matches('{NAME_PATTERN}')",
                "the name must be at most 63 lower-case letters, digits and hyphens: it is the job's name",
            ),
        ],
    }
    version: JsonObject = {
        "name": MUSTER_JOBS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {"openAPIV3Schema": schema},
    }
    names: JsonObject = {
        "kind": MUSTER_JOBS.kind,
        "listKind": f"{MUSTER_JOBS.kind}List",
        "plural": MUSTER_JOBS.plural,
        "singular": MUSTER_JOBS.kind.lower(),
        "shortNames": [SHORT_NAME],
        "categories": ["muster"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": MUSTER_JOBS.title},
        "spec": {"group": MUSTER_JOBS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def manifest() -> str:
    """Return the CustomResourceDefinition as YAML."""
    text = yaml.dump(crd(), Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True)
    return f"# Made by `muster kubernetes crd` of the schema of jobs; a test compares them.\n{text}"


class _PlainDumper(yaml.SafeDumper):
    """A YAML dumper without anchors, for readability."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the dumper's own
        """Write every value in full."""
        return True


class _Converter:
    """Converts pydantic's JSON Schema (2020-12) to Kubernetes' form: no references, no `null`, no `title`."""

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions

    def convert(self, schema: JsonObject) -> JsonObject:
        """Convert a schema. Raises ValueError for what a structural schema cannot hold."""
        source = self._resolved(schema)
        made: JsonObject = {key: source[key] for key in _KEPT if key in source}
        if "exclusiveMinimum" in source:
            made |= {"minimum": source["exclusiveMinimum"], "exclusiveMinimum": True}
        described, default = source.get("description"), source.get("default")
        if isinstance(described, str):
            made["description"] = _words(described)
        if isinstance(default, (str, int, float)):
            made["default"] = default
        match source.get("type"):
            case "object":
                made |= self._object(source)
            case "array":
                made["items"] = self.convert(mapping(source, "items"))
            case "string" | "integer" | "number" | "boolean":
                pass
            case other:
                raise ValueError(f"{source}: a structural schema of Kubernetes has no type {other!r}")
        return made

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """Resolve references, and drop the alternative `null`, which is the same as omitting the field."""
        for alternative in sequence(schema, "anyOf"):
            if is_object(alternative) and alternative.get("type") != "null":
                rest = {key: value for key, value in schema.items() if key != "anyOf"}
                return self._resolved(alternative) | rest
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return mapping(self._definitions, reference.rpartition("/")[2]) | rest

    def _object(self, source: JsonObject) -> JsonObject:
        fields = mapping(source, "properties")
        if not fields:
            by_pattern = mapping(source, "patternProperties")  # Kubernetes has no patterns of keys: the agent checks
            values = next(iter(by_pattern.values()), None) or source.get("additionalProperties")
            if not is_object(values):
                raise ValueError(f"{source}: a map needs a schema of its values")
            return {"additionalProperties": self.convert(values), "maxProperties": source["maxProperties"]}
        made: JsonObject = {
            "properties": {camel(name): self.convert(schema) for name, schema in fields.items() if is_object(schema)}
        }
        required = [camel(name) for name in sequence(source, "required") if isinstance(name, str)]
        if required:
            made["required"] = required
        if isinstance(described := source.get("description"), str):
            text = _words(described)
            for name in sorted(fields, key=len, reverse=True):
                text = re.sub(rf"\b{name}\b", camel(name), text)
            made["description"] = text
        return made


def _words(description: str) -> str:
    """Return the description on one line, with "left out" for Python's None."""
    return re.sub(r"\bNone\b", "left out", " ".join(description.split()))


def _rule(rule: str, message: str) -> JsonObject:
    return {"rule": rule, "message": message}


def _conditions() -> JsonObject:
    """Return the schema of metav1.Condition."""
    properties: JsonObject = {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {"type": "integer", "format": "int64"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": {"type": "string", "maxLength": 1024},
        "message": {"type": "string", "maxLength": 32768},
    }
    item: JsonObject = {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": properties,
    }
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


def _columns() -> list[JsonObject]:
    """Return the columns of `kubectl get mj`; priority 1 needs `-o wide`."""
    shown = (
        ("Phase", "string", ".status.phase", 0),
        ("Reason", "string", ".status.reason", 0),
        ("Queue", "string", ".status.queue", 0),
        ("GPUs", "string", ".status.gpus", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Attempt", "integer", ".status.attempt", 1),
        ("Nodes", "string", ".status.nodes", 1),
        ("Job", "string", ".status.jobId", 1),
        ("Message", "string", ".status.message", 1),
    )
    return [
        {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})
        for name, kind, path, priority in shown
    ]
