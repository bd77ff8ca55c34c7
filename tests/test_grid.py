"""`a3c-zoo play --grid`: films with several agents, whose tiles are looked at."""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.cli.grid import GAP, LABEL, Tile, show
from a3c_zoo.runs.episodes import PlayedEpisode
from a3c_zoo.runs.pictures import Scene
from tests.test_play import LIMIT, frames_of
from tests.toys_runs import command_line


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of random actions on CartPole and Pong, whose episodes are cut short; one is called like a checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    overrides = {"max_episode_steps": LIMIT, "num_envs": 2, "agent.n_steps": 5}
    a3c_zoo.train("pong", agent="random", steps=10, runs_dir=folder, name="pong", overrides=overrides)
    a3c_zoo.train("cartpole", agent="random", steps=10, runs_dir=folder, name="cart")
    shutil.copytree(folder / "cart", folder / "cart@10")
    return folder


def scenes_of(returns: list[float], shape: tuple[int, int], level: int, fps: float) -> Generator[Scene]:
    """A picture for each step, one grey level lighter than the last. An episode ends where the return is negative."""
    for number, episode_return in enumerate(returns):
        picture = np.full((*shape, 3), level + number, np.uint8)
        ended = [PlayedEpisode(episode_return, number + 1)] if episode_return < 0 else []
        yield Scene(picture, fps, ended, episode_return)
    raise AssertionError("the scene after the last was asked for")


