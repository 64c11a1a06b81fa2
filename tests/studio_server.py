"""A studio in a process of its own, as people start it."""

import re
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def running(*options):
    """Start `dpconvex studio`; the address that it prints, token included."""
    code = "from dpconvex.cli import main; main()"
    command = [sys.executable, "-c", code, "studio", "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            assert found, line + process.stdout.read()
            yield found.group()
        finally:
            process.terminate()
            process.wait(timeout=10)
