"""The stack of compose/ in containers, once for all tests of this folder; everything made for it is removed again."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose import making
from compose.engine import Engine, NoEngineError, build_cache, engine, forget_builds
from compose.figures import Figures
from compose.images import remove
from compose.project import Project
from compose.running import Stack

FIGURES = pytest.StashKey[Figures]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = Figures()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was measured, or why nothing ran: told also where nobody asks for more words."""
    for line in config.stash[FIGURES].lines:
        terminalreporter.write_line(f"compose: {line}")


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    return pytestconfig.stash[FIGURES]


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """What admins copy out of stacks, and an engine that is started here."""
    directory = Path(tempfile.mkdtemp(prefix="muster-compose-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def project(figures: Figures, directory: Path) -> Iterator[Project]:
    """The stack with its images, not started."""
    try:
        with engine(directory) as answering, _project(answering, figures, directory) as project:
            yield project
    except NoEngineError as error:
        figures.say(f"not run: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def stack(project: Project, directory: Path) -> Iterator[Stack]:
    """The stack, just started: whoever asks first finds it starting."""
    try:
        yield Stack.started(project, directory / "host")
    finally:
        project.down()


@contextmanager
def _project(answering: Engine, figures: Figures, directory: Path) -> Iterator[Project]:
    """Images and a project that is not started yet; both are removed at the end, whatever became of them, and what was
    kept of building them.
    """
    remove(answering)  # of a run that was killed
    kept = build_cache(answering)
    try:
        project = making.project(answering, figures, directory)
        try:
            yield project
        finally:
            project.forget()
    finally:
        remove(answering)
        forget_builds(answering, but=kept)
