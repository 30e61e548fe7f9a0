"""The fleet's page without a stack: a fleet made of numbers, played by a worker of the page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

CELLS = 14_000
SOURCES = Path(__file__).parents[2] / "services" / "dashboard"


@contextmanager
def synthetic_fleet(directory: Path) -> Iterator[str]:
    """Address of the page with 1,750 nodes, 125 jobs a second, every GPU read each second. Built into `directory`."""
    vite = SOURCES / "node_modules" / ".bin" / "vite"
    assert vite.exists(), f"no {vite}: run `make web` first"
    node = shutil.which("node", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert node is not None, "no node beside this Python: run `make install` first"
    subprocess.run(
        [node, vite, "build", "src/pages/fleet/bench", "--outDir", directory, "--logLevel", "error"],
        cwd=SOURCES,
        check=True,
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""
