"""`a3c-zoo play`: the files that it writes are read back, the terminal's text is turned into pixels again."""

from __future__ import annotations

import fcntl
import io
import itertools
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from PIL import Image, ImageSequence
from rich.console import Console

import a3c_zoo
from a3c_zoo.cli import screens
from a3c_zoo.config import EnvConfig
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import has_display
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.runs import api
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.evaluation import evaluate_policy
from a3c_zoo.runs.pictures import DEFAULT_FPS, Scene, play_scenes
from a3c_zoo.runs.videos import EpisodeFilm, VideoFile, enlarge
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.testing import plugin_distribution
from tests.shared import closed
from tests.test_evaluate import FirstAction
from tests.toys import ToyVectorEnv
from tests.toys_runs import command_line, scenes_of
from tests.waits import LIMIT_S, wait_until
from tests.wheels import ROOT

LIMIT = 25  # steps of an episode of Pong here
GREEN = (92, 186, 92)  # of the agent's bat


@pytest.fixture(scope="module")
def pong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of random actions on Pong, its episodes cut short."""
    folder = tmp_path_factory.mktemp("pong")
    overrides = {"max_episode_steps": LIMIT, "num_envs": 2, "agent.n_steps": 5}
    return a3c_zoo.train("pong", agent="random", steps=10, runs_dir=folder, name="pong", overrides=overrides).run


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cartpole")
    return a3c_zoo.train("cartpole", agent="random", steps=10, runs_dir=folder, name="cartpole").run


def frames_of(video: Path) -> list[np.ndarray]:
    if video.suffix == ".gif":
        with Image.open(video) as image:
            return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
    import imageio_ffmpeg

    reader = imageio_ffmpeg.read_frames(str(video))
    width, height = next(reader)["size"]
    return [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader]


def durations_of(video: Path) -> list[int]:
    """Milliseconds for which each picture of a GIF is shown."""
    with Image.open(video) as image:
        return [int(frame.info["duration"]) for frame in ImageSequence.Iterator(image)]


# Scenes


def test_a_scene_for_every_step(pong: Path) -> None:
    scenes = list(scenes_of(pong, episodes=2))
    assert len(scenes) == LIMIT + 1 + LIMIT  # between two episodes the game only resets
    assert [k for k, scene in enumerate(scenes) if scene.episodes] == [LIMIT - 1, 2 * LIMIT]
    assert [scene.episodes[0].length for scene in scenes if scene.episodes] == [LIMIT] * 2
    assert {(scene.picture.shape, scene.picture.dtype.name, scene.fps) for scene in scenes} == {
        ((210, 160, 3), "uint8", 15.0)
    }
    assert (scenes[-1].picture == GREEN).all(axis=-1).any()
    assert any((one.picture != other.picture).any() for one, other in itertools.pairwise(scenes))


def test_the_same_seed_plays_the_same_game(pong: Path) -> None:
    one, other, another = ([scene.picture for scene in scenes_of(pong, seed=seed)] for seed in (3, 3, 4))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, another)


def test_it_is_the_episode_that_an_evaluation_plays(cartpole: Path) -> None:
    played = [episode for scene in scenes_of(cartpole, episodes=1, seed=5) for episode in scene.episodes]
    assert played[0].length == api.evaluate(cartpole, episodes=1, seed=5).mean_length


# Videos


def test_a_gif(pong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / "pong.gif"
    assert command_line("play", pong, "--video", video) == 0
    assert re.fullmatch(r"episode 1: return -?\d+, 25 steps\n", capsys.readouterr().out)
    frames = frames_of(video)
    assert {frame.shape for frame in frames} == {(420, 320, 3)}
    shown = [enlarge(scene.picture) for scene in scenes_of(pong)]
    assert len(frames) == len(shown) == LIMIT
    for frame, picture in zip(frames, shown, strict=True):
        assert np.abs(frame.astype(int) - picture).mean() < 1  # a GIF has 256 colours, Pong four
    assert set(durations_of(video)) == {60, 70}  # 15 a second; a GIF counts in hundredths
    assert sum(durations_of(video)) == pytest.approx(1000 * LIMIT / 15, abs=10)
    with Image.open(video) as image:
        assert image.info["loop"] == 0


def test_a_gif_faster_than_viewers_are(tmp_path: Path) -> None:
    """Most viewers show a picture of 10 ms for 100 ms. So 50 of 120 pictures a second stay; the duration does too."""
    video = VideoFile(tmp_path / "a.gif")
    for k in range(240):
        video.show(np.full((210, 160, 3), k, np.uint8), 120.0)
    video.close()
    durations = durations_of(tmp_path / "a.gif")
    assert set(durations) == {20}
    assert sum(durations) == pytest.approx(2000, abs=20)
    assert [int(frame.mean()) for frame in frames_of(tmp_path / "a.gif")][:3] == pytest.approx([0, 2.4, 4.8], abs=1.3)


def test_a_gif_needs_no_extra_and_shows_what_was_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ball of three colours moves over noise of 200 colours, stops for a picture, and jumps: every pixel is right."""
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    rng = np.random.default_rng(0)
    ground = rng.integers(0, 200, (210, 160, 1), np.uint8).repeat(3, axis=2)
    pictures = []
    for left in (10, 20, 20, 90):
        picture = ground.copy()
        picture[40:60, left : left + 9] = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8).repeat(3, axis=0)
        pictures.append(picture)
    video = VideoFile(tmp_path / "a.gif")
    for picture in pictures:
        video.show(picture, 8.0)
    video.close()
    frames = frames_of(tmp_path / "a.gif")
    for frame, picture in zip(frames, pictures, strict=True):
        assert np.array_equal(frame, enlarge(picture))
    assert durations_of(tmp_path / "a.gif") == [120, 130, 130, 120]  # 12.5 hundredths each


