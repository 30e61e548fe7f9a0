"""A hook of mkdocs: what the site has beside the committed pages, and the promise that it loads nothing from elsewhere.

In mkdocs.yml: `hooks: [tools/muster_tools/site/hook.py]`. In the navigation `folder/*` stands for all pages of a
folder. Nothing is written beside the site.
"""

from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from muster_tools.site import asyncapi_pages, foreign, links, listing, reference

LISTED = ("decisions", "runbooks")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by mkdocs first: folders of the navigation become their pages."""
    docs = Path(config.docs_dir)
    events = asyncapi_pages.section(_root(config) / asyncapi_pages.SOURCES)
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    pages += [f"{asyncapi_pages.SECTION}/{name}" for name in events if name.endswith(".md")]
    pages += [links.place(source) for source in _sources(_root(config), config) if links.is_readme(source)]
    config.nav = listing.expanded(config.nav or [], pages)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called once mkdocs knows the site's files: the reference, pages and files from elsewhere in the repository."""
    root = _root(config)
    events = asyncapi_pages.section(root / asyncapi_pages.SOURCES)
    for name, text in events.items():
        files.append(File.generated(config, f"{asyncapi_pages.SECTION}/{name}", content=text))
    for name, text in reference.contents(events).items():
        files.append(File.generated(config, f"{reference.SECTION}/{name}", content=text))
    for path in (*_sources(root, config), *sorted(_linked(root, config))):
        if files.get_file_from_path(links.place(path)) is None:
            files.append(File.generated(config, links.place(path), abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the port
    """Called for each page: lists of folders, and links into the repository."""
    shown = page.file.src_uri
    folder = shown.rpartition("/")[0]
    if folder in LISTED and page.file.name == "index":
        beside = sorted((Path(config.docs_dir) / folder).glob("*.md"))
        markdown = listing.with_list(markdown, {path.name: path.read_text(encoding="utf-8") for path in beside})
    if page.file.abs_src_path is None:  # made from the code
        return markdown
    source = Path(page.file.abs_src_path).relative_to(_root(config)).as_posix()
    return links.on_site(markdown, source=source, shown=shown)


def on_post_build(config: MkDocsConfig) -> None:
    """Called at the end. Raises PluginError if a page would load something from elsewhere."""
    site = Path(config.site_dir)
    found = [
        f"{path.relative_to(site)}: {address}"
        for pattern, loaded in (("*.html", foreign.loaded_by_html), ("*.css", foreign.loaded_by_css))
        for path in sorted(site.rglob(pattern))
        for address in loaded(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("the site would load from other people's servers:\n  " + "\n  ".join(found))


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _sources(root: Path, config: MkDocsConfig) -> dict[str, str]:
    """Return the text of every page by its path in the repository: under docs/, elsewhere, and README.md files of the
    code that one of these links to, or that such a file links to. Raises PluginError for a README.md that is not there.
    """
    elsewhere = (root / one for one in links.PAGES if one != links.README)
    waiting = [path.relative_to(root).as_posix() for path in (*sorted(Path(config.docs_dir).rglob("*.md")), *elsewhere)]
    found: dict[str, str] = {}
    for source in waiting:  # grows while it is walked
        if source in found:
            continue
        found[source] = text = (root / source).read_text(encoding="utf-8")
        readmes = sorted(filter(links.is_readme, links.targets(text, source=source)))
        _check_there(root, source, readmes)
        waiting += readmes
    return found


def _linked(root: Path, config: MkDocsConfig) -> set[str]:
    """Files of the repository that pages link to and that are no pages. Raises PluginError for what is not there."""
    found: set[str] = set()
    for source, text in _sources(root, config).items():
        linked = links.outside(links.targets(text, source=source))
        _check_there(root, source, sorted(linked))
        found |= linked
    return found


def _check_there(root: Path, source: str, linked: Iterable[str]) -> None:
    for one in linked:
        if not (root / one).is_file():
            raise PluginError(f"{source}: links to {one}, which is no file of the repository")
