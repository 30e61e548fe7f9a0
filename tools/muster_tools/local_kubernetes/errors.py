"""Errors of a control plane, each a sentence with a hint."""


class LocalPlaneError(Exception):
    """A control plane for tests cannot be had as asked."""


class NoProgramsError(LocalPlaneError):
    """The programs are neither here nor can they be built; the sentence says what to install."""


class BuildFailedError(LocalPlaneError):
    """Go could not build a program; the sentence ends with what Go said last."""


class NotReadyError(LocalPlaneError):
    """A process ended, or did not become ready in time; the sentence ends with the last lines of its log."""


class PortTakenError(NotReadyError):
    """Another process listens on the port of the process."""


class OptionError(LocalPlaneError):
    """An option that no control plane can have; the sentence names the field."""


class FleetError(LocalPlaneError):
    """The API server refused an object of a fleet; the sentence ends with its words."""