def test_a_gif_whose_colours_come_back(tmp_path: Path) -> None:
    """The first and the last picture have the same four colours, the one between them has three."""
    black, grey, red, green = (0, 0, 0), (76, 76, 76), (200, 50, 50), (60, 200, 60)
    corners = [(black, grey, red, green), (black, black, red, grey), (green, black, grey, red)]
    pictures = [np.array(each, np.uint8).reshape(2, 2, 3).repeat(210, 0).repeat(210, 1) for each in corners]
    video = VideoFile(tmp_path / "a.gif")
    for picture in pictures:
        video.show(picture, 10.0)
    video.close()
    for frame, picture in zip(frames_of(tmp_path / "a.gif"), pictures, strict=True):
        assert np.abs(frame.astype(int) - picture).max() < 8


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_a_long_video_needs_no_more_memory(name: str, tmp_path: Path) -> None:
    """400 pictures of 0.1 MB each are encoded as they come."""
    ours, rng = psutil.Process(), np.random.default_rng(0)
    screen = rng.integers(0, 8, (210, 160, 3), np.uint8) * 32
    video = VideoFile(tmp_path / name)
    video.show(screen, 15.0)
    before = ours.memory_info().rss
    for k in range(1, 400):
        video.show(np.roll(screen, k, axis=1), 15.0)
    assert ours.memory_info().rss - before < 20e6
    if video._ffmpeg is not None:
        assert psutil.Process(video._ffmpeg.pid).memory_info().rss < 250e6
    video.close()
    assert len(frames_of(tmp_path / name)) == 400


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_a_file_that_may_not_grow(name: str, pong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a full disk: one line on stderr, and no damaged video is left."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        assert command_line("play", pong, "--video", tmp_path / name) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: --video {tmp_path / name}: cannot be written: ")
    assert line.endswith("File too large")
    assert list(tmp_path.iterdir()) == []


