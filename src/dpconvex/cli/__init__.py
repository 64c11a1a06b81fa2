"""The `dpconvex` command. Exit codes: 0 success; 1 a check failed or a resource is unavailable; 2 wrong input."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from dpconvex import errors
from dpconvex.hints import nearest
from dpconvex.version import VERSION

# By name, what each does. A command is imported when it is called: numba and scikit-learn are slow to import.
COMMANDS = {
    "plan": "Show what a fit would do, from public facts alone.",
    "fit": "Fit a private model to a CSV or Parquet file, or to many files.",
    "predict": "Predict the rows of a CSV or Parquet file, or of many files.",
    "summary": "Show the coefficients of a model by name, in the units of its table.",
    "evaluate": "Measure a model on a CSV file of people it was not fitted to.",
    "verify": "Check the guarantee of a model, an evaluation or a receipt, and whose word it is.",
    "ledger": "Keep budgets, and say what is left of them.",
    "account": "Add up the guarantees of models, evaluations and receipts.",
    "key": "Make a key to sign with, and beside it the public key (FILE.pub) that others trust.",
    "sign": "Sign a model, an evaluation or a receipt, in its file: you vouch that the run took place as it says.",
    "registry": "Describe a release for the Differential Privacy Deployments Registry.",
    "card": "Write the card of a model: its purpose, its guarantee in words, and how good it is.",
    "report": "Write a report in words about a model, an evaluation or a receipt, to be signed.",
    "schema": "Draft, fill in, check and convert schemas.",
    "algorithms": "List the algorithms.",
    "datasets": "List the data sets that come with a schema.",
    "studio": "Open a page on this computer for people who do not program.",
    "play": "Play a made-up stream of losses, and compare regret and moves with the proved bounds.",
    "audit": "Attack claims of privacy: of the algorithms, of papers, of your own code.",
    "demo": "Fit a public data set at several budgets and write a report.",
}
_ELSEWHERE = {"audit": "dpconvex.audit.command"}
_CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}
_FAILED, _WRONG, _STOPPED = 1, 2, 130
_SHOWN = (errors.BudgetWarning, errors.NotPrivateWarning, errors.PrivacyLeakWarning, errors.RepeatedReleaseWarning)


class _Commands(click.Group):
    """A group that imports a command when it is called, and reports errors in one line."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called, and say which one may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := nearest(args[0], COMMANDS):
                raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx) from None
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(_ELSEWHERE.get(name, f"dpconvex.cli.{name}")), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run; standalone, end the process with an exit code and at most one line about an error."""
        with warnings.catch_warnings():
            for category in _SHOWN:
                warnings.simplefilter("default", category)
            warnings.showwarning = _show
            if not standalone_mode:
                return super().main(args, standalone_mode=False, **extra)
            try:
                code = super().main(args, standalone_mode=False, **extra)
            except click.UsageError as error:
                hint = f" See: {error.ctx.command_path} --help" if error.ctx else ""
                if isinstance(error, click.MissingParameter) and "--schema" in error.format_message():
                    hint = f" Draft one: dpconvex schema draft DATA -o schema.json, then fill it in.{hint}"
                _fail(error.format_message() + hint, _WRONG)
            except click.ClickException as error:
                _fail(error.format_message(), error.exit_code)
            except click.Abort:
                _fail("stopped", _STOPPED)
            except errors.DpconvexError as error:
                _fail(str(error), _code(error))
            except OSError as error:
                _fail(f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}", _WRONG)
        sys.exit(code if isinstance(code, int) else 0)


def _code(error: errors.DpconvexError) -> int:
    failed = (
        errors.VerificationError,
        errors.UnavailableError,
        errors.ReleaseError,
        errors.LedgerError,
        errors.PartsError,
    )
    return _FAILED if isinstance(error, failed) else _WRONG


def _fail(message: str, code: int) -> NoReturn:
    click.echo("Error: " + " ".join(message.split()), err=True)
    sys.exit(code)


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo("Warning: " + " ".join(str(message).split()), err=True)


@click.group(cls=_Commands, invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(VERSION, prog_name="dpconvex")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Fit convex models with differential privacy.

    A plan is made from public facts, a fit reads the data once, and the receipt states the guarantee. Start with
    `dpconvex schema draft data.csv`.

    Exit codes: 0 success; 1 a check failed or a resource is unavailable; 2 wrong input.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
