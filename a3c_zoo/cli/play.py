"""`a3c-zoo play`."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import click

from a3c_zoo.cli.common import INTERRUPTED, MOST_EPISODES, playing_options, runs_dir_option, trust_option


@click.command(epilog="Example: a3c-zoo play runs/pong-a3c-s1-20260101-120000 --video pong.mp4")
@click.option("--window", is_flag=True, help="Show it in a window.  [default if there is a display]")
@click.option("--terminal", is_flag=True, help="Draw it in the terminal.  [default if there is none]")
@click.option(
    "--video", type=click.Path(path_type=Path), metavar="FILE", help="Write a new .mp4 or .gif file; needs no display."
)
@click.option(
    "--episodes",
    type=click.IntRange(1, MOST_EPISODES),
    default=1,
    show_default=True,
    metavar="N",
    help="Episodes to play.",
)
@playing_options
@click.option("--fps", type=click.FloatRange(0.01, 1000), metavar="X", help="Steps a second.  [default: the game's]")
@runs_dir_option
@trust_option
def command(run: str, window: bool, terminal: bool, video: Path | None, fps: float | None, **options: Any) -> int:
    """Watch a trained agent, on seeds that it was not trained on.

    RUN is a run directory or the name of one; ENV an environment's name: its newest solved run, else a trained agent.
    Ctrl-C, or closing the window, ends it; a video then holds what was played until there.
    """
    from a3c_zoo.cli.screens import ClosedError, open_screens
    from a3c_zoo.runs import api
    from a3c_zoo.runs.signals import stop_on_signals

    if fps is not None and math.isnan(fps):  # no range refuses it
        raise click.BadParameter("nan is no speed.", param_hint="'--fps'")
    played = []
    try:
        # The first Ctrl-C waits for the end of a step, so neither the terminal nor a video is cut in the middle.
        with stop_on_signals() as stop, ExitStack() as stack, suppress(ClosedError):
            screens = [stack.enter_context(closing(screen)) for screen in open_screens(window, terminal, video)]
            for scene in stack.enter_context(closing(api.play(run, **options))):
                for screen in screens:
                    screen.show(scene.picture, fps or scene.fps)
                played.extend(scene.episodes)
                if stop.detail:
                    return INTERRUPTED
    finally:  # also after Ctrl-C, when a terminal shows again what it showed before
        for number, episode in enumerate(played, start=1):
            click.echo(f"episode {number}: return {episode.episode_return:g}, {episode.length} steps")
    return 0
