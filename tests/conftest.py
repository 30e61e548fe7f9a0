"""Servers for every test. Never import from here: what tests call is in `servers`."""

import gc
from collections.abc import Iterator

import pytest

gc.set_threshold(50_000, 10, 2)  # as the host of services does: else a third of the time in which tests are collected
pytest.register_assert_rewrite("kit")  # before anything of it is imported: else its asserts say no values

import redis  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from kit.servers import NatsServer, RedisServer, redis_admin, running_nats, running_redis  # noqa: E402

# How long an example takes says how busy the machine is, not what is wrong.
settings.register_profile("hunt", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", settings.get_profile("hunt"), derandomize=True)
# A change is judged by the examples that its parent passed; `make hunt` looks at others every time.
settings.load_profile("same")


def pytest_collection_finish() -> None:
    """Leave out of later collections what is there before the first test."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """nats-server in operator mode, empty, for one test: `await nats_server.connect("scheduler")`."""
    with running_nats() as server:
        yield server


@pytest.fixture(scope="module")
def nats_server_shared() -> Iterator[NatsServer]:
    """The same for all tests of a module: for tests that name their subjects and streams apart."""
    with running_nats() as server:
        yield server


@pytest.fixture
def nats_plain() -> Iterator[NatsServer]:
    """nats-server without authorisation, empty, for one test: `await nats_plain.connect()`."""
    with running_nats(declarations=None) as server:
        yield server


@pytest.fixture(scope="module")
def nats_plain_shared() -> Iterator[NatsServer]:
    """The same for all tests of a module."""
    with running_nats(declarations=None) as server:
        yield server


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """An empty Redis for one test, to be killed and restarted."""
    with running_redis() as server:
        yield server


@pytest.fixture(scope="session")
def _redis_of_the_session() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_url(_redis_of_the_session: RedisServer) -> str:
    """URL of a Redis that is empty at the test's start; the server is shared by the session."""
    with redis.Redis.from_url(redis_admin(_redis_of_the_session.url)) as client:
        client.flushall()
    return _redis_of_the_session.url
