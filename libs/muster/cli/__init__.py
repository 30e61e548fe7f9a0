"""The command line. Modules import what is heavy inside their commands, so that `muster --help` answers at once."""
