"""What axe says of a page."""

from pathlib import Path
from typing import cast

from browser.dashboards import Dashboard

AXE = Path(__file__).parents[2] / "services" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


async def breaks_no_rule(shown: Dashboard) -> bool:
    """Fails with what axe-core finds on the page as it stands."""
    found = await broken_rules(shown)
    assert not found, "\n".join(found)
    return True


async def broken_rules(shown: Dashboard) -> list[str]:
    """Rule, place and reason of each breach."""
    assert AXE.exists(), f"no {AXE}: run `make web` first"
    await shown.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = cast(
        "list[dict[str, object]]",
        await shown.page.evaluate(
            "tags => axe.run({runOnly: tags}).then(({violations}) => violations.flatMap(({id, help, nodes}) =>"
            " nodes.map(({html, failureSummary}) => ({id, help, html, why: failureSummary}))))",
            list(RULES),
        ),
    )
    return [f"{one['id']}: {one['help']}\n  {one['html']}\n  {one['why']}" for one in found]
