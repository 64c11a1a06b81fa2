"""The `dpconvex` command. Exit codes: 0 done; 1 a check failed, or something is not to be had; 2 wrong input."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from dpconvex import errors
from dpconvex.version import VERSION

# A command is imported when it is called: numba and scikit-learn cost more than everything else together.
COMMANDS = {
    "plan": ("dpconvex.cli.plan:plan", "Show what a fit would do, from public facts alone."),
    "fit": ("dpconvex.cli.fit:fit", "Fit a private model to a CSV file."),
    "predict": ("dpconvex.cli.predict:predict", "Predict the rows of a CSV file."),
    "evaluate": ("dpconvex.cli.evaluate:evaluate", "Measure a model on a CSV file of people it was not fitted to."),
    "verify": ("dpconvex.cli.verify:verify", "Prove the guarantee of a model or a receipt again."),
    "account": ("dpconvex.cli.account:account", "Add up the guarantees of models and receipts."),
    "report": ("dpconvex.cli.report:report", "Write the receipt of a model in words, as a page to sign."),
    "schema": ("dpconvex.cli.schema:schema", "Draft and check schemas."),
    "algorithms": ("dpconvex.cli.algorithms:algorithms", "List the algorithms."),
    "datasets": ("dpconvex.cli.datasets:datasets", "List the data sets that come with a schema."),
    "play": (
        "dpconvex.cli.play:play",
        "Play a made-up stream of losses, and compare regret and moves with what is proved.",
    ),
    "audit": (
        "dpconvex.audit.command:audit",
        "Attack claims of privacy: of the algorithms, of papers, of your own code.",
    ),
    "demo": ("dpconvex.cli.demo:demo", "Fit a public data set at several budgets and write a report."),
}
FAILED, WRONG, STOPPED = 1, 2, 130
SHOWN = (
    errors.BudgetWarning,
    errors.NotPrivateWarning,
    errors.PrivacyLeakWarning,
    errors.RepeatedReleaseWarning,
)


class Commands(click.Group):
    """A group that imports a command when it is called, and says what is wrong in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of a first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run; on its own, end the process with an exit code and at most one line about what went wrong."""
        with warnings.catch_warnings():
            for category in SHOWN:
                warnings.simplefilter("default", category)
            warnings.showwarning = _show
            if not standalone_mode:
                return super().main(args, standalone_mode=False, **extra)
            try:
                code = super().main(args, standalone_mode=False, **extra)
            except click.UsageError as error:
                hint = f" See: {error.ctx.command_path} --help" if error.ctx else ""
                _fail(error.format_message() + hint, WRONG)
            except click.ClickException as error:
                _fail(error.format_message(), error.exit_code)
            except click.Abort:
                _fail("stopped", STOPPED)
            except errors.DpconvexError as error:
                _fail(str(error), _code(error))
            except OSError as error:
                _fail(f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}", WRONG)
        sys.exit(code if isinstance(code, int) else 0)


def _code(error: errors.DpconvexError) -> int:
    failed = (errors.VerificationError, errors.UnavailableError, errors.ReleaseError)
    return FAILED if isinstance(error, failed) else WRONG


def _fail(message: str, code: int) -> NoReturn:
    click.echo("Error: " + " ".join(message.split()), err=True)
    sys.exit(code)


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo("Warning: " + " ".join(str(message).split()), err=True)


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="dpconvex")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Fit convex models with differential privacy.

    A plan is made from public facts, a fit opens the data once, and the receipt says what was promised. Start with
    `dpconvex schema draft data.csv`.

    Exit codes: 0 done; 1 a check failed, or something is not to be had; 2 wrong input.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
