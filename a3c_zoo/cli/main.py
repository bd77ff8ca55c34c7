"""The command group: it finds commands by name, imports only the one that runs, and prints errors in one line."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from a3c_zoo.cli.mistyped import refuse_torn_values, unknown_option, usage_cure
from a3c_zoo.errors import (
    ConfigError,
    PluginError,
    UnknownNameError,
    WorkerError,
    ZooError,
    printable,
    printable_lines,
    type_and_message,
    unknown_name,
)
from a3c_zoo.plugins import builtins
from a3c_zoo.plugins.entries import CommandEntry, load_object
from a3c_zoo.standard_streams import is_dumb
from a3c_zoo.synonyms import command_cure
from a3c_zoo.version import __version__

_BUILTIN = {entry.name: entry for entry in builtins.COMMANDS}


class ZooGroup(click.Group):
    """The built-in commands and those of plugins.

    `main` always exits. An error that the user can correct is one line on stderr.
    """

    debug = False
    #: Whether the command that runs is one of a3c-zoo itself.
    is_builtin = False
    #: The command line, without the program's name.
    given: tuple[str, ...] = ()

    def entries(self) -> dict[str, CommandEntry]:
        """Returns every command, built-in ones first. This loads the plugins, which built-in commands do not need."""
        from a3c_zoo.plugins.registry import get_registry

        return _BUILTIN | dict(
            sorted(item for item in get_registry().commands.items() if item[0] not in _BUILTIN)
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command; None if there is none of this name."""
        entry = _BUILTIN.get(cmd_name) or self.entries().get(cmd_name)
        if entry is None:
            return None
        try:
            command = load_object(entry.command)
        except Exception as error:
            if isinstance(error, ZooError) or entry.name in _BUILTIN:
                raise
            raise PluginError(
                f"command '{entry.name}' cannot be loaded: {type_and_message(error)}"
            ) from error
        if not isinstance(command, click.Command):
            raise PluginError(f"command '{entry.name}': '{entry.command}' is no click.Command")
        _accept_everywhere(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line, and refuses what no command could work with."""
        given = list(args)
        self.given = tuple(given)
        rest = super().parse_args(ctx, args)  # --help and --version end here
        if not ctx.resilient_parsing:
            _refuse_bytes(given)
            _refuse_removed_folder()
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command that `args` begin with, and notes whether it is a built-in one. Raises UnknownNameError."""
        command = self.get_command(ctx, args[0])
        if command is None:  # perhaps a plugin file offers it that is named behind it
            _PLUGINS_OF_A_LINE.make_context("", args[1:], resilient_parsing=ctx.resilient_parsing)
            command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            if cure := command_cure(args[0]):
                raise UnknownNameError(f"unknown command '{args[0]}'. {cure}")
            raise unknown_name("command", args[0], self.entries(), listing="a3c-zoo --help")
        self.is_builtin = args[0] in _BUILTIN
        if self.is_builtin and command is not None and not ctx.resilient_parsing:
            _refuse_empty(args, command)
            refuse_torn_values(args)  # a plugin's command may have another option -o
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands from their entries, without importing the commands."""
        rows = [(entry.name, printable(entry.short_help)) for entry in self.entries().values()]
        for title, part in (
            ("Commands", rows[: len(_BUILTIN)]),
            ("Commands from plugins", rows[len(_BUILTIN) :]),
        ):
            if part:
                with formatter.section(title):
                    formatter.write_dl(part)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes command names from the entries, and options."""
        entries = (entry for entry in self.entries().values() if entry.name.startswith(incomplete))
        items = [CompletionItem(entry.name, help=printable(entry.short_help)) for entry in entries]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Runs a command line and exits. If a command returns an integer, it is the exit status."""
        run: Callable[..., Any] = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        self.debug = os.environ.get("A3C_ZOO_DEBUG", "") not in ("", "0")
        try:
            status = run(*args, standalone_mode=False, color=colour(), **extra)
            sys.stdout.flush()
        except BrokenPipeError:
            # Prevents the interpreter's error message when it flushes to a closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (click.Abort, KeyboardInterrupt) as error:
            if isinstance(error.__cause__, EOFError):  # click treats every EOFError as Ctrl-D
                raise error.__cause__ from None
            sys.exit(130)
        except (ZooError, click.ClickException) as error:
            self._fail(error)
        sys.exit(status if isinstance(status, int) else 0)

    def _fail(self, error: ZooError | click.ClickException) -> NoReturn:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
            sys.exit(error.exit_code)
        if self.debug:
            click.echo(printable_lines("".join(traceback.format_exception(error))), err=True, nl=False)
        if isinstance(error, ZooError):
            if isinstance(error, ConfigError | WorkerError):
                shown = printable_lines
            else:
                shown = printable
            _echo_error(shown(" ".join([str(error), *getattr(error, "__notes__", ())])))
            sys.exit(error.exit_status)
        if isinstance(error, click.UsageError) and error.ctx:
            hint = f" See: {error.ctx.command_path} --help"
        else:
            hint = ""
        message = " ".join(error.format_message().split())  # some of click's messages have several lines
        if isinstance(error, click.NoSuchOption) and error.ctx:
            message = unknown_option(error.option_name, self.given, error.ctx, self.is_builtin)
            hint = ""
        elif isinstance(error, click.UsageError):
            cure = usage_cure(message, self.given, error.ctx)
            hint = f" {cure}" if cure else hint
        stop = "." if hint and message[-1:] not in ".?!" else ""
        _echo_error(printable(f"{message}{stop}{hint}"))
        sys.exit(error.exit_code)


def colour() -> bool | None:
    """For click, which knows neither NO_COLOR nor dumb terminals: False for no colour, None if the stream decides."""
    if os.environ.get("NO_COLOR") or is_dumb():
        return False
    return None


def _echo_error(text: str) -> None:
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {text}", err=True, color=colour())


def _refuse_bytes(args: Sequence[str]) -> None:
    """Raises ZooError for an argument that is not UTF-8: it could be neither shown nor written into a file."""
    for arg in args:
        try:
            arg.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(arg).decode(errors="backslashreplace")
            raise ZooError(
                f"'{shown}' is not UTF-8; rename the file or folder, or choose another name"
            ) from None


def _refuse_empty(args: Sequence[str], command: click.Command) -> None:
    """Raises ZooError for an option with an empty value: an unset variable of the shell must not mean the default."""
    valued = _options_with_values(command)
    for before, arg in itertools.pairwise(args):
        option = arg.removesuffix("=") or before  # of `--study=`, and of `--study ''`
        if option != arg and option in valued:
            raise ZooError(f"an empty argument stands behind {option}: give a value, or leave both out")


def _options_with_values(command: click.Command) -> set[str]:
    """The long options of a command and of its sub-commands that take a value."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.is_flag]
    names = {name for option in options for name in option.opts if name.startswith("--")}
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        names |= _options_with_values(child)
    return names


def _refuse_removed_folder() -> None:
    """Raises ZooError if the current folder is no more: Python and torch need one."""
    try:
        os.getcwd()
    except OSError as error:
        raise ZooError("the current folder has been removed; go to another (cd), and try again") from error


def _accept_everywhere(command: click.Command) -> None:
    """Adds `--plugin` and `--debug` to a command and its sub-commands, so a user can add them to the end of a line."""
    taken = {name for param in command.params for name in param.opts}
    command.params += [option for option in (_PLUGIN_OPTION, _DEBUG_OPTION) if taken.isdisjoint(option.opts)]
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        _accept_everywhere(child)


def _name_plugin_files(ctx: click.Context, param: click.Parameter, files: tuple[str, ...]) -> None:
    """Adds files to the variable, which the processes that this one starts read, too."""
    from a3c_zoo.plugins.loading import PLUGIN_FILES
    from a3c_zoo.plugins.registry import get_registry

    if files:
        _refuse_removed_folder()
    for file in files:
        if os.pathsep in (path := os.path.abspath(file)):
            raise ZooError(
                f"--plugin {file}: its path has a '{os.pathsep}', which separates paths; rename it"
            )
        os.environ[PLUGIN_FILES] = os.pathsep.join(filter(None, [os.environ.get(PLUGIN_FILES), path]))
        get_registry.cache_clear()  # the plugins are loaded already if one of them offers the command


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        cli.debug = True


_DEBUG_OPTION = click.Option(
    ["--debug"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_debug,
    help="Show the traceback of an error.",
)
_PLUGIN_OPTION = click.Option(
    ["--plugin"],
    multiple=True,
    metavar="FILE.py",
    type=click.Path(),
    is_eager=True,
    expose_value=False,
    callback=_name_plugin_files,
    help="Load a plugin from a file; can be repeated.",
)
#: Reads `--plugin` alone among the words of a command that is not known yet.
_PLUGINS_OF_A_LINE = click.Command(
    "",
    params=[_PLUGIN_OPTION],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)


cli = ZooGroup(
    name="a3c-zoo",
    help="""Train actor-critic agents by name, in parallel processes.

\b
Example:
  a3c-zoo train cartpole
  a3c-zoo list envs
""",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands
    params=[_PLUGIN_OPTION, _DEBUG_OPTION],
)
click.version_option(
    __version__, prog_name="a3c-zoo", message="%(prog)s %(version)s", help="Show the version."
)(cli)
