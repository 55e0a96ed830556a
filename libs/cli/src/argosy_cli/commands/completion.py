"""`argosy completion`: the completion script of a shell."""

from __future__ import annotations

import click

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print the completion script of SHELL.

    For bash: `eval "$(argosy completion bash)"` in ~/.bashrc; for zsh likewise in ~/.zshrc; for fish:
    `argosy completion fish > ~/.config/fish/completions/argosy.fish`.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "argosy", "_ARGOSY_COMPLETE").source())
