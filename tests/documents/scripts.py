"""The commands of a block of the documentation."""

from collections.abc import Sequence

from documents.blocks import Block
from documents.tables import Instead


def scripted(block: Block, instead: Sequence[Instead]) -> list[str]:
    """The commands of a block, with what is run in the place of some; those that others run are left out."""
    found = block.parts()
    for one in instead:
        if one.block and found[0].startswith(one.said):
            return [one.run] if one.run else []
    by_said = {one.said: one for one in instead if not one.block}
    scripts = (by_said[said].run if said in by_said else said for said in found)
    return [script for script in scripts if script]
