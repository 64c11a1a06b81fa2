"""`dpconvex studio`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.options import existing, ledger_option, read_schema


@click.command()
@ledger_option(required=False)
@click.option("--schema", "schema_path", type=existing, help="Schema to begin with.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on this computer; 0 takes a free one.")
@click.option("--browser/--no-browser", default=True, help="Open a browser.")
def studio(url: str | None, schema_path: Path | None, port: int, browser: bool) -> None:
    """Open a page on this computer for people who do not program.

    What privacy will cost, schemas, receipts, ledgers and attacks. It reads no rows, answers on this computer only,
    and asks nothing of any other.
    """
    from dpconvex.studio import serve

    schema = None if schema_path is None else read_schema(schema_path)
    serve(port, ledger=url, schema=schema, browse=browser, say=click.echo)
