"""`python -m muster_tools.grafana.write`: writes compose/grafana/dashboards/*.json from the catalogue."""

from muster_tools.grafana.boards import FOLDER, text_of
from muster_tools.grafana.catalogue import BOARDS


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(text_of(board), encoding="utf-8")


if __name__ == "__main__":
    main()
