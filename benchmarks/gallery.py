"""Trains the agents of docs/gallery.md, plays 100 episodes with each, and films one.

    python benchmarks/gallery.py [NAME …]

It writes a film and the figures of each agent into docs/gallery/. `make gallery` writes docs/gallery.md, too. A
training takes a minute at most. Without names all agents are trained.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3c_zoo.records import score

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
DATA = FOLDER / "gallery.json"

#: A film is this wide, in pixels, has so many pictures a second, and stops after so many seconds.
WIDTH, FPS, LONGEST_S = 300, 12.5, 14
#: Fewer colours make a smaller file. The last picture stays for a second.
SHRINK = (
    f"tpad=stop_mode=clone:stop_duration=1,fps='min(source_fps,{FPS})',scale={WIDTH}:-2:flags=area,"
    "split[a][b];[a]palettegen=max_colors=64[c];[b][c]paletteuse=dither=none:diff_mode=rectangle"
)
LARGEST_FILM_KB, LARGEST_FOLDER_KB = 150, 1000


@dataclass(frozen=True)
class Subject:
    """What is trained and filmed.

    Attributes:
        name: of the run and its film. title: heading on the page. text: what the film shows.
        play: options of `a3c-zoo play`. seed: of the training.
        plugin: folder in plugins/ whose distribution it needs, None for none.
    """

    name: str
    env: str
    title: str
    text: str
    play: tuple[str, ...] = ()
    plugin: str | None = None
    seed: int = 1


SUBJECTS = (
    Subject("cartpole", "cartpole", "CartPole", "A cart moves left and right, so that the pole on it stays upright."),
    Subject("acrobot", "gym:Acrobot-v1", "Acrobot", "Two links swing up until the free end is above the line."),
    Subject(
        "frozen-lake",
        "gym:FrozenLake-v1",
        "FrozenLake",
        "Two moves in three slip sideways on this ice. The agent crosses it to the flag, past the holes.",
    ),
    Subject(
        "gridworld",
        "gridworld",
        "Gridworld",
        "The agent (orange) goes round the wall (grey) to the goal (green), "
        "past the pits (dark). One move in ten slips.",
        plugin="a3c-zoo-gridworld",
    ),
    Subject(
        "minigrid",
        "minigrid:Empty-5x5",
        "MiniGrid",
        "The agent sees the 7 × 7 cells in front of it (the lighter ones), and goes to the goal.",
        play=("--fps", "2"),
        plugin="a3c-zoo-minigrid",
    ),
)


def commands(subject: Subject) -> dict[str, list[str]]:
    """The commands that train, evaluate and film, with their arguments."""
    named = ["--seed", str(subject.seed), "--name", subject.name]
    return {
        "train": ["train", subject.env, *named],
        "evaluate": ["evaluate", subject.name],
        "play": ["play", subject.name, *subject.play, "--video", f"{subject.name}.gif"],
    }


def lines(subject: Subject) -> list[str]:
    """The same as people type them."""
    return [f"a3c-zoo {' '.join(arguments)}" for arguments in commands(subject).values()]


def install(plugins: Sequence[str], folder: Path) -> Path:
    """Installs distributions of plugins/ into a folder of its own, from copies: a build leaves files in its source."""
    site = folder / "site"
    copies = [str(shutil.copytree(ROOT / "plugins" / name, folder / "sources" / name)) for name in plugins]
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *copies], check=True)
    return site


def run(arguments: Sequence[str], folder: Path, site: Path) -> str:
    """Runs `a3c-zoo` in a folder, with the plugins of `site`; returns what it printed."""
    program = str(Path(sys.executable).with_name("a3c-zoo"))
    environ = {**os.environ, "PYTHONPATH": str(site)}
    print("$ a3c-zoo", *arguments, flush=True)
    done = subprocess.run([program, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(
            f"{done.stdout}{done.stderr}a3c-zoo {' '.join(arguments)} failed with status {done.returncode}"
        )
    return done.stdout


def shrink(film: Path, picture: Path) -> None:
    """Writes the beginning of a film smaller and with fewer colours.

    Raises:
        SystemExit: it is still too large.
    """
    import imageio_ffmpeg

    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-y",
        "-t",
        str(LONGEST_S),
        "-i",
        film,
        "-vf",
        SHRINK,
        picture,
    ]
    subprocess.run(command, check=True)
    if picture.stat().st_size > 1000 * LARGEST_FILM_KB:
        raise SystemExit(f"{picture} has more than {LARGEST_FILM_KB} kB")


def make(subject: Subject, folder: Path, site: Path) -> dict[str, Any]:
    """Trains, evaluates and films one agent; returns what the page says of it."""
    steps = commands(subject)
    run([*steps["train"], "--quiet"], folder, site)
    evaluation = json.loads(run([*steps["evaluate"], "--json"], folder, site))
    played = re.search(r"return (\S+), ([\d,]+) steps", run(steps["play"], folder, site))
    assert played is not None
    outcome = json.loads((folder / "runs" / subject.name / "outcome.json").read_text(encoding="utf-8"))
    meta = json.loads((folder / "runs" / subject.name / "meta.json").read_text(encoding="utf-8"))
    shrink(folder / f"{subject.name}.gif", FOLDER / f"{subject.name}.gif")
    return {
        "name": subject.name,
        "commands": lines(subject),
        "seed": subject.seed,
        "steps": outcome["steps"],
        "solved": outcome["solved"],
        "episodes": evaluation["episodes"],
        "mean_return": evaluation["mean_return"],
        "std_return": evaluation["std_return"],
        "film_return": played[1],
        "film_steps": int(played[2].replace(",", "")),
        "versions": {name: meta["versions"][name] for name in ("python", "a3c-zoo", "torch", "gymnasium")},
    }


def section(subject: Subject, made: Mapping[str, Any]) -> str:
    """The part of the page on one agent."""
    needs = f" The environment is that of `plugins/{subject.plugin}`." if subject.plugin else ""
    figures = (
        str(made["seed"]),
        f"{made['steps']:,}",
        "yes" if made["solved"] else "no",
        f"{score(made['mean_return'])} ± {score(made['std_return'])}",
        f"return {made['film_return']}, {made['film_steps']:,} steps",
    )
    return (
        f"## {subject.title}\n\n{subject.text}{needs}\n\n"
        f"![A trained agent plays {subject.title}](gallery/{subject.name}.gif)\n\n"
        + "".join(f"    {line}\n" for line in made["commands"])
        + f"\n| seed | steps of training | solved | return of {made['episodes']} episodes | the film |\n"
        + f"| --- | --- | --- | --- | --- |\n| {' | '.join(figures)} |\n"
    )


def sections() -> str:
    """The generated part of docs/gallery.md, from the figures beside the films."""
    made = {each["name"]: each for each in json.loads(DATA.read_text(encoding="utf-8"))}
    return "\n".join(section(subject, made[subject.name]) for subject in SUBJECTS)


def main() -> None:
    """Makes the films and figures of the agents that are named, and keeps the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(each.name for each in SUBJECTS)} [all]"
    )
    names = parser.parse_args().names
    if unknown := set(names) - {each.name for each in SUBJECTS}:
        parser.error(f"no such name: {', '.join(sorted(unknown))}")
    FOLDER.mkdir(exist_ok=True)
    before = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []
    made = {each["name"]: each for each in before}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        site = install([each.plugin for each in SUBJECTS if each.plugin], folder)
        for subject in SUBJECTS:
            if not names or subject.name in names:
                made[subject.name] = make(subject, folder, site)
                content = [made[each.name] for each in SUBJECTS if each.name in made]
                DATA.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
