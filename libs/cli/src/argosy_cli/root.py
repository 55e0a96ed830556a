"""The root command: global options, commands loaded when they are called, errors turned into exit codes.

Source: design section 9.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from argosy_cli.catalogue import COMMANDS, EXTRAS, help_text
from argosy_cli.exits import Declined, ExitCode, exit_code_of, own_failures
from argosy_cli.options import Settings, global_options
from argosy_cli.output import show_error
from argosy_core.errors import ArgosyError

__all__ = ["cli", "run"]

_NUMBER: Final = re.compile(r"is not a valid (integer|float)(?: range)?(?=\.$)")

# gRPC's own library writes of connections that come and go to the standard error, amid what a command says.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


class _LazyGroup(click.Group):
    """A group that imports a command when it is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"argosy_cli.commands.{entry.module}")
        command: click.Command = getattr(module, entry.attribute)
        if "_ARGOSY_COMPLETE" in os.environ:
            from argosy_cli.completing import complete_names

            complete_names(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)  # click takes from what it is given
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            if self._is_run(ctx, given):
                with own_failures():
                    raise
            raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1
            _end_output()
            return ExitCode.OK

    def _is_run(self, ctx: click.Context, args: Sequence[str]) -> bool:
        """Return whether a command line whose global options are wrong is one of `run`, so that 2 may be its command's.

        It is the first command named that is no option's value. Where there is none, an option has taken it for its
        value: `argosy --timeout run -- true`.
        """
        with_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        own = args[: args.index("--")] if "--" in args else args
        named = [word for word in own if word in COMMANDS]
        free = [
            word for before, word in zip(("", *own), own, strict=False) if word in COMMANDS and before not in with_value
        ]
        return (free or named)[:1] == ["run"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
            hint = f" Did you mean {near[0]!r}?" if near else " `argosy --help` lists them."
            raise click.UsageError(f"There is no command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        formatter.write(help_text())


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@global_options
@click.version_option(package_name="argosy-cli", prog_name="argosy")
@click.pass_context
def cli(context: click.Context) -> None:
    """A batch scheduler for many clusters and many tenants."""
    context.ensure_object(Settings)


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; expected errors become one message on the standard error."""
    try:
        code: Any = cli.main(args=list(arguments), prog_name="argosy", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        setattr(error, "message", _NUMBER.sub(_number_text, error.message))  # noqa: B010 - final, says click
        error.show()
        return exit_code_of(error, ExitCode.USAGE)
    except Declined:
        click.echo("nothing was done", err=True)
        return ExitCode.OK
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _end_output()
        return ExitCode.OK
    except ArgosyError as error:
        show_error(error)
        return exit_code_of(error)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            return _show_fault(error)
        click.echo(
            f"error: this needs argosy-cli[{extra}], which is not installed: pip install 'argosy-cli[{extra}]'",
            err=True,
        )
        return exit_code_of(error, ExitCode.USAGE)
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        return exit_code_of(error)
    except Exception as error:  # noqa: BLE001 - told, and raised again if asked for
        return _show_fault(error)
    return code if isinstance(code, int) else ExitCode.OK


def _end_output() -> None:
    """Write nothing more: the reader of our output has seen enough, which is no fault of anybody."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _number_text(found: re.Match[str]) -> str:
    """Return in people's words what click says of what is no number."""
    return f"is no {'whole number' if found[1] == 'integer' else 'number'}"


def _show_fault(error: Exception) -> int:
    """Say that it is ours, or raise it again where somebody looks for its place."""
    if os.environ.get("ARGOSY_DEBUG"):
        raise error
    click.echo(
        f"error: a fault in argosy itself: {type(error).__name__}: {error}; ARGOSY_DEBUG=1 shows where", err=True
    )
    return exit_code_of(error)
