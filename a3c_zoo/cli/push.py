"""`a3c-zoo push`."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from a3c_zoo.cli.common import (
    agent_of_env_option,
    complete_policy,
    example,
    need_extra,
    playing_sign,
    runs_dir_option,
    trust_option,
)
from a3c_zoo.errors import ZooError, printable
from a3c_zoo.files import MAX_TEXT, read_bytes, refuse_place, same_folder


@click.command(
    epilog=example("a3c-zoo push runs/cartpole-a3c-s1-20260101-120000 alice/cartpole --dry-run look")
)
@click.argument("run", metavar="RUN|ENV", shell_complete=complete_policy)
@click.argument("repo", metavar="OWNER/NAME")
@agent_of_env_option
@click.option("--dry-run", type=Path, metavar="DIR", help="Send nothing: write it to a new folder.")
@click.option("--private", is_flag=True, help="Make the repository private.  [default: public]")
@click.option("--no-film", is_flag=True, help="Leave the film out.")
@runs_dir_option
@trust_option
def command(run: str, repo: str, dry_run: Path | None, private: bool, no_film: bool, **options: Any) -> None:
    """Send a trained agent to a hub of Hugging Face's API, with a card and a film of half a minute.

    Needs the extras `hub` and `play`. RUN is a run directory or its name. ENV is the name of an environment: its newest
    solved run is used, or else a trained agent. A run first plays 100 episodes for its card. The token is HF_TOKEN, or
    that of `hf auth login`. If the hub does not answer within 30 s, the command ends.
    """
    need_extra("push", "hub", "huggingface_hub", "httpx2")
    from a3c_zoo.runs.videos import ffmpeg_program
    from a3c_zoo.sharing import hub
    from a3c_zoo.sharing.card import modules_of
    from a3c_zoo.store.command_lines import absolute_paths
    from a3c_zoo.store.directory import disk_errors
    from a3c_zoo.store.recommended import RECOMMENDED, choose
    from a3c_zoo.store.trained import find_policy

    hub.check_repo(repo, sends=dry_run is None)
    if dry_run is not None:
        if private:
            raise ZooError("--dry-run sends nothing: leave out --private")
        if os.path.lexists(dry_run):
            raise ZooError(f"--dry-run {dry_run}: exists already; name a new folder")
        refuse_place(dry_run, "--dry-run")
    if not no_film:
        ffmpeg_program("the film (leave it out: --no-film)")
    with _temporary_folder() as place:
        source = find_policy(run, **options)
        choice = choose(source, RECOMMENDED)
        with playing_sign(hub.EPISODES) as on_step:
            made = hub.write_folder(source, Path(place) / "agent", not no_film, choice.which, on_step)
        film = made.path / hub.FILM
        if not no_film and not film.exists():
            _film(made, film)
        if not (made.path / hub.CARD).exists():
            with disk_errors(made.path, "write", "TMPDIR=DIR"):
                hub.write_card(made, repo, source)
        elif repo.encode() not in read_bytes(made.path / hub.CARD, MAX_TEXT):
            click.echo(f"{hub.CARD} is sent as it is: it does not name {repo}")
        choice.tell()
        for name in absolute_paths(read_bytes(made.config_file, MAX_TEXT).decode()):
            click.echo(
                f"config.yml names {printable(name)}: others see this path, and need the file there to play"
            )
        for path in sorted(made.path.iterdir()):
            click.echo(f"{path.stat().st_size:>11,} bytes  {path.name}")
        if dry_run is None:
            trust = " --trust" if modules_of(made) else ""
            click.echo(f"sent to  {hub.push(made.path, repo, private)}\nnext     a3c-zoo pull {repo}{trust}")
            return
        with disk_errors(dry_run, "write", "--dry-run DIR"):
            shutil.copytree(made.path, dry_run)
    click.echo(f"nothing was sent; it is in {dry_run}")


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory()
    except OSError as error:
        why = error.strerror or error
        raise ZooError(f"there is no place for temporary files: {why}. Name another: TMPDIR=DIR") from error


def _film(directory: Any, path: Path) -> None:
    """Films the beginning of an episode, as `a3c-zoo play --video` does."""
    from a3c_zoo.runs.api import load_from
    from a3c_zoo.runs.pictures import play_scenes
    from a3c_zoo.runs.videos import FILM_ENCODING, FILM_S, VideoFile

    try:
        video = VideoFile(path, "film", FILM_ENCODING)
        scenes = play_scenes(*load_from(directory), False)
        with same_folder(), closing(video), closing(scenes):
            for number, scene in enumerate(scenes):
                if number >= FILM_S * scene.fps:
                    break
                video.show(scene.picture, scene.fps)
    except ZooError as error:
        raise ZooError(f"{error}. Without a film: --no-film") from error
