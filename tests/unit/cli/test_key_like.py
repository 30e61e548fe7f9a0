"""What `muster submit` takes for a key, and says of it."""

import pytest

from muster.cli.job_spec import key_warnings, looks_like_key
from muster.schemas.job import JobSpec, PodOptions, TaskGroup

RANDOM = "".join("aB3dE7gH1jK9mN5pQ2sT8vW4xY6z0CfR")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("A", "AKIA" + "A1B2" * 4), ("A", "ghp_" + "a1B2" * 9), ("A", "sk-" + "a1B2" * 8),
        ("A", "xoxb-" + "1234567890a"),
        ("A", "hf_" + "abcd" * 6), ("A", "-----BEGIN RSA PRIVATE KEY-----\nx"), ("HF_TOKEN", "x"), ("db_password", "x"),
        ("WANDB_API_KEY", "x"), ("Y", RANDOM),
    ],
)  # fmt: skip
def test_keys(name: str, value: str) -> None:
    assert looks_like_key(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EPOCHS", "3"), ("HF_TOKEN", ""), ("TOKENIZER", "bert"), ("MONKEY", "x"), ("SSH_KEY", "/run/secrets/key"),
        ("TOKEN_FILE", "token"), ("URL", "https://example.com/" + RANDOM),
        ("NAME", "llama-3-70b-instruct-finetuned-v2"),
        ("OUT", "/data/Checkpoints/Run42/Step10000"),
    ],
)  # fmt: skip
def test_no_keys(name: str, value: str) -> None:
    assert not looks_like_key(name, value)


def test_a_warning_names_the_reference_and_never_the_value() -> None:
    spec = JobSpec(
        name="x", team="t", command=("train", "--token=ghp_" + "a1B2" * 9), task_groups=(TaskGroup(gpus=1),),
        pod=PodOptions(env={"HF_TOKEN": "the-value", "EPOCHS": "3"}),
    )  # fmt: skip
    of_env, of_command = key_warnings(spec)
    assert "pod.env.HF_TOKEN" in of_env
    assert "--env-secret HF_TOKEN=SECRET/KEY" in of_env
    assert of_command.startswith("command seems to contain a secret")
    assert not any(value in line for line in (of_env, of_command) for value in ("the-value", "ghp_"))
