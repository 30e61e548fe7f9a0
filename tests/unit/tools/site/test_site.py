"""The site: links into the repository hold, folders list themselves, nothing is loaded from elsewhere."""

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, PluginError

from muster_tools.site import foreign, links, listing

ROOT = Path(__file__).parents[4]
HOOK = ROOT / "tools/muster_tools/site/hook.py"


@pytest.mark.parametrize(
    ("link", "source", "shown", "there"),
    [
        ("../../examples/a.yaml", "docs/concepts/b.md", "concepts/b.md", "../files/examples/a.yaml"),
        ("docs/decisions", "CONTRIBUTING.md", "contributing.md", "decisions/index.md"),
        ("docs/concepts/log.md#why", "CONTRIBUTING.md", "contributing.md", "concepts/log.md#why"),
        ("SECURITY.md", "CONTRIBUTING.md", "contributing.md", "reporting.md"),
        ("../services/muster/agent/README.md", "docs/a.md", "a.md", "services/agent.md"),
        ("../bus/README.md#use", "libs/muster/core/README.md", "libs/core.md", "bus.md#use"),
        ("../../../docs/a.md", "libs/muster/core/README.md", "libs/core.md", "../a.md"),
        ("../compose/README.md", "docs/a.md", "a.md", "files/compose/README.md"),
        ("../CONTRIBUTING.md", "docs/install.md", "install.md", "contributing.md"),
        ("log.md", "docs/concepts/b.md", "concepts/b.md", "log.md"),
        ("https://example.org/x", "docs/a.md", "a.md", "https://example.org/x"),
        ("#here", "docs/a.md", "a.md", "#here"),
    ],
)
def test_a_link_leads_to_the_same_thing_on_the_site(link: str, source: str, shown: str, there: str) -> None:
    assert links.on_site(f"see [this]({link}).", source=source, shown=shown) == f"see [this]({there})."


def test_links_in_code_are_no_links() -> None:
    text = "```text\n[a](../b)\n```\n[a](../b.txt)\n"
    assert links.targets(text, source="docs/c.md") == {"b.txt"}


@pytest.mark.parametrize(
    "loaded",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img alt="" src="http://example.org/badge.svg">',
        '<img srcset="/a.png 1x, https://example.org/b.png 2x">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_what_comes_from_elsewhere_is_found(loaded: str) -> None:
    assert len(foreign.loaded_by_html(f"<html><body>{loaded}</body></html>")) == 1


@pytest.mark.parametrize(
    "own",
    [
        '<a href="https://example.org">click</a>',
        '<link rel="canonical" href="https://example.org/page">',
        '<script src="../assets/x.js"></script>',
        '<img src="data:image/png;base64,AA">',
        "<style>a { background: url(b.png) }</style>",
    ],
)
def test_what_is_our_own_or_clicked_is_none_of_it(own: str) -> None:
    assert foreign.loaded_by_html(own) == []


def test_a_style_sheet_is_looked_through() -> None:
    assert foreign.loaded_by_css("a{src:url('https://x.example/f.woff2')} b{src:url(f.woff2)}") == [
        "https://x.example/f.woff2"
    ]


def test_a_folder_in_the_navigation_becomes_its_pages_with_the_index_first() -> None:
    nav = ["index.md", {"Ops": [{"Run": "run/*"}]}]
    pages = ["index.md", "run/b.md", "run/index.md", "run/a.md", "run/deep/c.md"]
    assert listing.expanded(nav, pages) == ["index.md", {"Ops": [{"Run": ["run/index.md", "run/a.md", "run/b.md"]}]}]


def test_an_index_lists_its_folder_with_the_first_sentence_of_each_page() -> None:
    pages = {
        "index.md": "# All\n",
        "a.md": "# A\n\n**Why.** It is [so](b.md). And more.\n",
        "b.md": "# B\n\n**Context.** It was so.\n\n**Decision.** We do b. And more.\n",
    }
    listed = listing.with_list("# All\n\nWords.\n", pages)
    assert "| [A](a.md) | It is so. |" in listed
    assert "| [B](b.md) | We do b. |" in listed


def test_what_an_index_names_itself_is_not_listed_again() -> None:
    pages = {"index.md": "", "a.md": "# A\n\nWords.\n", "b.md": "# B\n\nWords.\n"}
    listed = listing.with_list("# All\n\n- [so](a.md)\n", pages)
    assert "[A](a.md)" not in listed
    assert "[B](b.md)" in listed


def site(tmp_path: Path, page: str) -> Path:
    """A small repository with one page beside the index."""
    (tmp_path / "docs/decisions").mkdir(parents=True)
    (tmp_path / "docs/index.md").write_text("# Home\n\n[Contribute](../CONTRIBUTING.md)\n")
    (tmp_path / "docs/page.md").write_text(page)
    (tmp_path / "docs/decisions/index.md").write_text("# Decisions\n\nAll.\n")
    (tmp_path / "docs/decisions/0001-a.md").write_text("# 1. A\n\n**Decision.** We do a.\n")
    (tmp_path / "CONTRIBUTING.md").write_text(
        "# Contributing\n\n[Decisions](docs/decisions), [security](SECURITY.md)\n"
    )
    (tmp_path / "SECURITY.md").write_text("# Security\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/README.md").write_text("# Tools\n\n[Why](../docs/decisions/0001-a.md)\n")
    (tmp_path / "libs/muster/bus").mkdir(parents=True)
    (tmp_path / "libs/muster/bus/README.md").write_text("# bus\n\n[Core](../core/README.md)\n")
    (tmp_path / "libs/muster/core").mkdir()
    (tmp_path / "libs/muster/core/README.md").write_text(
        "# core\n\n[Free](../../../LICENSE), [page](../../../docs/page.md)\n"
    )
    (tmp_path / "libs/muster/kube").mkdir()
    (tmp_path / "libs/muster/kube/README.md").write_text("# kube\n\nNo page links to it.\n")
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "proto-schemas").symlink_to(ROOT / "proto-schemas")
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: t\nstrict: true\nhooks: [{HOOK}]\nplugins: []\n"
        "theme: {name: null, custom_dir: theme}\nmarkdown_extensions: [tables]\n"
        "nav: [index.md, page.md, {Decisions: 'decisions/*'}, {Libraries: 'libs/*'}]\n"
        "validation: {links: {anchors: warn, not_found: ignore}, nav: {omitted_files: ignore}}\n"
    )
    (tmp_path / "theme").mkdir()
    (tmp_path / "theme/main.html").write_text("{{ page.content }}")
    return tmp_path


