"""`a3c-zoo help`."""

from __future__ import annotations

import click

from a3c_zoo.cli.common import example
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import UnknownNameError, ZooError, unknown_name
from a3c_zoo.synonyms import command_cure


@click.command(epilog=example("a3c-zoo help train"))
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show what COMMAND does, as `a3c-zoo COMMAND --help` does."""
    context = ctx.find_root()
    found: click.Command = cli
    for word in words:
        if not isinstance(found, click.Group):
            raise ZooError(f"'{context.command_path}' has no command below it: leave out '{word}'")
        below = found.get_command(context, word)
        if below is None:
            if found is cli and (cure := command_cure(word)):
                raise UnknownNameError(f"unknown command '{word}'. {cure}")
            listing = f"{context.command_path} --help"
            raise unknown_name("command", word, found.list_commands(context), listing=listing)
        context = click.Context(below, info_name=word, parent=context)
        found = below
    click.echo(found.get_help(context))
