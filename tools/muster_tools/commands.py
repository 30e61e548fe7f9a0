"""Commands of the tools; `muster.cli.tools` adds them to the command line."""

from muster.cli.tools import ToolCommands
from muster_tools.bench.commands import app as bench
from muster_tools.demo.commands import app as demo
from muster_tools.demo.guard.command import app as guard

COMMANDS = ToolCommands(bench=bench, demo=demo, guard=guard)
