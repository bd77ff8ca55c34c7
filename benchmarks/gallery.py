"""Films the trained agents of plugins/a3c-zoo-trained, and two other agents, which it trains.

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
sys.path.insert(0, str(ROOT))
from benchmarks import zoo_table  # noqa: E402

FOLDER = ROOT / "docs" / "gallery"
DATA = FOLDER / "gallery.json"
TRAINED = ROOT / "plugins" / "a3c-zoo-trained" / "src" / "a3c_zoo_trained"

#: Draws the pictures of a film. It stops after a few seconds.
FILM = ROOT / "benchmarks" / "film.py"
LARGEST_FILE_KB, LARGEST_FOLDER_KB = 400, 3500

#: Game → what RL Baselines3 Zoo's benchmark.md says of its agents, each of one run with 10 million steps. Actions are
#: sampled. The other environments are in benchmarks/zoo/table.yml.
GAMES: Mapping[str, Mapping[str, zoo_table.Published]] = {
    game: {"a2c": zoo_table.Published(*a2c, 10_000_000), "ppo": zoo_table.Published(*ppo, 10_000_000)}
    for game, a2c, ppo in (
        ("pong", (17.292, 3.214), (20.989, 0.105)),
        ("breakout", (279.793, 122.177), (398.033, 33.328)),
        ("atari:asteroids", (1286.550, 423.750), (2156.174, 744.640)),
        ("atari:beam_rider", (2890.298, 1379.137), (3397.000, 1662.368)),
        ("atari:enduro", (0.0, 0.0), (996.364, 176.090)),
        ("atari:qbert", (3882.345, 1223.327), (15627.108, 3313.538)),
        ("atari:road_runner", (31671.512, 6364.085), (40680.645, 6675.058)),
        ("atari:seaquest", (1721.493, 105.339), (1783.636, 34.096)),
        ("atari:space_invaders", (627.160, 201.974), (960.331, 425.355)),
    )
}


@dataclass(frozen=True)
class Look:
    """How a film is made smaller: width in pixels, pictures a second, colours, and after how many seconds it is cut."""

    width: int
    fps: float
    colours: int
    longest_s: int

    @property
    def filters(self) -> str:
        """What ffmpeg does with the pictures. The last one stays for a second."""
        return (
            f"tpad=stop_mode=clone:stop_duration=1,fps='min(source_fps,{self.fps})',"
            f"scale={self.width}:-2:flags=area,split[a][b];[a]palettegen=max_colors={self.colours}[c];"
            "[b][c]paletteuse=dither=none:diff_mode=rectangle"
        )


#: If the camera moves, each picture is new.
STILL, MOVING = Look(300, 12.5, 64, 14), Look(180, 8, 36, 5)


@dataclass(frozen=True)
class Subject:
    """Who is filmed.

    Attributes:
        name: of the trained agent, or of the run, and of the film. title: heading on the page.
        text: what the film shows.
        train: environment, options and seed of a training for this page; empty for an agent of a3c-zoo-trained.
        plugins: folders in plugins/ whose distributions it needs. extra: that of a3c-zoo which it needs.
        play: options of `a3c-zoo play`.
    """

    name: str
    title: str
    text: str
    train: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ("a3c-zoo-trained",)
    extra: str = ""
    play: tuple[str, ...] = ()

    @property
    def look(self) -> Look:
        """Of its film."""
        return MOVING if self.extra == "mujoco" else STILL


MINIGRID, SLOW = ("a3c-zoo-trained", "a3c-zoo-minigrid"), ("--fps", "2")
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
    Subject("beam-rider-a3c", "Beam Rider", "The ship moves below the saucers, and shoots at them."),
    Subject("enduro-a3c", "Enduro", "The car overtakes others."),
    Subject("ms-pacman-a3c", "Ms. Pac-Man", "Ms. Pac-Man eats dots, and leaves the ghosts behind."),
    Subject("road-runner-a3c", "Road Runner", "The bird picks up seeds, and runs away from the coyote."),
    Subject("asteroids-a3c", "Asteroids", "The ship shoots at rocks from all sides."),
    Subject("cartpole-a3c", "CartPole", "A cart moves left and right, so that the pole on it stays upright."),
    Subject("cartpole-nstep", "CartPole, n-step", "The same with the agent of the textbook."),
    Subject("cartpole-lstm", "CartPole without velocities", "The agent sees positions alone; an LSTM remembers."),
    Subject("acrobot-a3c", "Acrobot", "Two links swing up until the free end is above the line."),
    Subject("mountain-car-a3c", "MountainCar", "The car is too weak for the hill, so it swings to and fro first."),
    Subject(
        "mountain-car-continuous-a3c",
        "MountainCarContinuous",
        "The same with a force between two limits, which costs as much as it pushes.",
    ),
    Subject("pendulum-a3c", "Pendulum", "The pendulum swings up and stays there with as little force as it can."),
    Subject("lunar-lander-a3c", "LunarLander", "The lander comes down between the flags.", extra="box2d"),
    Subject(
        "lunar-lander-continuous-a3c",
        "LunarLanderContinuous",
        "The same with engines that can be throttled.",
        extra="box2d",
    ),
    Subject(
        "bipedal-walker-a3c",
        "BipedalWalker",
        "Two legs walk over uneven ground. The agent feels its joints, and sees ten points of the ground before it.",
        extra="box2d",
    ),
    Subject("hopper-a3c", "Hopper", "One leg hops forward.", extra="mujoco"),
    Subject("half-cheetah-a3c", "HalfCheetah", "Half a cheetah runs as fast as it can.", extra="mujoco"),
    Subject("walker2d-a3c", "Walker2d", "Two legs walk forward.", extra="mujoco"),
    Subject("ant-a3c", "Ant", "Four legs walk to the right.", extra="mujoco"),
    Subject("swimmer-a3c", "Swimmer", "Three links push themselves through a viscous fluid.", extra="mujoco"),
    Subject(
        "door-key-a3c",
        "MiniGrid DoorKey",
        "The agent sees the 7 × 7 cells in front of it (the lighter ones). It fetches the key, opens the door, and "
        "goes to the goal.",
        plugins=MINIGRID,
        play=SLOW,
    ),
    Subject(
        "key-corridor-a3c",
        "MiniGrid KeyCorridor",
        "The key lies behind one door, and the ball that the agent should take behind another, which is locked.",
        plugins=MINIGRID,
        play=SLOW,
    ),
    Subject("unlock-a3c", "MiniGrid Unlock", "The agent opens the door with the key.", plugins=MINIGRID, play=SLOW),
    Subject(
        "red-blue-doors-a3c",
        "MiniGrid RedBlueDoors",
        "The agent opens the red door, and then the blue one.",
        plugins=MINIGRID,
        play=SLOW,
    ),
    Subject(
        "frozen-lake",
        "FrozenLake",
        "Two moves in three slip sideways on this ice. The agent crosses it to the flag, past the holes.",
        ("gym:FrozenLake-v1", "--seed", "1"),
        plugins=(),
    ),
    Subject(
        "gridworld",
        "Gridworld",
        "The agent (orange) goes round the wall (grey) to the goal (green), "
        "past the pits (dark). One move in ten slips.",
        ("gridworld", "--seed", "1"),
        plugins=("a3c-zoo-gridworld",),
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
    print("$ a3c-zoo", *arguments, flush=True)
    return output_of([str(Path(sys.executable).with_name("a3c-zoo")), *arguments], folder, site)


def film(subject: Subject, folder: Path, site: Path) -> tuple[str, int]:
    """Films the episode that the agent's `a3c-zoo play` shows; returns the episode's return and steps."""
    drawn = f"{subject.name}.gif"
    print("$ film.py", subject.name, flush=True)
    length = ("--seconds", str(subject.look.longest_s))
    told = output_of([sys.executable, str(FILM), subject.name, drawn, *length, *subject.play], folder, site)
    shrink(folder / drawn, FOLDER / drawn, subject.look)
    played = re.fullmatch(r"return (\S+), ([\d,]+) steps", told.strip())
    assert played is not None
    return played[1], int(played[2].replace(",", ""))


def output_of(command: Sequence[str], folder: Path, site: Path) -> str:
    """What a program prints that runs in a folder, with the plugins of `site`.

    Raises:
        SystemExit: it failed.
    """
    known = filter(None, [os.environ.get("PYTHONPATH")])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*known, str(site)])}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}{done.stderr}{shlex.join(command)} failed with status {done.returncode}")
    return done.stdout


def shrink(film: Path, picture: Path, look: Look) -> None:
    """Writes the beginning of a film smaller and with fewer colours.

    Raises:
        SystemExit: it is still too large.
    """
    import imageio_ffmpeg

    program = imageio_ffmpeg.get_ffmpeg_exe()
    command = [program, "-v", "error", "-y", "-i", str(film), "-vf", look.filters, str(picture)]
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
    film_return, film_steps = film(subject, folder, site)
    draw_curve(folder / f"{subject.name}.csv" if subject.train else made / "curve.csv", FOLDER / f"{subject.name}.svg")
    meta, outcome = (json.loads((made / file).read_text(encoding="utf-8")) for file in ("meta.json", "outcome.json"))
    evaluation = outcome["evaluation"]
    if subject.train:  # the other outcomes have 100 episodes already
        evaluation = json.loads(run([*steps["evaluate"], "--json"], folder, site))
    command = [word for word in meta["command"][1:] if word != "--quiet"]
    if not subject.train:
        place = command.index("--name")
        del command[place : place + 2]
    return {
        **{key: meta[key] for key in ("env", "agent", "seed")},
        **{"name": subject.name, "command": shlex.join(["a3c-zoo", *command])},
        **{"weaknesses": weaknesses().get(subject.name, "")},
        **{key: outcome[key] for key in ("steps", "solved", "training_s")},
        **{key: evaluation[key] for key in ("episodes", "mean_return", "std_return")},
        **{"film_return": film_return, "film_steps": film_steps, "greedy": greedy(meta)},
        "versions": {name: meta["versions"][name] for name in ("python", "a3c-zoo", "torch", "gymnasium", "ale-py")},
        "machine": f"{meta['host']['cpu']}, {meta['host']['cores']} cores",
    }


def greedy(meta: Mapping[str, Any]) -> tuple[float, float] | None:
    """Mean and standard deviation of 100 episodes with the most probable actions, of a run of docs/figures."""
    figures = zoo_table.read_figures(zoo_table.FIGURES["table"])
    run = (meta["env"], meta["seed"], meta["started"])
    own = [each for each in figures if (each.env, each.seed, each.started) == run]
    return (own[0].greedy_mean, own[0].greedy_std) if own else None


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
    head = ("environment", "agent", "return", "most probable actions", "steps", "RL Zoo's A2C", "RL Zoo's PPO")
    rows = [
        (
            f"[{each['env']}](#{anchor(subject.title)})",
            each["agent"] + (", LSTM" if "lstm" in each["name"] else ""),
            with_deviation(each["mean_return"], each["std_return"]),
            with_deviation(*each["greedy"]) if each["greedy"] else "–",
            f"{each['steps']:,}",
            *(cell_of(published(each["env"]).get(algorithm)) for algorithm in zoo_table.PUBLISHED),
        )
        for subject, each in zip(SUBJECTS, made, strict=True)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def published(env: str) -> Mapping[str, zoo_table.Published]:
    """Algorithm → what RL Baselines3 Zoo reached with it; empty if it does not have the environment."""
    if env in GAMES:
        return GAMES[env]
    name = "gym:CartPole-v1" if env == "cartpole" else env
    return next((row.published for row in zoo_table.read_list("table") if row.env == name), {})


def cell_of(figures: zoo_table.Published | None) -> str:
    """What an agent of RL Baselines3 Zoo reached, with the steps of its training; `–` if there is none."""
    if figures is None:
        return "–"
    return with_deviation(figures.mean, figures.std) + unbroken(f" ({figures.steps / 1e6:g} M)")


def with_deviation(mean: float, std: float) -> str:
    """A mean with its standard deviation, for a cell."""
    return unbroken(f"{return_text(mean)} ± {return_text(std)}")


def unbroken(text: str) -> str:
    """A text in which a browser ends no line."""
    return text.replace(" ", "\u00a0")


def anchor(title: str) -> str:
    """The link to a heading, on the documentation site and on GitHub."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def section(subject: Subject, made: Mapping[str, Any]) -> str:
    """The part of the page on one agent: its card."""
    needs = [
        *([f"the extra `{subject.extra}`"] if subject.extra else []),
        *(f"`plugins/{each}`" for each in subject.plugins),
    ]
    needed = f" It needs {' and '.join(needs)}." if needs else ""
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
        f"## {subject.title}\n\n{subject.text}{needed}\n\n"
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
        site = install(sorted({plugin for each in SUBJECTS for plugin in each.plugins}), folder)
        for subject in SUBJECTS:
            if not names or subject.name in names:
                made[subject.name] = make(subject, folder, site)
                content = [made[each.name] for each in SUBJECTS if each.name in made]
                DATA.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
