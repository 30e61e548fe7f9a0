"""What the documents say people can type is typed here, page by page, beside a running stack."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from documents.blocks import PYTHON, RUN, Block, all_blocks
from documents.stage import Stage, made
from documents.tables import Instead, Stand, stand_of

pytestmark = [pytest.mark.connected, pytest.mark.timeout(600)]

SHARED = "docs/runbooks"
"""Pages of this folder share a stack: they look and change little."""


def groups() -> dict[str, list[Block]]:
    """Blocks that are run here, by page; those of the shared folder together."""
    found: dict[str, list[Block]] = {}
    for block in all_blocks():
        if block.language in RUN and not stand_of(block.page).by:
            folder = block.page.rpartition("/")[0]
            found.setdefault(SHARED if folder == SHARED else block.page, []).append(block)
    return found


@pytest.mark.parametrize(("page", "blocks"), groups().items(), ids=groups().keys())
async def test_commands_of(page: str, blocks: Sequence[Block], tmp_path: Path) -> None:
    stand = stand_of(page)
    async with staged(stand, tmp_path) as stage:
        for block in blocks:
            script = "\n".join([await filled(one, stand, stage) for one in scripted(block, stand.instead)])
            if script:
                try:
                    await (stage.run_python if block.language == PYTHON else stage.run)(script)
                except AssertionError as error:
                    raise AssertionError(f"{block.page}:{block.line}: {error}") from None


@asynccontextmanager
async def staged(stand: Stand, directory: Path) -> AsyncIterator[Stage]:
    """The stage of a page, with a stack if it needs one."""
    stage = made(directory)
    if stand.stack is None:
        yield stage
        return
    async with stage.stack(stand.stack, settings=stand.settings):
        if stand.before:
            await stage.run(stand.before)
        yield stage


def scripted(block: Block, instead: Sequence[Instead]) -> list[str]:
    """The commands of a block, with what is run in the place of some; those that others run are left out."""
    found = block.parts()
    for one in instead:
        if one.block and found[0].startswith(one.said):
            return [one.run] if one.run else []
    by_said = {one.said: one for one in instead if not one.block}
    scripts = (by_said[said].run if said in by_said else said for said in found)
    return [script for script in scripts if script]


async def filled(script: str, stand: Stand, stage: Stage) -> str:
    """The command with what its words stand for."""
    for word, fill in stand.fills.items():
        pattern = rf"(?<![\w/-]){re.escape(word)}(?![\w-])" if word.isupper() else re.escape(word)
        if re.search(pattern, script):
            value = await fill(stage)
            script = re.sub(pattern, lambda _, value=value: value, script)
    return script
