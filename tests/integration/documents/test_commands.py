"""What the documents say people can type is typed here, page by page, beside a running stack."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from documents.blocks import PYTHON, RUN, Block, all_blocks
from documents.scripts import scripted
from documents.stage import Stage, made
from documents.tables import Stand, stand_of

pytestmark = [pytest.mark.connected, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]


def groups(*, sharing: bool) -> dict[str, list[Block]]:
    """Blocks that are run here, by page, or one by one where they stand apart. sharing: of pages that share a stack."""
    found: dict[str, list[Block]] = {}
    for block in all_blocks():
        stand = stand_of(block.page)
        if block.language in RUN and not stand.by and stand.shares is sharing:
            found.setdefault(f"{block.page}:{block.line}" if stand.apart else block.page, []).append(block)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[[str], Awaitable[Stage]]]:
    """By the options of a stack, the stage whose stack runs beside all pages that share it; started for the first."""
    stages: dict[str, Stage] = {}
    async with AsyncExitStack() as stacks:

        async def of(options: str) -> Stage:
            if options not in stages:
                stage = made(Path(tmp_path_factory.mktemp("shared")))
                await stacks.enter_async_context(stage.stack(options, settings={}))
                stages[options] = stage
            return stages[options]

        yield of


@pytest.mark.parametrize("blocks", groups(sharing=False).values(), ids=groups(sharing=False).keys())
async def test_commands_of(blocks: Sequence[Block], tmp_path: Path) -> None:
    stand = stand_of(blocks[0].page)
    async with staged(stand, tmp_path) as stage:
        await typed(blocks, stand, stage)


@pytest.mark.parametrize("blocks", groups(sharing=True).values(), ids=groups(sharing=True).keys())
async def test_commands_beside_a_shared_stack_of(
    blocks: Sequence[Block], shared: Callable[[str], Awaitable[Stage]], tmp_path: Path
) -> None:
    stand = stand_of(blocks[0].page)
    assert stand.stack is not None, "a page without a stack shares none"
    stage = made(tmp_path, home=(await shared(stand.stack)).home)
    await typed(blocks, stand, stage)


@asynccontextmanager
async def staged(stand: Stand, directory: Path) -> AsyncIterator[Stage]:
    """The stage of a page, with a stack if it needs one."""
    stage = made(directory)
    if stand.stack is None:
        yield stage
        return
    async with stage.stack(stand.stack, settings=stand.settings):
        yield stage


async def typed(blocks: Sequence[Block], stand: Stand, stage: Stage) -> None:
    """The commands of blocks, one block after the other. Fails with the page and line of the one that failed."""
    if stand.before:
        await stage.run(stand.before)
    for block in blocks:
        script = "\n".join([await filled(one, stand, stage) for one in scripted(block, stand.instead)])
        if script:
            try:
                await (stage.run_python if block.language == PYTHON else stage.run)(script)
            except AssertionError as error:
                raise AssertionError(f"{block.page}:{block.line}: {error}") from None


async def filled(script: str, stand: Stand, stage: Stage) -> str:
    """The command with what its words stand for."""
    for word, fill in stand.fills.items():
        pattern = rf"(?<![\w/-]){re.escape(word)}(?![\w-])" if word.isupper() else re.escape(word)
        if re.search(pattern, script):
            value = await fill(stage)
            script = re.sub(pattern, lambda _, value=value: value, script)
    return script
