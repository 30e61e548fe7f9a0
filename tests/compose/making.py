"""Makes what the stack starts from: its image, and stand-ins for images that no registry gives."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from compose import images
from compose.engine import Engine
from compose.figures import Figures
from compose.gobuild import built
from compose.project import COMPOSE_FILE, Project, compose_command

_BASE_IMAGE = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)


def base_image() -> str:
    """What the image of the services is built on."""
    dockerfile = COMPOSE_FILE.with_name("Dockerfile")
    found = _BASE_IMAGE.search(dockerfile.read_text())
    assert found is not None, f"{dockerfile} names its base in ARG PYTHON_IMAGE"
    return found[1]


def other_images() -> dict[str, str]:
    """By service: the images that compose.yaml takes from elsewhere."""
    services = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    named = {name: str(service["image"]) for name, service in services.items()}
    return {name: image for name, image in named.items() if not image.startswith("${")}


def project(engine: Engine, figures: Figures, directory: Path) -> Project:
    """A project with every image there. What can neither be pulled nor stood in for is left out, and told.

    Go programs are built beside the image of the services: one computes, the other mostly waits for downloads.
    """
    needed = {"": base_image(), **other_images()}
    lacking = images.missing(engine, needed.values())
    made = [image for image in lacking if images.repository(image) in images.STAND_INS]
    without = tuple(service for service, image in needed.items() if image in lacking and image not in made)
    with ThreadPoolExecutor(1) as pool, figures.timing("images made"):
        compose = pool.submit(compose_command, engine)
        programs = pool.submit(_build_programs, made)
        if made:
            images.make_base(engine)
            images.make_all(engine, [image for image in made if not images.programs(image)])
        stand_ins = {image: images.tagged(image) for image in made}
        found = Project.new(engine, compose.result(), directory=directory, stand_ins=stand_ins, without=without)
        with figures.timing("of it, the image of the services"):
            found.build(base=stand_ins.get(base_image(), base_image()))
        programs.result()
        images.make_all(engine, [image for image in made if images.programs(image)])
    if made:
        figures.say(f"cannot be pulled here; stand-ins for {', '.join(made)}")
    if without:
        figures.say(f"left out, because it can neither be pulled nor stood in for: {', '.join(without)}")
    return found


def _build_programs(made: list[str]) -> None:
    for image in made:
        for program in images.programs(image):
            built(program)