def test_the_site_has_the_reference_the_lists_and_the_files_that_are_linked(tmp_path: Path) -> None:
    root = site(tmp_path, "# Page\n\n[Licence](../LICENSE), [all](decisions/index.md)\n")
    build(load_config(str(root / "mkdocs.yml")))
    assert (root / "site/files/LICENSE").read_text() == "free\n"
    assert 'href="../files/LICENSE"' in (root / "site/page/index.html").read_text()
    assert '<a href="0001-a/">1. A</a>' in (root / "site/decisions/index.html").read_text()
    assert 'href="../decisions/"' in (root / "site/contributing/index.html").read_text()
    assert 'href="../decisions/0001-a/"' in (root / "site/tools/index.html").read_text()
    assert "muster submit" in (root / "site/reference/cli/index.html").read_text()
    messages = root / "site/reference/events"
    assert "<code>muster.{cluster}.scheduler.job.{id}.placed</code>" in (messages / "scheduler/index.html").read_text()
    assert (messages / "scheduler.yaml").read_bytes() == (ROOT / "proto-schemas/asyncapi/scheduler.yaml").read_bytes()


def test_a_readme_of_the_code_is_a_page_where_a_page_or_another_one_links_to_it(tmp_path: Path) -> None:
    root = site(tmp_path, "# Page\n\n[Bus](../libs/muster/bus/README.md)\n")
    config = load_config(str(root / "mkdocs.yml"))
    build(config)
    assert config.nav is not None
    assert {"Libraries": ["libs/bus.md", "libs/core.md"]} in config.nav
    assert 'href="../libs/bus/"' in (root / "site/page/index.html").read_text()
    assert 'href="../core/"' in (root / "site/libs/bus/index.html").read_text()
    assert 'href="../../files/LICENSE"' in (root / "site/libs/core/index.html").read_text()
    assert 'href="../../page/"' in (root / "site/libs/core/index.html").read_text()
    assert not (root / "site/libs/kube").exists()


def test_a_page_that_loads_from_elsewhere_is_not_built(tmp_path: Path) -> None:
    root = site(tmp_path, "# Page\n\n![badge](https://example.org/badge.svg)\n")
    with pytest.raises((PluginError, Abort)):
        build(load_config(str(root / "mkdocs.yml")))


@pytest.mark.parametrize("gone", ["examples/gone.yaml", "libs/muster/gone/README.md"])
def test_a_link_to_a_file_that_is_not_there_is_refused(tmp_path: Path, gone: str) -> None:
    root = site(tmp_path, f"# Page\n\n[Gone](../{gone})\n")
    with pytest.raises((PluginError, Abort)):
        build(load_config(str(root / "mkdocs.yml")))
