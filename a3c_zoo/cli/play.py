"""`a3c-zoo play`."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3c_zoo.cli.common import (
    INTERRUPTED,
    MOST_EPISODES,
    Count,
    complete_policy,
    example,
    is_typed,
    playing_options,
    runs_dir_option,
    trust_option,
)
from a3c_zoo.errors import ZooError, printable
from a3c_zoo.store.run_files import META_JSON

if TYPE_CHECKING:
    from a3c_zoo.cli.grid import Tile
    from a3c_zoo.runs.pictures import Scene
    from a3c_zoo.store.recommended import Choice

#: Most agents side by side.
MOST_TILES = 16


@click.command(epilog=example("a3c-zoo play runs/pong-a3c-s1-20260101-120000 --video pong.mp4"))
@click.option(
    "--window", is_flag=True, help="Show it in a window (extra `play`).  [default if there is a display]"
)
@click.option("--terminal", is_flag=True, help="Draw it in the terminal.  [default if there is none]")
@click.option(
    "--video",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a new .mp4 (extra `play`) or .gif file; needs no display.",
)
@click.option(
    "--episodes",
    type=Count(1, MOST_EPISODES),
    default=1,
    show_default=True,
    metavar="N",
    help="Episodes to play.",
)
@click.option("--grid", is_flag=True, help=f"Show up to {MOST_TILES} agents or checkpoints side by side.")
@click.argument("run", metavar="RUN|ENV...", nargs=-1, required=True, shell_complete=complete_policy)
@playing_options
@click.option(
    "--fps", type=click.FloatRange(0.01, 1000), metavar="X", help="Steps a second.  [default: the game's]"
)
@runs_dir_option
@trust_option
def command(
    run: tuple[str, ...],
    grid: bool,
    window: bool,
    terminal: bool,
    video: Path | None,
    fps: float | None,
    **options: Any,
) -> int:
    """Watch a trained agent, on seeds that it was not trained on.

    RUN is a run directory or its name. ENV is the name of an environment: its newest solved run is used, or else a
    trained agent. RUN@STEP, RUN@best and RUN@final name a checkpoint. Ctrl-C, or closing the window, ends the playing;
    a video then has what was played so far. With --grid, an agent that has played all its episodes stays, dimmed, until
    the others have played theirs.
    """
    from a3c_zoo.cli.grid import Tile, show
    from a3c_zoo.cli.screens import ClosedError, open_screens
    from a3c_zoo.runs.signals import stop_on_signals

    if fps is not None and math.isnan(fps):  # no range refuses it
        raise click.BadParameter("nan is no speed.", param_hint="'--fps'")
    if len(run) > 1 and not grid:
        raise ZooError(f"{len(run)} agents are given; to see them side by side, add --grid")
    if grid and not 1 < len(run) <= MOST_TILES:
        raise ZooError(f"--grid shows 2 to {MOST_TILES} agents, or checkpoints of one: RUN@100000 RUN@best")
    if is_typed("checkpoint") and all(_parts(name, options["runs_dir"])[1] for name in run):
        raise ZooError(f"'{run[0]}' names a checkpoint already: leave out --checkpoint")
    played: list[str] = []
    tiles: list[Tile] = []
    loaded: list[tuple[str, int, Generator[Scene], Choice]] = []
    status = 0
    try:
        # The first Ctrl-C waits for the end of a step, so neither the terminal nor a video is cut in the middle.
        with stop_on_signals() as stop, ExitStack() as stack, suppress(ClosedError):
            opened = open_screens(window, terminal, video, status=lambda: _status(tiles, loaded))
            screens = [stack.enter_context(closing(screen)) for screen in opened]
            loaded = [_load(name, **options) for name in run]
            for _, _, play, _ in loaded:
                stack.enter_context(closing(play))
            for name, steps, play, _ in loaded:
                tiles.append(Tile(name if grid else "", steps, play, options["episodes"]))
            for picture, speed, results in show(tiles, fps):
                for screen in screens:
                    screen.show(picture, speed)
                played += results
                if stop.detail:
                    status = INTERRUPTED
                    break
        for *_, choice in loaded:  # not before: a terminal shows pictures
            choice.tell()
    finally:  # also after Ctrl-C, when a terminal shows again what it showed before
        for tile in tiles:
            played += tile.unfinished()
        for line in played:
            click.echo(line)
        if video is not None and video.is_file() and any(tile.left for tile in tiles):
            click.echo(f"{printable(str(video))} shows what was played so far")
    return status


def _status(tiles: Sequence[Tile], loaded: Sequence[tuple[str, int, Any, Any]]) -> str:
    """What plays, for the line below the picture. The agents of a grid have lines of their own."""
    if len(tiles) > 1:
        return f"{len(tiles)} agents"
    name, steps, *_ = loaded[0]
    return f"{tiles[0].status()}  {printable(name)}, {steps:,} steps"


def _parts(name: str, runs_dir: Path) -> tuple[str, str]:
    """The run and the checkpoint of RUN@STEP or RUN@best; "" if no checkpoint is named."""
    run, at, which = name.rpartition("@")
    # The name of a run may have an @ itself.
    is_run = any(os.path.isfile(path / META_JSON) for path in (Path(name), runs_dir / name))
    is_named = at and not is_run and (which in ("best", "final") or which.isdecimal())
    return (run, which) if is_named else (name, "")


def _load(
    name: str,
    *,
    checkpoint: str,
    episodes: int,
    seed: int | None,
    deterministic: bool,
    runs_dir: Path,
    **options: Any,
) -> tuple[str, int, Generator[Scene], Choice]:
    """An agent's name with its checkpoint, if one is named; the steps of its training; its play; what was chosen."""
    from a3c_zoo.runs.api import load_from
    from a3c_zoo.store.recommended import choose, held
    from a3c_zoo.store.trained import find_policy, state_of

    run, named = _parts(name, runs_dir)
    directory = find_policy(run, runs_dir=runs_dir, **options)
    choice = held(directory, choose(directory, named or checkpoint))
    loaded = load_from(directory, choice.which, episodes, seed)
    from a3c_zoo.runs.pictures import play_scenes  # imports torch: a wrong name is known before

    steps = state_of(directory, choice.which).steps
    return directory.path.name + (named and f"@{named}"), steps, play_scenes(*loaded, deterministic), choice
