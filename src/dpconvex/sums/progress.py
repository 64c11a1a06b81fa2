"""A bar for passes over rows that take longer than two seconds, on a terminal and nowhere else.

It shows the rows of a pass, their speed and the time left. How many passes a run takes may depend on the rows, so the
bar vanishes with its pass and passes are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_PATIENCE = 2.0  # seconds


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} rows a second" if task.speed else "")


@contextmanager
def passing(rows: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Return what is told how many more rows of a pass are done.

    Examples
    --------
    >>> with passing(1000) as done:
    ...     done(1000)
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield lambda more: None
        return
    columns = TextColumn("reading {task.total:,.0f} rows"), BarColumn(), _Speed(), TimeRemainingColumn()
    bar = Progress(*columns, console=console, transient=True)
    began, task, seen = time.monotonic(), bar.add_task("", total=rows), 0

    def done(more: int) -> None:
        nonlocal seen
        seen += more
        if not bar.live.is_started and time.monotonic() - began > _PATIENCE:
            bar.start()
        bar.update(task, completed=seen)

    try:
        yield done
    finally:
        if bar.live.is_started:
            bar.stop()