def levels(pictures: list[np.ndarray], width: int, height: int) -> list[list[int]]:
    """The grey levels in the middle of the two tiles of one row."""
    return [[int(picture[height // 2, width // 2 + n * (width + GAP), 0]) for n in range(2)] for picture in pictures]


def test_what_a_tile_says_of_its_episode() -> None:
    tile = Tile("", 0, scenes_of([1.0, -2.0, 0.5, -1000.0], (42, 42), 100, 20.0), episodes=2)
    said = []
    for position in range(4):
        results = tile.go_to(position)
        said.append((tile.status(), results, tile.unfinished()))
    of_two = "so far, not played to its end"
    assert said == [
        ("return 1  episode 1 of 2", [], [f"episode 1: return 1 {of_two}"]),
        ("return -2  episode 1 of 2", ["episode 1: return -2, 2 steps"], []),
        ("return 0.5  episode 2 of 2", [], [f"episode 2: return 0.5 {of_two}"]),
        ("return -1,000  episode 2 of 2", ["episode 2: return -1,000, 4 steps"], []),
    ]


def test_each_at_its_own_speed_until_all_have_ended() -> None:
    fast, slow = [1.0, 2.0, 3.0, -4.0], [1.0, -2.0, 0.0, -1.0]  # one episode of four steps; two of two
    tiles = [
        Tile("fast", 1000, scenes_of(fast, (42, 42), 100, fps=20.0), episodes=1),
        Tile("slow", 0, scenes_of(slow, (42, 42), 200, fps=10.0), episodes=2),
    ]
    shown = list(show(tiles, None))
    assert {fps for _, fps, _ in shown} == {20.0}
    assert levels([picture for picture, _, _ in shown], 420, 420) == [
        [100, 200],
        [101, 200],
        [102, 201],
        [103, 201],
        [103 // 3, 202],  # dimmed after its end
        [103 // 3, 202],
        [103 // 3, 203],
    ]
    assert [lines for _, _, lines in shown if lines] == [
        ["slow episode 1: return -2, 2 steps"],
        ["fast episode 1: return -4, 4 steps"],
        ["slow episode 2: return -1, 4 steps"],
    ]


def test_one_speed_for_all() -> None:
    tiles = [Tile("a", 0, scenes_of([1.0] * 3 + [-1.0], (42, 42), 100, fps), 1) for fps in (20.0, 10.0)]
    shown = list(show(tiles, 5.0))
    assert [fps for _, fps, _ in shown] == [5.0] * 4


def test_tiles_of_all_sizes_fit() -> None:
    """A high picture, a wide one and a tiny one; the fourth place stays empty. Each keeps its proportions."""
    shapes = [(400, 100), (100, 200), (4, 4)]
    tiles = [Tile("x" * 500, 7, scenes_of([-1.0], shape, 250, 10.0), 1) for shape in shapes]
    ((picture, _, _),) = show(tiles, None)
    height, width = 420, 840
    assert picture.shape == (2 * (height + LABEL), 2 * (width + GAP), 3)
    cells = [
        picture[row : row + height + LABEL, column : column + width + GAP]
        for row in (0, height + LABEL)
        for column in (0, width + GAP)
    ]
    sizes = []
    for cell in cells[:3]:
        rows, columns = np.nonzero((cell[:height] == 250).all(axis=-1))
        sizes.append((len(set(rows)), len(set(columns))))
        label = cell[height:]
        assert label.max() > 200  # a name, cut to the width
        assert label[:, :2].max() == label[:, -2:].max() == 0
    assert sizes == [(420, 105), (420, 840), (420, 420)]
    assert cells[3].max() == 0


def test_a_label_needs_some_width() -> None:
    tiles = [Tile("x" * 50, 0, scenes_of([-1.0], (400, 1), 100, 10.0), 1) for _ in range(2)]
    ((picture, _, _),) = show(tiles, None)
    assert picture.shape == (420 + LABEL, 2 * (160 + GAP), 3)


def test_sixteen_fit_on_a_screen() -> None:
    tiles = [Tile("a", 0, scenes_of([-1.0], (400, 600), n, 10.0), 1) for n in range(16)]
    ((picture, _, _),) = show(tiles, None)
    assert picture.shape == (4 * (210 + LABEL), 4 * (315 + GAP), 3)


def test_a_film_of_two_environments(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CartPole has 50 steps a second and falls soon; 25 steps of Pong take 1.7 s."""
    video = tmp_path / "both.mp4"
    assert command_line("play", "--grid", "cart", "pong@final", "--runs-dir", runs, "--video", video) == 0
    cart, pong = capsys.readouterr().out.splitlines()
    found = re.fullmatch(r"cart episode 1: return (\d+), \1 steps", cart)
    assert found
    assert re.fullmatch(r"pong@final episode 1: return -?\d, 25 steps", pong)
    frames = frames_of(video)
    assert len(frames) == (LIMIT - 1) * 50 // 15 + 1 > int(found[1])
    assert frames[0].shape == (420 + LABEL, 2 * (630 + GAP), 3)
    left = [frame[100, 315].mean() for frame in frames]  # CartPole's sky
    assert min(left[: int(found[1])]) > 250
    assert left[-1] == pytest.approx(255 / 3, abs=3)
    right = frames[-2][:420, 636:]
    assert right[:, :150].max() < 20  # Pong is higher than wide
    assert (np.abs(right.astype(int) - (92, 186, 92)).max(axis=-1) < 30).any()  # the agent's bat
    assert frames[-1][420:, :636].max() > 200


def test_checkpoints_are_named_behind_the_run(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`cart@10` is a run here, and `cart@0` the first checkpoint of `cart`."""
    words = ["--runs-dir", runs, "--video", tmp_path / "a.gif", "--seed", 1]
    assert command_line("play", "--grid", "cart@10", "cart@0", *words) == 0
    assert sorted(line.split()[0] for line in capsys.readouterr().out.splitlines()) == ["cart@0", "cart@10"]
    words[3] = tmp_path / "b.gif"
    assert command_line("play", "cart@0", *words) == 0
    assert capsys.readouterr().out.startswith("episode 1: return ")


def test_what_cannot_be_shown_together(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)

    def refusal(*words: object, video: Path | None = tmp_path / "a.mp4") -> str:
        assert command_line("play", *words, "--runs-dir", runs, *(["--video", video] if video else [])) == 2
        assert not (tmp_path / "a.mp4").exists()
        (line,) = capsys.readouterr().err.splitlines()
        return line

    number = "Error: --grid shows 2 to 16 agents, or checkpoints of one: RUN@100000 RUN@best"
    assert refusal("--grid", "cart") == refusal("--grid", *["cart"] * 17) == number
    assert refusal("cart", "pong") == "Error: 2 agents are given; to see them side by side, add --grid"
    assert refusal("--grid") == "Error: Missing argument 'RUN|ENV...'. See: a3c-zoo play --help"
    unknown = f"Error: 'cort' is no run here or in {runs}, no environment and no trained agent. Did you mean 'cart'? "
    assert refusal("--grid", "pong", "cort").startswith(unknown)
    assert refusal("--grid", "cart", "cart@77").startswith("Error: run cart has no checkpoint '77'; it has: final, 0")
    shown = refusal("--grid", "cart", "pong", video=None)
    assert shown == "Error: there is no display, and stdout is no terminal; give --video FILE.mp4 or FILE.gif"
