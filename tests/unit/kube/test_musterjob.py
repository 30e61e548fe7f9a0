"""The schema of MusterJob says what a JobSpec says, no more and no less."""

import re
from pathlib import Path

import pytest
import yaml

from muster.kube.musterjob import LEFT_TO_THE_QUEUE, NOT_IN_SPEC, crd, manifest, spec_schema
from muster.kube.objects import JsonObject, camel, is_object, job_body, mapping, objects, snake, text
from muster.schemas.job import ClaimMount, JobSpec, PodOptions, SecretVariable, TaskGroup

ROOT = Path(__file__).parents[3]
MODELS = {
    (): JobSpec,
    ("taskGroups", "items"): TaskGroup,
    ("pod",): PodOptions,
    ("pod", "secretEnv", "items"): SecretVariable,
    ("pod", "volumes", "items"): ClaimMount,
}


def part(*path: str) -> JsonObject:
    """Schema of a part of the spec."""
    schema = spec_schema()
    for name in path:
        schema = mapping(schema, name) if name == "items" else mapping(schema, "properties", name)
    return schema


def walk(schema: JsonObject) -> list[JsonObject]:
    inner = [*mapping(schema, "properties").values(), schema.get("items"), schema.get("additionalProperties")]
    return [schema, *(found for one in inner if is_object(one) for found in walk(one))]


def test_the_committed_definition_is_the_one_that_the_code_makes() -> None:
    committed = (ROOT / "k8s/base/crds/musterjob.yaml").read_text(encoding="utf-8")
    assert committed == manifest(), "run `muster kubernetes crd > k8s/base/crds/musterjob.yaml`"
    assert yaml.safe_load(committed) == crd()


@pytest.mark.parametrize("path", MODELS)
def test_every_field_of_a_job_is_a_field_of_the_object(path: tuple[str, ...]) -> None:
    expected = {camel(name) for name in MODELS[path].model_fields if path or name not in NOT_IN_SPEC}
    assert set(mapping(part(*path), "properties")) == expected


@pytest.mark.parametrize("path", MODELS)
def test_what_is_left_out_means_the_same_in_both(path: tuple[str, ...]) -> None:
    fields = mapping(part(*path), "properties")
    for name, field in MODELS[path].model_fields.items():
        schema = fields.get(camel(name))
        if not is_object(schema):
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(default, (str, int, float)) and name not in LEFT_TO_THE_QUEUE:
            assert schema["default"] == default, name
        else:
            assert "default" not in schema, name


def test_the_run_times_are_left_to_the_queue() -> None:
    assert all("default" not in part(camel(name)) for name in LEFT_TO_THE_QUEUE)


def test_names_come_back_as_they_were() -> None:
    names = [name for model in MODELS.values() for name in model.model_fields]
    assert [snake(camel(name)) for name in names] == names


def test_an_object_reads_as_a_job_with_the_keys_of_its_maps_untouched() -> None:
    spec: JsonObject = {
        "taskGroups": [{"replicas": 2, "gpuMilli": 500, "minReplicas": 1}],
        "labels": {"costCentre": "a"},
        "pod": {"env": {"someVar": "b"}, "shmMib": 1, "secretEnv": [{"variable": "T", "secret": "s", "key": "aKey"}]},
    }
    job = JobSpec.model_validate({**job_body(spec), "name": "train", "team": "blue"})
    assert (job.task_groups[0].gpu_milli, job.task_groups[0].min_replicas) == (500, 1)
    assert (job.labels, job.pod.env, job.pod.secret_env[0].key) == ({"costCentre": "a"}, {"someVar": "b"}, "aKey")


def test_the_api_server_can_read_every_pattern() -> None:
    """It uses RE2, which repeats at most 1,000 times."""
    patterns = [text(one, "pattern") for one in walk(spec_schema()) if "pattern" in one]
    assert patterns
    assert [one for one in patterns for count in re.findall(r"\{(?:\d*,)?(\d+)\}", one) if int(count) > 1_000] == []


def test_every_text_and_list_has_a_bound() -> None:
    for schema in walk(spec_schema()):
        match schema.get("type"):
            case "string":
                assert {"maxLength", "pattern", "enum"} & set(schema), schema
            case "array":
                assert "maxItems" in schema, schema
            case "object" if "additionalProperties" in schema:
                assert "maxProperties" in schema, schema


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/kubernetes").glob("musterjob*.yaml")), ids=lambda path: path.stem
)
def test_the_examples_are_jobs(path: Path) -> None:
    shown = yaml.safe_load(path.read_text(encoding="utf-8"))
    body = job_body(mapping(shown, "spec")) | {"name": text(shown, "metadata", "name"), "team": "blue"}
    JobSpec.model_validate(body, extra="forbid")


def test_people_see_phase_reason_and_queue() -> None:
    [version] = objects(crd(), "spec", "versions")
    columns = [text(column, "name") for column in objects(version, "additionalPrinterColumns")]
    assert columns[:5] == ["Phase", "Reason", "Queue", "GPUs", "Age"]
