"""Films the trained agents of plugins/a3c-zoo-trained, and three agents of other plugins, which it trains.

    python benchmarks/gallery.py [NAME …]

It writes a film, a curve and the figures of each agent into docs/gallery/. `make gallery` writes docs/gallery.md, too.
A training takes a minute at most. Without names all agents are filmed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a3c_zoo.figures.curves import Line
from a3c_zoo.report.drawing import Group, Panel, draw_grid, to_bytes
from a3c_zoo.words import return_text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
DATA = FOLDER / "gallery.json"
TRAINED = ROOT / "plugins" / "a3c-zoo-trained" / "src" / "a3c_zoo_trained"

#: A film is this wide, in pixels, has so many pictures a second, and stops after so many seconds.
WIDTH, FPS, LONGEST_S = 300, 12.5, 14
#: Fewer colours make a smaller file. The last picture stays for a second.
SHRINK = (
    f"tpad=stop_mode=clone:stop_duration=1,fps='min(source_fps,{FPS})',scale={WIDTH}:-2:flags=area,"
    "split[a][b];[a]palettegen=max_colors=64[c];[b][c]paletteuse=dither=none:diff_mode=rectangle"
)
LARGEST_FILE_KB, LARGEST_FOLDER_KB = 400, 2500

#: Environment → returns (mean, standard deviation) and steps of RL Baselines3 Zoo's A2C and PPO, each of one run: its
#: benchmark.md. Its LunarLander is v2; on Atari its actions are sampled, elsewhere greedy.
RL_ZOO: Mapping[str, tuple[tuple[float, float, str], tuple[float, float, str]]] = {
    "cartpole": ((500.0, 0.0, "0.5 M"), (500.0, 0.0, "0.1 M")),
    "gym:Acrobot-v1": ((-83.353, 17.213, "0.5 M"), (-73.506, 18.201, "1 M")),
    "gym:LunarLander-v3": ((155.751, 80.419, "0.2 M"), (242.119, 31.823, "1 M")),
    "gym:Pendulum-v1": ((-162.965, 103.210, "1 M"), (-172.225, 104.159, "0.1 M")),
    "pong": ((17.292, 3.214, "10 M"), (20.989, 0.105, "10 M")),
    "breakout": ((279.793, 122.177, "10 M"), (398.033, 33.328, "10 M")),
    "atari:beam_rider": ((2890.298, 1379.137, "10 M"), (3397.000, 1662.368, "10 M")),
    "atari:enduro": ((0.0, 0.0, "10 M"), (996.364, 176.090, "10 M")),
    "atari:qbert": ((3882.345, 1223.327, "10 M"), (15627.108, 3313.538, "10 M")),
    "atari:seaquest": ((1721.493, 105.339, "10 M"), (1783.636, 34.096, "10 M")),
    "atari:space_invaders": ((627.160, 201.974, "10 M"), (960.331, 425.355, "10 M")),
}


@dataclass(frozen=True)
class Subject:
    """Who is filmed.

    Attributes:
        name: of the trained agent, or of the run, and of the film. title: heading on the page.
        text: what the film shows.
        train: environment, options and seed of a training for this page; empty for an agent of a3c-zoo-trained.
        plugin: folder in plugins/ whose distribution it needs. play: options of `a3c-zoo play`.
    """

    name: str
    title: str
    text: str
    train: tuple[str, ...] = ()
    plugin: str = "a3c-zoo-trained"
    play: tuple[str, ...] = ()


SUBJECTS = (
    Subject("pong-a3c", "Pong", "The agent plays the green paddle on the right."),
    Subject(
        "breakout-a3c",
        "Breakout",
        "The agent keeps the ball in play, and digs through the wall. "
        "It was trained in four pieces (the distribution's README).",
    ),
    Subject("space-invaders-a3c", "Space Invaders", "The cannon shoots at the invaders from behind its shields."),
    Subject("qbert-a3c", "Q*bert", "Q*bert hops on each cube to change its colour."),
    Subject("seaquest-a3c", "Seaquest", "The submarine shoots at fish and submarines."),
    Subject("beam-rider-a3c", "Beam Rider", "The ship slides from beam to beam, and shoots at the saucers."),
    Subject("enduro-a3c", "Enduro", "The car should overtake others; after so few steps it overtakes none."),
    Subject("ms-pacman-a3c", "Ms. Pac-Man", "Ms. Pac-Man eats dots, and leaves the ghosts behind."),
    Subject("cartpole-a3c", "CartPole", "A cart moves left and right, so that the pole on it stays upright."),
    Subject("cartpole-nstep", "CartPole, n-step", "The same with the agent of the textbook."),
    Subject("cartpole-lstm", "CartPole without velocities", "The agent sees positions alone; an LSTM remembers."),
    Subject("acrobot-a3c", "Acrobot", "Two links swing up until the free end is above the line."),
    Subject("lunar-lander-a3c", "LunarLander", "The lander comes down between the flags."),
    Subject("pendulum-a3c", "Pendulum", "The pendulum swings up and stays there with as little force as it can."),
    Subject(
        "frozen-lake",
        "FrozenLake",
        "Two moves in three slip sideways on this ice. The agent crosses it to the flag, past the holes.",
        ("gym:FrozenLake-v1", "--seed", "1"),
        plugin="",
    ),
    Subject(
        "gridworld",
        "Gridworld",
        "The agent (orange) goes round the wall (grey) to the goal (green), "
        "past the pits (dark). One move in ten slips.",
        ("gridworld", "--seed", "1"),
        plugin="a3c-zoo-gridworld",
    ),
    Subject(
        "minigrid",
        "MiniGrid",
        "The agent sees the 7 × 7 cells in front of it (the lighter ones), and goes to the goal.",
        ("minigrid:Empty-5x5", "--seed", "1"),
        plugin="a3c-zoo-minigrid",
        play=("--fps", "2"),
    ),
)


def commands(subject: Subject) -> dict[str, list[str]]:
    """The commands that train, evaluate and film, with their arguments. An agent of a3c-zoo-trained is trained."""
    train = {"train": ["train", *subject.train, "--name", subject.name]} if subject.train else {}
    return train | {
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
    if picture.stat().st_size > 1000 * LARGEST_FILE_KB:
        raise SystemExit(f"{picture} has more than {LARGEST_FILE_KB} kB")


def make(subject: Subject, folder: Path, site: Path) -> dict[str, Any]:
    """Films one agent, which it trains and evaluates if need be; returns what the page says of it."""
    steps, made = commands(subject), TRAINED / subject.name
    if subject.train:
        made = folder / "runs" / subject.name
        run([*steps["train"], "--quiet"], folder, site)
        run(["plot", subject.name, "--out", f"{subject.name}.csv"], folder, site)
    played = re.search(r"return (\S+), ([\d,]+) steps", run(steps["play"], folder, site))
    assert played is not None
    shrink(folder / f"{subject.name}.gif", FOLDER / f"{subject.name}.gif")
    draw_curve(folder / f"{subject.name}.csv" if subject.train else made / "curve.csv", FOLDER / f"{subject.name}.svg")
    meta, outcome = (json.loads((made / file).read_text(encoding="utf-8")) for file in ("meta.json", "outcome.json"))
    evaluation = outcome["evaluation"]
    if subject.train:  # the other outcomes have 100 episodes already
        evaluation = json.loads(run([*steps["evaluate"], "--json"], folder, site))
    command = [word for word in meta["command"][1:] if word != "--quiet"]
    if not subject.train:
        del command[(place := command.index("--name")) : place + 2]
    return {
        **{key: meta[key] for key in ("env", "agent", "seed")},
        **{"name": subject.name, "command": shlex.join(["a3c-zoo", *command])},
        **{"weaknesses": weaknesses().get(subject.name, "")},
        **{key: outcome[key] for key in ("steps", "solved", "training_s")},
        **{key: evaluation[key] for key in ("episodes", "mean_return", "std_return")},
        **{"film_return": played[1], "film_steps": int(played[2].replace(",", ""))},
        "versions": {name: meta["versions"][name] for name in ("python", "a3c-zoo", "torch", "gymnasium", "ale-py")},
        "machine": f"{meta['host']['cpu']}, {meta['host']['cores']} cores",
    }


def weaknesses() -> dict[str, str]:
    """Trained agent → where it is known to fail."""
    sys.path.insert(0, str(TRAINED.parent))
    from a3c_zoo_trained import zoo_trained

    return {entry.name: entry.weaknesses for entry in zoo_trained()}


def draw_curve(table: Path, picture: Path) -> None:
    """Draws the mean return of 100 training episodes over steps."""
    with table.open(encoding="utf-8", newline="") as file:
        points = np.array([(float(row["steps"]), float(row["return"])) for row in csv.DictReader(file)])
    label = "last 100 training episodes"
    panel = Panel("", "steps", "return", {label: Group([Line(points[:, 0], points[:, 1])])})
    picture.write_bytes(to_bytes(draw_grid([[panel]]), ".svg"))


def thumbnails() -> str:
    """All films side by side, small, each a link to its section."""
    films = [
        f'<a href="#{anchor(subject.title)}"><img src="gallery/{subject.name}.gif" alt="{subject.title}" '
        f'title="{subject.title}" width="110"></a>\n'
        for subject in SUBJECTS
    ]
    return f'<div class="thumbnails">\n{"".join(films)}</div>\n'


def table(made: Sequence[Mapping[str, Any]]) -> str:
    """All agents beside RL Baselines3 Zoo's, as far as it has the environment."""
    head = ("environment", "agent", "return", "steps", "seconds", "RL Zoo's A2C", "RL Zoo's PPO")
    rows = [
        (
            f"[{each['env']}](#{anchor(subject.title)})",
            each["agent"] + (", LSTM" if "lstm" in each["name"] else ""),
            unbroken(f"{return_text(each['mean_return'])} ± {return_text(each['std_return'])}"),
            f"{each['steps']:,}",
            f"{each['training_s']:,.0f}",
            *(
                unbroken(f"{return_text(mean)} ± {return_text(std)} ({steps})") if steps else "–"
                for mean, std, steps in RL_ZOO.get(each["env"], ((0, 0, ""), (0, 0, "")))
            ),
        )
        for subject, each in zip(SUBJECTS, made, strict=True)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def unbroken(text: str) -> str:
    """A text in which a browser ends no line."""
    return text.replace(" ", "\u00a0")


def anchor(title: str) -> str:
    """The link to a heading, on the documentation site and on GitHub."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def section(subject: Subject, made: Mapping[str, Any]) -> str:
    """The part of the page on one agent: its card."""
    needs = f" It needs `plugins/{subject.plugin}`." if subject.plugin else ""
    figures = (
        str(made["seed"]),
        f"{made['steps']:,}",
        f"{made['training_s']:,.0f}",
        "yes" if made["solved"] else "no",
        f"{return_text(made['mean_return'])} ± {return_text(made['std_return'])}",
        f"return {made['film_return']}, {made['film_steps']:,} steps",
    )
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    weak = f"**Weaknesses.** {made['weaknesses']}\n\n" if made["weaknesses"] else ""
    return (
        f"## {subject.title}\n\n{subject.text}{needs}\n\n"
        f"![A trained agent plays {subject.title}](gallery/{subject.name}.gif)\n\n"
        + "".join(f"    {line}\n" for line in dict.fromkeys([made["command"], *lines(subject)]))
        + f"\n| seed | steps | seconds | solved | return of {made['episodes']} episodes | the film |\n"
        + f"| {' | '.join(['---'] * 6)} |\n| {' | '.join(figures)} |\n\n"
        + f"{weak}Trained with {versions}; {made['machine']}.\n\n"
        + f"![Learning curve on {subject.title}](gallery/{subject.name}.svg)\n"
    )


def atari(made: Sequence[Mapping[str, Any]]) -> str:
    """How long the agents of Atari games were trained."""
    steps = [each["steps"] for each in made if each["env"].partition(":")[0] in ("atari", "breakout", "pong")]
    least, most = (f"{number / 1e6:.1f}" for number in (min(steps), max(steps)))
    return f"RL Zoo's agents of Atari games had 10 million steps, ours {least} to {most} million.\n"


def sections() -> str:
    """The generated part of docs/gallery.md, from the figures beside the films."""
    known = {each["name"]: each for each in json.loads(DATA.read_text(encoding="utf-8"))}
    made = [known[subject.name] for subject in SUBJECTS]
    cards = [section(*both) for both in zip(SUBJECTS, made, strict=True)]
    return "\n".join([thumbnails(), table(made), atari(made), *cards])


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
        site = install(sorted({each.plugin for each in SUBJECTS if each.plugin}), folder)
        for subject in SUBJECTS:
            if not names or subject.name in names:
                made[subject.name] = make(subject, folder, site)
                content = [made[each.name] for each in SUBJECTS if each.name in made]
                DATA.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
