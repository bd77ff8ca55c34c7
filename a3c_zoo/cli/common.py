"""What several commands share: types of values, shell completion, options and tables."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from a3c_zoo.cli.main import cli
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError, did_you_mean, printable, printable_lines
from a3c_zoo.plugins.entries import EnvEntry, load_object
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import get_registry, whole_examples
from a3c_zoo.plugins.typed_names import quiet_env_name
from a3c_zoo.words import listed

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Status of a finding of `check` and `doctor` → its colour.
COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
#: Exit status of a program that Ctrl-C ended.
INTERRUPTED = 130
#: Most episodes of `evaluate` and `play`. A command must come to an end.
MOST_EPISODES = 1_000_000
#: The most digits of a whole number that is typed. Python converts no more than 4,300.
MOST_DIGITS = 100
#: No column of a table gets narrower than this, or than its longest word if that is shorter.
NARROWEST = 16


def parse_seconds(text: str) -> float:
    """Returns a duration such as `90s`, `10m` or `2h` in seconds; for `type=` of options."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if match is None or float(match[1]) <= 0:
        raise click.BadParameter(f"'{text}' is no duration; write 90s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


class Count(click.ParamType):  # type: ignore[type-arg]  # click 8.1 takes no argument
    """A whole number, also as `1e6`, `250k`, `1M` or `1_000_000`, from `least` to `most`. forms: for its error."""

    name = "integer"

    def __init__(
        self, least: int | None = None, most: int | None = None, forms: str = "250000, 250k, 1M or 1e6"
    ) -> None:
        self._forms = forms
        self._range = click.IntRange(least, most) if least is not None or most is not None else click.INT

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number."""
        if isinstance(value, str):
            value = self._parsed(value, param, ctx)
        return self._range.convert(value, param, ctx)

    def _parsed(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if len(text) > MOST_DIGITS:
            self.fail(f"'{text[:20]}…' has more than {MOST_DIGITS} digits", param, ctx)
        match = re.fullmatch(r"([+-]?[\d_]*\.?\d+(?:e\+?\d{1,2})?)([kmb]?)", text.strip(), re.IGNORECASE)
        try:
            if match is None:
                raise ValueError
            number = Decimal(match[1]) * {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}[match[2].lower()]
            if number == int(number):
                return int(number)
        except (ValueError, ArithmeticError):
            pass
        self.fail(f"'{text}' is no whole number; write {self._forms}", param, ctx)


def is_typed(name: str) -> bool:
    """Whether a parameter of the command that runs is on the command line."""
    return click.get_current_context().get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def warn_about_faults(shown: bool = False) -> None:
    """Prints one line to stderr for each plugin that is left out because of a fault, with `--debug` its traceback.

    A name in `A3C_ZOO_PLUGINS` that no plugin has is a warning, too.

    Args:
        shown: whether the command itself shows the faults.
    """
    registry = get_registry()
    for info in registry.faults:
        if cli.debug:
            click.echo(printable_lines(info.trace), err=True, nl=False)
        if not shown:
            click.echo(printable(f"Warning: {info} is left out: {info.fault}"), err=True)
    for name in Selection.from_environ().unknown(registry.plugins):
        hint = did_you_mean(name, [info.name for info in registry.plugins])
        click.echo(printable(f"Warning: A3C_ZOO_PLUGINS: no plugin is called '{name}'.{hint}"), err=True)


# Shell completion of names, for `shell_complete=`.


def complete_env(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Environment names, and the examples of families."""
    registry = get_registry()
    described = {entry.name: entry.description for entry in registry.envs.values()}
    for family in registry.families.values():
        described |= dict.fromkeys(whole_examples(family), family.description)
    return matching(described, incomplete)


def complete_agent(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of agents and baselines."""
    return matching({entry.name: entry.description for entry in get_registry().agents.values()}, incomplete)


def complete_set(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Hyperparameter sets of the environment on the command line, or of all environments; then files."""
    from a3c_zoo.config.sets import list_sets, sets_for

    registry = get_registry()
    env = _typed_env(ctx)
    try:
        if env:
            sets = sets_for(registry, registry.env(quiet_env_name(registry, env), is_trusted=False))
        else:
            sets = list_sets(registry)
    except ZooError:  # an unknown environment, which the command itself reports; or one of a module to import
        sets = []
    names = {}
    for hyperparam_set in reversed(sets):
        prefix = f"{hyperparam_set.plugin}/" if "/" in incomplete else ""
        names[prefix + hyperparam_set.name] = hyperparam_set.source
    items = matching(names, incomplete)
    return items or [CompletionItem(incomplete, type="file")]


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Configuration keys of the environment on the command line and its agent, as `section.key=` or as `key=`."""
    from a3c_zoo.config.sets import describe, resolve_config
    from a3c_zoo.config.settings import ARGUMENTS

    registry = get_registry()
    try:
        name = quiet_env_name(registry, _typed_env(ctx) or "")
        entry = registry.env(name, is_trusted=False)
        rows = describe(
            resolve_config(registry, entry, registry.agent(ctx.params.get("agent") or entry.default_agent))
        )
    except ZooError:  # an unknown environment or agent; the command itself reports it
        return []
    if incomplete.startswith(f"{ARGUMENTS}."):
        described = {f"{ARGUMENTS}.{name}=": text for name, text in _arguments(entry).items()}
        return matching(described, incomplete)
    described = {f"{row.key}=": row.description for row in rows}
    short = {key.rpartition(".")[2]: text for key, text in described.items()}
    return matching(described, incomplete) or matching(short, incomplete)


def _arguments(entry: EnvEntry) -> dict[str, str]:
    """The arguments that an environment takes, each with its default in words."""
    from a3c_zoo.learning.arguments import parameters_of

    try:
        defaults = parameters_of(entry, load_object(entry.config)).defaults
    except Exception:  # its code cannot be imported; the command itself reports it
        return {}
    return {name: default and f"default: {default}" for name, default in defaults.items()}


def _typed_env(ctx: click.Context) -> str | None:
    """The environment on the command line. Beside an option without its value, click leaves it among the arguments."""
    return ctx.params.get("env") or next(iter(ctx.args), None)


def complete_plugin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of all plugins, also of those that are left out."""
    return matching({info.name: info.distribution for info in get_registry().plugins}, incomplete)


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Run directories below the runs directory, which is `runs` unless the line says otherwise."""
    from a3c_zoo.store.directory import run_paths

    try:
        runs = run_paths(Path(ctx.params.get("runs_dir") or "runs"))
    except ZooError:  # a directory that cannot be read; the command itself reports it
        runs = []
    # A name with a line end would end the shell's item.
    names = {str(run): "" for run in runs if printable(str(run)) == str(run)}
    return matching(names, incomplete) or [CompletionItem(incomplete, type="dir")]


def complete_policy(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What `find_policy` takes: environments, trained agents, runs."""
    trained = matching({name: entry.env for name, entry in get_registry().trained.items()}, incomplete)
    return complete_env(ctx, param, incomplete) + trained + complete_run(ctx, param, incomplete)


def matching(described: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    names = {name: printable(text) or None for name, text in described.items() if name.startswith(incomplete)}
    return [CompletionItem(name, help=text) for name, text in names.items()]


def example(line: str) -> str:
    """The epilog of a command with a line to type. It stays whole: half of it may be another command."""
    return f"\b\nExample: {line}"


def together(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _runs_dir(text: str) -> Callable[[_Command], _Command]:
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option("--runs-dir", type=kind, default=Path("runs"), show_default=True, help=text)


#: `--runs-dir` of commands that make or list runs, and of commands that read runs.
kept_runs_option = _runs_dir("Directory of all runs.")
runs_dir_option = _runs_dir("Directory of a run that is given by name.")

#: `--trust` of commands that open a run.
trust_option: Callable[[_Command], _Command] = click.option(
    "--trust",
    is_flag=True,
    help="Let a run that somebody else made name modules to import and, if it is resumed, switch on run hooks. Your "
    "own runs in --runs-dir need no --trust.",
)

#: Options of commands that resolve a configuration: `agent`, `hyperparams` and `overrides`.
configuration_options: Callable[[_Command], _Command] = together(
    click.option(
        "--agent", metavar="NAME", shell_complete=complete_agent, help="Agent.  [default: the environment's]"
    ),
    click.option(
        "--hyperparams",
        metavar="SET|FILE",
        shell_complete=complete_set,
        help="A set that replaces the default set, or a YAML file whose values replace those of the default set.",
    ),
    click.option(
        "-o",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        shell_complete=complete_key,
        help="Set one value; can be repeated.",
    ),
)

#: `--checkpoint` of commands that load a trained agent.
checkpoint_option: Callable[[_Command], _Command] = click.option(
    "--checkpoint",
    default="recommended",
    show_default=True,
    metavar="final|best|STEP",
    help="The newest checkpoint, the best one, or the one at STEP. A run recommends the best one if it is better than "
    "the last 100 training episodes by more than noise.",
)

#: `--agent` of commands that take an environment's name for a trained agent.
agent_of_env_option: Callable[[_Command], _Command] = click.option(
    "--agent", metavar="NAME", shell_complete=complete_agent, help="Agent of ENV, if it has several."
)

#: Options of commands that play: `agent`, `deterministic`, `checkpoint` and `seed`.
playing_options: Callable[[_Command], _Command] = together(
    agent_of_env_option,
    click.option(
        "--deterministic/--stochastic",
        default=False,
        help="Most probable or sampled actions.  [default: --stochastic]",
    ),
    checkpoint_option,
    click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="Seed of the episodes and actions.  [default: the run's]",
    ),
)


def need_extra(what: str, extra: str, *modules: str) -> None:
    """Raises ZooError if a module is missing that an extra of a3c-zoo brings. what: what needs it."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise ZooError(f"{what} needs {' and '.join(missing)}: {install_extra(extra)}")


def ask_to_train(what: str, to_stderr: bool) -> None:
    """Asks whether to go on. Raises ZooError if there is nobody to ask, click.Abort for a no.

    what: what must be trained, as the first half of the error. to_stderr: where the question goes.
    """
    if not sys.stdin.isatty():
        raise ZooError(f"{what}, and there is no terminal to ask: give --yes")
    click.confirm("Go on?", default=True, abort=True, err=to_stderr)


def print_plain(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table in columns of their full width: nothing is cut off or wrapped."""
    lines = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _styled(cell: str | tuple[str, str]) -> tuple[str, str]:
    if isinstance(cell, str):
        return (cell, "")
    return cell


def print_fitted(
    header: Sequence[str],
    rows: Iterable[Sequence[str | tuple[str, str]]],
    unbroken: str,
    title: str | None = None,
    first_out: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> None:
    """Prints a table that fits the terminal; long cells are wrapped, mostly between words, except in `unbroken`.

    Where columns have no room, those of `first_out` are left out one by one, then the last ones; a line below says
    which. A cell is a text, or a text and its style.

    Args:
        left_out: the columns that the caller has left out already.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    texts = [[Text(printable(text), style) for text, style in map(_styled, row)] for row in rows]
    # rich would read a plain text as markup, with :emoji: in it.
    named = Text(printable(title), "bold") if title else None
    table = Table(title=named, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = [[name, *(row[n].plain for row in texts)] for n, name in enumerate(header)]
    shown = [*range(len(header))]
    place = header.index(unbroken)
    others = [n for n in reversed(shown[place + 1 :]) if header[n] not in first_out]
    next_out = [*map(header.index, first_out), *others][:-1]
    widths = fitted_widths(columns, place, console.width)
    while sum(widths) + 2 * len(widths) > console.width and next_out:
        shown.remove(next_out.pop(0))
        kept = [columns[n] for n in shown]
        widths = fitted_widths(kept, shown.index(place), console.width)
    for n, width in zip(shown, widths, strict=True):
        table.add_column(header[n], overflow="fold", width=width)
    for row in texts:
        table.add_row(*(row[n] for n in shown))
    console.print(table)
    missing = [*(name for n, name in enumerate(header) if n not in shown), *left_out]
    if missing:
        print_sentences(f"narrow terminal: without {listed(missing)}")


def fitted_widths(columns: Sequence[Sequence[str]], unbroken: int, width: int) -> list[int]:
    """Widths of a table's columns: the widest ones shrink until all fit, down to their longest words or `NARROWEST`.

    unbroken: the column that keeps its width. width: of the terminal; each column is followed by two blanks.
    """
    widths = [max(map(len, cells)) for cells in columns]
    least = [
        min(NARROWEST, max(len(word) for cell in cells for word in (*cell.split(), ""))) for cells in columns
    ]
    least[unbroken] = widths[unbroken]
    room = width - 2 * len(columns)
    while sum(widths) > room and (loose := [n for n, size in enumerate(widths) if size > least[n]]):
        widths[max(loose, key=widths.__getitem__)] -= 1
    return widths


def terminal_width() -> int:
    """How many characters a line of stdout has room for."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return sys.maxsize


def print_sentences(
    text: str, to_stderr: bool = False, colours: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Prints sentences, on a terminal with line ends between words. Elsewhere they stay whole.

    colours: line → its colour.
    """
    lines = text.expandtabs().removesuffix("\n").split("\n")
    chosen = [colours.get(line) for line in lines]
    lines = [printable(line) for line in lines]
    if (sys.stderr if to_stderr else sys.stdout).isatty():
        width = shutil.get_terminal_size().columns
        lines = [
            textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for line in lines
        ]
    styled = [
        click.style(line, fg=colour, bold=True) if colour else line
        for line, colour in zip(lines, chosen, strict=True)
    ]
    click.echo("\n".join(styled), err=to_stderr)


@contextmanager
def playing_sign(episodes: int) -> Iterator[Callable[[int], None]]:
    """Shows on stderr that episodes are being played: a bar on a terminal, else lines, fewer and fewer.

    Yields:
        What is called after each step with the number of episodes played so far.
    """
    from a3c_zoo.display.displays import open_display
    from a3c_zoo.runs.playing_view import PlayingView

    with closing(open_display(to_stderr=True)) as display:
        yield PlayingView(display, "", episodes).played


def print_finding(status: str, subject: str, text: str, cure: str, column: int = 12) -> None:
    """Prints a finding of `check` or `doctor`, and its cure in a line of its own. A terminal's width wraps them."""
    indent = 11 + column  # the status, and the column of subjects
    width = terminal_width() - indent
    lines = _wrapped(text, width) + (_wrapped(f"cure: {cure}", width) if cure else [])
    click.echo(f"{click.style(f'{status:<7}', fg=COLOURS[status])}  {subject:<{column}}  {lines[0]}")
    for line in lines[1:]:
        click.echo(f"{'':{indent}}{line}")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), max(20, width), break_on_hyphens=False) or [""]
