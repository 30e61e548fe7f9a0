"""`python compose/grafana/write.py`: writes dashboards/*.json from the catalogue."""

from boards import FOLDER, text_of
from catalogue import BOARDS


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(text_of(board), encoding="utf-8")


if __name__ == "__main__":
    main()