def test_an_ffmpeg_that_is_none(
    pong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/no/such/ffmpeg")
    video = tmp_path / "a.mp4"
    assert command_line("play", pong, "--video", video) == 2
    reason = "cannot be written: /no/such/ffmpeg: No such file or directory"
    assert capsys.readouterr().err == f"Error: --video {video}: {reason}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_pictures_of_two_sizes(name: str, tmp_path: Path) -> None:
    """No part of a video is left, and its name can be used again."""
    video = VideoFile(tmp_path / name)
    video.show(np.zeros((210, 160, 3), np.uint8), 15.0)
    with pytest.raises(ZooError, match=r"a picture of \(211, 160, 3\) after those of \(210, 160, 3\)"):
        video.show(np.zeros((211, 160, 3), np.uint8), 15.0)
    video.close()
    assert list(tmp_path.iterdir()) == []
    again = VideoFile(tmp_path / name)
    again.show(np.zeros((211, 160, 3), np.uint8), 15.0)
    again.close()
    assert len(frames_of(tmp_path / name)) == 1


@pytest.mark.parametrize("fps", ["nan", "inf", "0", "1e-9"])
def test_no_speed(fps: str, pong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("play", pong, "--video", tmp_path / "a.gif", "--fps", fps) == 2
    assert capsys.readouterr().err.startswith("Error: Invalid value for '--fps'")
    assert list(tmp_path.iterdir()) == []


def test_a_second_interrupt_leaves_the_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ffmpeg finishes the video although the wait for it is interrupted."""
    video = VideoFile(tmp_path / "a.mp4")
    for k in range(30):
        video.show(np.full((210, 160, 3), 8 * k, np.uint8), 15.0)
    ffmpeg = video._ffmpeg
    assert ffmpeg is not None

    def interrupted(_: float) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ffmpeg, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            video.close()
    assert ffmpeg.wait(LIMIT_S) == 0
    assert len(frames_of(tmp_path / "a.mp4")) == 30


def test_a_name_that_looks_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    video = VideoFile(Path("-y.mp4"))
    video.show(np.zeros((210, 160, 3), np.uint8), 15.0)
    video.close()
    assert len(frames_of(tmp_path / "-y.mp4")) == 1


def test_an_mp4(pong: Path, tmp_path: Path) -> None:
    import imageio_ffmpeg

    video = tmp_path / "pong.mp4"
    assert command_line("play", pong, "--episodes", 2, "--fps", 30, "--video", video) == 0
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert count == 2 * LIMIT + 1
    assert seconds == pytest.approx(count / 30, abs=0.05)
    frames = frames_of(video)
    pictures = [enlarge(scene.picture) for scene in scenes_of(pong, episodes=2)]
    assert frames[0].shape == (420, 320, 3)
    for k in (0, LIMIT - 1, 2 * LIMIT):
        assert np.abs(frames[k].astype(int) - pictures[k]).mean() < 6  # H.264 loses a little
    assert frames[-1].std() > 10


def test_cartpole(cartpole: Path, tmp_path: Path) -> None:
    video = tmp_path / "cartpole.gif"
    assert command_line("play", cartpole, "--video", video, "--seed", 1, "--deterministic") == 0
    frames = frames_of(video)
    assert 5 < len(frames) < 60
    assert frames[0].shape == (400, 600, 3)
    assert (frames[0] != frames[-1]).any()


@pytest.mark.parametrize(
    ("fails_at", "told", "frames"),
    [(6, "episode 1: return 5 so far, not played to its end", 5), (None, "episode 1: return 43, 43 steps", 43)],
    ids=["in an episode", "between two"],
)
def test_an_error_of_the_environment_leaves_a_video_of_what_came_before(
    fails_at: int | None,
    told: str,
    frames: int,
    cartpole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    video = tmp_path / "cartpole.gif"
    steps = itertools.count(1)
    step = CartPoleVectorEnv.step
    ended: list[bool] = []

    def failing(env: CartPoleVectorEnv, action: Any) -> Any:
        if ended or next(steps) == fails_at:
            raise ValueError("the pole is gone")
        result = step(env, action)
        ended.extend([True] if result[2].any() else [])
        return result

    monkeypatch.setattr(CartPoleVectorEnv, "step", failing)
    with pytest.raises(ValueError, match="the pole is gone"):
        command_line("play", cartpole, "--video", video, "--episodes", 2)
    assert capsys.readouterr().out == f"{told}\n{video} shows what was played so far\n"
    assert len(frames_of(video)) == frames


def test_drawing_says_nothing(cartpole: Path, tmp_path: Path) -> None:
    """Without a display or a sound card SDL complains on stderr."""
    environ = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and name[:3] != "SDL"}
    command = [sys.executable, "-m", "a3c_zoo", "play", str(cartpole), "--video", str(tmp_path / "a.gif")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT_S)
    newest = checkpoint_steps(RunDirectory(cartpole))[-1]
    assert (done.returncode, done.stderr) == (0, f"cartpole: newest checkpoint, step {newest:,}\n")
    assert done.stdout.startswith("episode 1: return ")


def test_odd_sizes_are_padded(tmp_path: Path) -> None:
    picture = np.full((401, 301, 3), 200, np.uint8)
    for name in ("a.mp4", "a.gif"):
        video = VideoFile(tmp_path / name)
        for _ in range(3):
            video.show(picture, 10.0)
        video.close()
    assert frames_of(tmp_path / "a.mp4")[0].shape == (402, 302, 3)


def test_what_exists_is_not_overwritten(pong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / "mine.gif"
    video.write_text("mine")
    assert command_line("play", pong, "--video", video) == 2
    assert capsys.readouterr().err == f"Error: --video {video}: exists already; delete it, or choose another name\n"
    assert video.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pong.avi", "must end in .mp4 or .gif"),
        ("no/such.mp4", "cannot be written: no is no directory in which you may write; choose another"),
        ("file/such.gif", "cannot be written: file is no directory in which you may write; choose another"),
    ],
)
def test_files_that_cannot_be(
    name: str,
    message: str,
    pong: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is played before."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert command_line("play", pong, "--video", name) == 2
    out, err = capsys.readouterr()
    assert err == f"Error: --video {name}: {message}\n"
    assert out == ""


@pytest.mark.parametrize("name", ["closed/a.gif", "x" * 300 + ".gif"])
def test_a_place_that_may_not_be_looked_at(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").mkdir()
    with closed(tmp_path / "closed"), pytest.raises(ZooError, match=f"^--video {name}: cannot be written: "):
        VideoFile(Path(name)).show(np.zeros((16, 16, 3), np.uint8), 30)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("closed/run", "closed/run cannot be read: Permission denied"),
        ("x" * 300, f"'{'x' * 300}' is no run here or in"),
    ],
)
def test_a_run_that_may_not_be_looked_at(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").mkdir()
    with closed(tmp_path / "closed"):
        assert command_line("play", name, "--video", "a.gif") == 2
    assert capsys.readouterr().err.startswith(f"Error: {message}")


def test_without_the_library(
    pong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert command_line("play", pong, "--video", tmp_path / "a.mp4") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: --video needs imageio-ffmpeg (")
    assert line.endswith(f"): {install_extra('play')}")


def test_without_pygame_cartpole_cannot_be_drawn(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert command_line("play", cartpole, "--video", tmp_path / "a.gif") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: environment 'cartpole' cannot be drawn: pygame is not installed")
    assert line.endswith(f"Or: {install_extra('play')}")
    assert list(tmp_path.iterdir()) == []


class Drawn(ToyVectorEnv):
    """`render` returns one array of `pictures` pictures, and raises for fewer than none."""

    pictures, width = 0, 2

    def render(self) -> Any:
        return np.full((self.pictures, 1, self.width, 3), 7, np.uint8)


def make_drawn(
    num_envs: int, seed: int, pictures: int, width: int = 2, fps: Any = None, render_mode: str | None = None
) -> ToyVectorEnv:
    env = Drawn(num_envs)
    env.pictures, env.width = pictures, width
    env.metadata = {**env.metadata, "render_fps": fps}
    return env


def play_toy(factory: str, **kwargs: Any) -> list[Scene]:
    entry = EnvEntry("toy", factory, kwargs=kwargs)
    return list(play_scenes(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 1, seed=0, number=0), deterministic=True))


def test_an_environment_that_draws_nothing() -> None:
    with pytest.raises(ZooError, match=r"'toy' cannot be drawn: .*render_mode"):
        play_toy("tests.toys:make")


def test_pictures_in_one_array() -> None:
    scenes = play_toy("tests.test_play:make_drawn", pictures=1)
    assert [scene.picture.tolist() for scene in scenes] == [[[[7, 7, 7]] * 2]] * 2  # an episode of two steps
    with pytest.raises(ZooError, match=r"'toy' cannot be drawn: its render\(\)"):
        play_toy("tests.test_play:make_drawn", pictures=0)
    with pytest.raises(ZooError, match=r"'toy' cannot be drawn: its render\(\)"):
        play_toy("tests.test_play:make_drawn", pictures=1, width=0)


@pytest.mark.parametrize(
    "fps", ["fast", float("nan"), float("inf"), -30, 0, None, [30], pytest.param(10**400, id="huge")]
)
def test_a_speed_that_is_none(fps: Any, tmp_path: Path) -> None:
    scenes = play_toy("tests.test_play:make_drawn", pictures=1, fps=fps)
    assert {scene.fps for scene in scenes} == {DEFAULT_FPS}
    entry = EnvEntry("toy", "tests.test_play:make_drawn", kwargs={"pictures": 1, "fps": fps})
    film = EpisodeFilm(tmp_path / "a.mp4")
    evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 1, seed=0, number=0), film=film)
    assert film.fault is None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["play", "x", "--video", "a.gif"], ""),
        (["push", "x", "a/b", "--dry-run", "look"], ". Without a film: --no-film"),
    ],
)
def test_an_environment_that_cannot_draw(
    words: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "push":
        pytest.importorskip("huggingface_hub")
    monkeypatch.chdir(tmp_path)
    toy = EnvEntry("undrawn", "tests.test_play:make_drawn", kwargs={"pictures": -1})
    a3c_zoo.train(toy, serial=True, workers=1, steps=50, name="x")
    assert command_line(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    what = "ValueError: negative dimensions are not allowed (in numeric.py, line "
    assert re.fullmatch(rf"Error: environment 'undrawn' cannot be drawn: {re.escape(what)}\d+\){re.escape(hint)}", line)
    assert os.listdir() == ["runs"]


# The terminal


def test_pixels_that_fall_together_are_averaged() -> None:
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    small = screens.resize(picture, 2, 3)
    assert small[1, 2] == pytest.approx(picture[2:4, 4:6].reshape(4, 3).mean(axis=0), abs=0.5)
    large = screens.resize(picture, 8, 12)
    assert np.array_equal(large[::2, ::2], picture)
    assert np.array_equal(large[1::2, 1::2], picture)
    assert screens.resize(picture, 3, 5).shape == (3, 5, 3)


def drawn(picture: np.ndarray, width: int, height: int) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor", width=width, height=height)
    console.print(screens.HalfBlocks(picture), end="")
    return file.getvalue()


def pixels_of(text: str) -> np.ndarray:
    """The picture that half blocks show."""
    rows = []
    for line in text.splitlines():
        cells: list[tuple[int, ...]] = []
        for colours, blocks in re.findall(r"\x1b\[38;2;([\d;]+)m(▀+)", line):
            red, green, blue, _, _, *below = map(int, colours.split(";"))
            cells += [(red, green, blue, *below)] * len(blocks)
        rows += [[cell[:3] for cell in cells], [cell[3:] for cell in cells]]
    return np.array(rows, np.uint8)


def test_half_blocks_show_the_picture() -> None:
    picture = np.random.default_rng(0).integers(256, size=(8, 12, 3)).astype(np.uint8)
    picture[:, 3:9] = picture[0, 0]  # a run of one colour
    text = drawn(picture, width=12, height=4)
    assert np.array_equal(pixels_of(text), picture)
    assert "▀▀▀▀▀▀" in text


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(80, 24, (48, 36)), (20, 24, (26, 20)), (200, 105, (210, 160)), (400, 210, (420, 320))],
)
def test_a_picture_is_as_large_as_fits(width: int, height: int, expected: tuple[int, int]) -> None:
    assert pixels_of(drawn(np.full((210, 160, 3), 7, np.uint8), width, height)).shape == (*expected, 3)


def test_the_games_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(screens, "time", clock)
    pace = screens.Pace()
    for drawing_s, end_s in [(0.01, 100.03), (0.01, 100.05), (0.1, 100.15), (0.01, 100.17)]:
        clock.sleep(drawing_s)
        pace.wait(50.0)
        assert clock.now == pytest.approx(end_s)  # 0.02 s after the last; lost time is not made up for


def test_no_terminal_no_display(
    pong: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not has_display()
    assert command_line("play", pong) == 2
    assert "stdout is no terminal; give --video FILE.mp4" in capsys.readouterr().err
    assert command_line("play", pong, "--terminal") == 2
    assert "--terminal: stdout is no terminal" in capsys.readouterr().err
    assert command_line("play", pong, "--window") == 2
    assert "--window: there is no display; --terminal and" in capsys.readouterr().err
    monkeypatch.setenv("DISPLAY", ":7654")  # of an X server that has ended
    assert has_display()
    assert command_line("play", pong) == 2
    assert "--window: the display cannot be opened; --terminal" in capsys.readouterr().err
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # as containers have it: its windows are seen by nobody
    assert not has_display()
    assert command_line("play", pong) == 2
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    assert has_display()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo terminal of 40 × 20 characters: (our end, the command's end)."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    yield ours, theirs
    os.close(ours)


def start(terminal: tuple[int, int], *arguments: object, **more: str) -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"} | more
    command = [sys.executable, "-m", "a3c_zoo", "play", *map(str, arguments)]
    running = subprocess.Popen(command, stdin=terminal[1], stdout=terminal[1], stderr=terminal[1], env=environ)
    os.close(terminal[1])
    return running


def read(ours: int, until: str = "") -> str:
    """Everything that the terminal gets until it is closed or gets `until`."""
    text = b""
    while not until or until.encode() not in text:
        try:
            text += os.read(ours, 65536)
        except OSError:  # closed
            break
    return text.decode(errors="ignore")


ENTER_PAGE, LEAVE_PAGE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def test_a_game_in_the_terminal(terminal: tuple[int, int], pong: Path) -> None:
    # Without a display, the terminal is the default. A picture is nothing but colours.
    running = start(terminal, pong, "--fps", 200, NO_COLOR="1", COLUMNS="40", LINES="20")
    text = read(terminal[0])
    assert running.wait(LIMIT_S) == 0
    *pages, last = re.split(r"\x1b\[H", text)
    assert len(pages) >= LIMIT
    assert "▀" in pages[-1]
    assert len(set(re.findall(r"48;2;[0-9;]+m", pages[-1]))) > 5
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", page).rstrip().splitlines()[-1] for page in pages if "▀" in page]
    assert {line[:26] for line in lines} == {"return 0  episode 1 of 1  "}
    assert {len(line) for line in lines} == {40}
    assert all(line.endswith("…  Ctrl-C ends") for line in lines)
    assert LEAVE_PAGE in last
    assert SHOW_CURSOR in last
    assert "episode 1: return" in last.partition(LEAVE_PAGE)[2]


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_dumb_terminal_draws_nothing(term: str, terminal: tuple[int, int], pong: Path) -> None:
    running = start(terminal, pong, "--terminal", TERM=term)
    text = read(terminal[0])
    assert running.wait(LIMIT_S) == 2
    line = f"--terminal: a terminal with TERM={term} draws nothing; --video FILE.mp4 needs none"
    assert line in " ".join(text.split())


def test_ctrl_c_leaves_the_terminal_as_it_was(terminal: tuple[int, int], pong: Path) -> None:
    running = start(terminal, pong, "--fps", 2, "--terminal")
    read(terminal[0], until="▀")
    running.send_signal(signal.SIGINT)
    rest = read(terminal[0])
    assert running.wait(LIMIT_S) == 130
    assert LEAVE_PAGE in rest
    assert SHOW_CURSOR in rest
    assert "Traceback" not in rest
    assert "episode 1: return 0 so far, not played to its end" in rest.partition(LEAVE_PAGE)[2]


def test_ctrl_z_gives_the_shell_its_screen(terminal: tuple[int, int], pong: Path) -> None:
    running = start(terminal, pong, "--fps", 2, "--terminal")
    read(terminal[0], until="▀")
    running.send_signal(signal.SIGTSTP)
    assert SHOW_CURSOR in read(terminal[0], until=LEAVE_PAGE)
    wait_until(lambda: Path(f"/proc/{running.pid}/stat").read_text().rsplit(")")[-1].split()[0] == "T")
    running.send_signal(signal.SIGCONT)
    assert ENTER_PAGE in read(terminal[0], until="▀")
    running.send_signal(signal.SIGINT)
    read(terminal[0])
    assert running.wait(LIMIT_S) == 130


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (30, "return 12  episo…  Ctrl-C ends"),
        (60, "return 12  episode 2 of 3  pong-a3c, 2,200,000…  Ctrl-C ends"),
        (80, "return 12  episode 2 of 3  pong-a3c, 2,200,000 steps  Ctrl-C ends, Ctrl-Z pauses"),
        (140, "return 12  episode 2 of 3  pong-a3c, 2,200,000 steps".ljust(114) + "Ctrl-C ends, Ctrl-Z pauses"),
    ],
)
def test_the_line_below_a_picture(width: int, line: str) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, height=24)
    status = "return 12  episode 2 of 3  pong-a3c, 2,200,000 steps"
    console.print(screens.PictureAndLine(np.zeros((210, 160, 3), np.uint8), status), end="")
    *picture, last = file.getvalue().splitlines()
    assert last == line
    assert len(picture) == min(23, int(width * 210 / 160 / 2))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_demo_ends_well_after_ctrl_c(terminal: tuple[int, int], tmp_path: Path) -> None:
    """The keys of a terminal reach all of its foreground, and so make itself where the command is no job of its own."""
    ours, theirs = terminal
    module = "from a3c_zoo_trained import zoo_trained"
    plugin = plugin_distribution(tmp_path / "plugin", "zoo-demo", module, entry_point="trained")
    environ = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environ["PYTHONPATH"] = os.pathsep.join(map(str, (plugin, *sys.path)))
    environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "A3C_ZOO_PLUGINS": "core,envs,hyperparams,trained"}
    command = [
        "make",
        "-C",
        str(ROOT),
        "--old-file=.venv/.installed-trained",
        "demo",
        f"BIN={Path(sys.executable).parent}",
    ]
    running = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # its terminal, whose keys are signals
    )
    os.close(theirs)
    assert "▀" in read(ours, until="▀")
    os.write(ours, b"\x03")
    last = read(ours).partition(LEAVE_PAGE)[2]
    assert running.wait(LIMIT_S) == 0, last
    assert "so far, not played to its end" in last
    assert "***" not in last


# A window


@pytest.fixture
def pygame(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pygame with windows that nobody sees."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return pytest.importorskip("pygame")


def test_a_window(pygame: Any, pong: Path) -> None:
    window, picture = screens.Window(), np.zeros((210, 160, 3), np.uint8)
    picture[10, 20] = (1, 2, 3)
    window.show(picture, 100.0)
    surface = pygame.display.get_surface()
    assert surface.get_size() == (320, 420)
    assert tuple(surface.get_at((41, 21)))[:3] == (1, 2, 3)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    with pytest.raises(screens.ClosedError):
        window.show(picture, 100.0)
    window.close()
    assert not pygame.display.get_init()


def test_play_in_a_window(pygame: Any, pong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("play", pong, "--window", "--fps", 500) == 0
    assert "episode 1: return" in capsys.readouterr().out


def test_closing_the_window_ends_it(pygame: Any, pong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    def close(*_: Any) -> None:
        shown.append(1)
        raise screens.ClosedError

    monkeypatch.setattr(screens.Window, "show", close)
    assert command_line("play", pong, "--window") == 0
    assert len(shown) == 1
