"""Names of people's making as labels of metrics: so many, and the rest together as `other`. Pure."""

OTHER = "other"


class BoundedLabels:
    """Which names are shown by themselves: the first that came. A name keeps its label for as long as this lives."""

    def __init__(self, names_max: int) -> None:
        assert names_max > 0, "at least one name is shown"
        self._names_max = names_max
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """The label of a name."""
        if name in self._known:
            return name
        if len(self._known) >= self._names_max:
            return OTHER
        self._known.add(name)
        return name
