"""Films of training: they are decoded again, and change nothing of what is evaluated."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.config import EnvConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.evaluation import EvaluationTask, evaluate_policy, load_policy, play_task
from a3c_zoo.runs.pictures import play_scenes
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.runs.videos import EpisodeFilm
from a3c_zoo.seeds import EVALUATOR_EVALUATIONS
from a3c_zoo.store.checkpoints import checkpoint_file, checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.evaluation_files import HEADER
from a3c_zoo.store.films import MOST_FILMS, films_by_step, keep_film
from a3c_zoo.store.run import Run
from a3c_zoo.store.trained import policy_state
from tests.test_evaluate import FirstAction
from tests.test_play import frames_of
from tests.toys import ToyVectorEnv
from tests.toys_runs import Listener, command_line, signal_self, toy_installed
from tests.waits import LIMIT_S

SERIAL = {
    "run.evaluation_every_steps": 1000,
    "run.evaluator_episodes": 3,
    "optimizer.schedule": "constant",  # one that ends with the budget would be another one with another budget
}


def train(folder: Path, name: str, film_every: int | None, steps: int, **options: Any) -> Path:
    overrides = SERIAL | options
    outcome = a3c_zoo.train(
        "cartpole", serial=True, film_every=film_every, steps=steps, runs_dir=folder, name=name, overrides=overrides
    )
    assert (outcome.reason, outcome.evaluator_fault) == ("steps", None)
    return outcome.run


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("plain"), "plain", None, 4500)


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("filmed"), "filmed", 2, 4500)


def rows(run: Path) -> list[dict[str, str]]:
    """The rows of evaluations.csv, without the seconds at which they were played."""
    with (run / "evaluations.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def evaluated(run: Path) -> list[int]:
    return sorted({int(row["step"]) for row in rows(run)})


def films(run: Path) -> list[int]:
    found = films_by_step(RunDirectory(run))
    assert sorted((run / "films").iterdir()) == list(found.values())
    return list(found)


def film_file(run: Path, step: int) -> Path:
    return run / f"films/step-{step:012d}.mp4"


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def number_of_frames(film: Path) -> int:
    return int(imageio_ffmpeg.count_frames_and_secs(str(film))[0])


def test_films_change_no_figure(plain: Path, filmed: Path) -> None:
    assert rows(plain) == rows(filmed)
    assert len(evaluated(filmed)) == 4
    assert films(filmed) == evaluated(filmed)[::2]  # the first evaluation, and then every second
    assert not (plain / "films").exists()


def test_a_film_is_that_of_the_sampled_episode_that_is_evaluated(filmed: Path, tmp_path: Path) -> None:
    registry, directory = get_registry(), Run(filmed)
    setup = RunSetup.of(registry, directory.config(registry), serial=True)
    task = EvaluationTask.of(setup, checkpoint_file(directory, "final"), EVALUATOR_EVALUATIONS, 1)
    film = tmp_path / "films/a.mp4"
    played = play_task(replace(task, film=film), lambda played: None)
    assert played.film_fault is None
    assert {mode: each.episodes for mode, each in played.by_mode.items()} == {
        mode: each.episodes for mode, each in play_task(task, lambda played: None).by_mode.items()
    }
    (episode,) = played.by_mode["sampled"].episodes
    length = episode.length
    assert length != played.by_mode["greedy"].episodes[0].length
    entry, config, state = task.entry, task.config, policy_state(directory).agent
    to_play = EpisodesToPlay(entry, config.env, 1, config.run.seed, task.number)
    pictures = [
        scene.picture
        for scene in play_scenes(load_policy(task.load, entry, task.network, config, state), to_play, False)
    ]
    shown = [*pictures[:-1:2], pictures[-1]]  # CartPole has 50 steps a second, a film 25; and the end is always shown
    frames = frames_of(film)
    assert len(pictures) == length
    assert len(frames) == len(shown)
    for frame, picture in zip(frames, shown, strict=True):
        assert np.abs(frame.astype(int) - picture).mean() < 0.6
    assert np.abs(frames[0].astype(int) - shown[-1]).mean() > 1.2  # another moment looks different


class Drawn(ToyVectorEnv):
    """Environment n is drawn as 60 · n, and lighter with every step of an episode."""

    def render(self) -> Any:
        return [np.full((48, 64, 3), 60 * each.index + 15 * each.position, np.uint8) for each in self.envs]


def make_drawn(num_envs: int, seed: int, render_mode: str | None = None) -> ToyVectorEnv:
    scripts = [[([1.0] * length, "terminated")] for length in (4, 2, 3)]
    return Drawn(num_envs, scripts=scripts, mode="NextStep")


def test_the_first_episode_of_the_first_environment(tmp_path: Path) -> None:
    """Others end before it, and it plays a second one."""
    film = EpisodeFilm(tmp_path / "a.mp4")
    to_play = EpisodesToPlay(EnvEntry("toy", f"{__name__}:make_drawn"), EnvConfig(), 7, seed=0, number=0, num_envs=3)
    played = evaluate_policy(FirstAction(), to_play, film=film)
    assert film.fault is None
    assert len(played.episodes) == 7
    assert [frame.mean() for frame in frames_of(tmp_path / "a.mp4")] == pytest.approx([15, 30, 45, 60], abs=3)


def test_a_film_is_bounded(tmp_path: Path) -> None:
    """100 steps a second and noise for 50 s: of 30 s every fourth step, and no more bytes than is said."""
    noise = np.random.default_rng(0).integers(0, 256, (960 + 750, 32, 3), np.uint8)
    film, drawn = EpisodeFilm(tmp_path / "a.mp4"), 0

    def draw() -> np.ndarray:
        nonlocal drawn
        drawn += 1
        return noise[drawn : drawn + 960]

    for step in range(5000):
        film.show(draw, 100.0, is_last=step == 4999)
    film.close()
    assert film.fault is None
    assert drawn == 750
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert count == 750
    assert seconds == pytest.approx(30, abs=0.1)
    assert frames_of(tmp_path / "a.mp4")[0].shape == (480, 16, 3)
    assert (tmp_path / "a.mp4").stat().st_size < 8.5e6


def test_a_fault_of_drawing_ends_the_film_alone(tmp_path: Path) -> None:
    film = EpisodeFilm(tmp_path / "a.mp4")

    def broken() -> np.ndarray:
        raise RuntimeError("no more paint")

    film.show(lambda: np.zeros((48, 64, 3), np.uint8), 10.0, is_last=False)
    film.show(broken, 10.0, is_last=False)
    film.show(broken, 10.0, is_last=True)
    film.close()
    assert film.fault == "RuntimeError: no more paint"
    untouched = EpisodeFilm(tmp_path / "b.mp4")
    untouched.close()
    assert untouched.fault == "nothing was played"


def test_a_disk_that_takes_no_films(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ffmpeg may write 512 bytes: the run tells of it once, and goes on as without films."""
    program = tmp_path / "ffmpeg"
    program.write_text(f'#!/bin/sh\nulimit -f 1\nexec {imageio_ffmpeg.get_ffmpeg_exe()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))
    run = train(tmp_path, "run", 1, 3000)
    assert films(run) == []
    (lost,) = events(run, "film_lost")
    assert lost["text"].startswith(f"training goes on, but a film is lost: film {run / 'films/.filmed.mp4'}: cannot be")
    assert "File too large" in lost["text"]
    assert len(evaluated(run)) == 2
    assert rows(run) == rows(plain)[: len(rows(run))]


def test_films_of_a_run_stay_spread(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.films.mkdir()
    for number in range(MOST_FILMS):
        film_file(tmp_path, 1000 * number).write_bytes(b"film")
    last = 1000 * MOST_FILMS
    for step in (last, last + 1, last + 10_000):
        directory.filmed_file.write_bytes(b"film")
        keep_film(directory, step)
        assert len(films(tmp_path)) == MOST_FILMS
    assert (films(tmp_path)[0], films(tmp_path)[-1]) == (0, last + 10_000)
    assert last not in films(tmp_path)  # 1,000 after the one before it, 1 before the next


def test_a_run_that_goes_on_from_an_earlier_step_moves_later_films_aside(filmed: Path, tmp_path: Path) -> None:
    run = shutil.copytree(filmed, tmp_path / "run")
    before = films(run)
    (run / "films/.filmed.mp4").write_bytes(b"of a session that was killed")
    a3c_zoo.train(resume=run, checkpoint=0, steps=3500)
    assert sorted(path.name for path in (run / "checkpoints/set-aside-1").glob("*.mp4")) == [
        film_file(run, step).name for step in before
    ]
    assert films(run) == before[: len(films(run))] == evaluated(run)[::2]  # the same training again
    late = run / "films/step-000000099999.mp4"  # of training after the newest checkpoint, before a crash
    late.write_bytes(b"film")
    best = (run / "checkpoints/best.pt").read_bytes()
    a3c_zoo.train(resume=run, steps=3600)
    assert (run / "checkpoints/set-aside-2/step-000000099999.mp4").read_bytes() == b"film"
    assert not late.exists()
    assert (run / "checkpoints/best.pt").read_bytes() == best


def test_a_run_without_films_goes_on_with_them(tmp_path: Path) -> None:
    """Then it has evaluations, too."""
    run = a3c_zoo.train("cartpole", serial=True, steps=300, runs_dir=tmp_path).run
    assert a3c_zoo.train(resume=run, film_every=2, steps=600).reason == "steps"
    settings = Run(run).config(get_registry()).run
    assert (settings.film_every, settings.evaluation_every_s) == (2, 10.0)
    a3c_zoo.train(resume=run, film_every=1, steps=900)
    assert Run(run).config(get_registry()).run.film_every == 1


def test_films_of_a_later_session_stop_no_resume(tmp_path: Path) -> None:
    overrides = {"run.checkpoint_every_steps": 100, "run.keep_checkpoints": None, "run.evaluator_episodes": 1}
    run = a3c_zoo.train("cartpole", serial=True, steps=300, runs_dir=tmp_path, overrides=overrides).run
    (run / "evaluations.csv").touch()  # of a session that was killed before its first checkpoint
    assert a3c_zoo.train(resume=run, film_every=1, steps=600).reason == "steps"
    first = checkpoint_steps(RunDirectory(run))[1]
    own = f"{HEADER}{first},1.0,greedy,9.0,9\n{first},1.0,sampled,9.0,9\n"
    (run / "evaluations.csv").write_text(f"{own}599,1.0,greedy,9.0,9\n599,1.0,sampled,9.0,9\n")
    assert a3c_zoo.train(resume=run, checkpoint=first, steps=400).reason == "steps"  # it is older than all evaluations
    assert (run / "evaluations.csv").read_text() == own  # of a session before it, of an older version
    assert (run / "checkpoints/set-aside-1/evaluations.csv").read_text().startswith(HEADER)


def test_a_folder_of_films_that_is_a_link(filmed: Path, tmp_path: Path) -> None:
    run = shutil.copytree(filmed, tmp_path / "run")
    shutil.rmtree(run / "films")
    (run / "films").symlink_to(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"films is a link, and links are not followed"):
        a3c_zoo.train(resume=run, steps=9000)


def config_of(**run: Any) -> Any:
    registry = get_registry()
    overrides = [f"run.{key}={value}" for key, value in run.items()]
    return resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), overrides=overrides).run


def test_films_switch_evaluations_on() -> None:
    assert config_of(film_every=3).evaluation_every_s == 10.0
    assert config_of().evaluation_every_s is None
    assert config_of(film_every=3, evaluation_every_steps=500).evaluation_every_s is None
    assert config_of(film_every=3, evaluation_every_s=60).evaluation_every_s == 60


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


@pytest.mark.usefixtures("_toy")
def test_what_is_refused_before_a_run_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(env: str, *options: object) -> str:
        runs = tmp_path / "runs"
        assert command_line("train", env, "--quiet", "--steps", 100, "--runs-dir", runs, *options) == 2
        assert not runs.exists()
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        return line

    for number in (0, -1):
        line = refusal("cartpole", "--film-every", number)
        assert line == f"Error: --film-every run.film_every: {number} — must be greater than or equal to 1"
    drawn = "Error: --film-every (run.film_every): environment 'toy' cannot be drawn: its factory has no parameter "
    assert refusal("toy", "--film-every", 1, "--serial") == f"{drawn}render_mode"
    assert refusal("toy", "--film-every", 1) == f"{drawn}render_mode"  # looked at in a child
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    line = refusal("cartpole", "-o", "run.film_every=1")
    assert line.startswith("Error: --film-every (run.film_every): a film needs imageio-ffmpeg (")
    assert line.endswith(f"): {install_extra('play')}")


@pytest.mark.parametrize(
    ("fault", "serial", "line"),
    [
        ("raise", False, "cannot be drawn: RuntimeError: no paint (in toys_env.py, line "),
        ("raise", True, "cannot be drawn: RuntimeError: no paint (in toys_env.py, line "),
        ("leave", False, "cannot be drawn: SystemExit: no display (in toys_env.py, line "),
        ("exit", False, "cannot be drawn: its process ended by itself with exit status 3"),
        ("hang", False, "was not drawn and closed within 1 s: does it hang? (limit: run.worker_timeout_s)"),
    ],
)
def test_an_environment_that_cannot_be_drawn_begins_no_run(fault: str, serial: bool, line: str, tmp_path: Path) -> None:
    env = EnvEntry("undrawn", "tests.toys_env:make_undrawn", kwargs={"fault": fault})
    limit = {"run.worker_timeout_s": 1.0} if fault == "hang" else {}
    with pytest.raises(ZooError) as caught:
        a3c_zoo.train(env, serial=serial, film_every=1, steps=10, runs_dir=tmp_path / "runs", overrides=limit)
    assert str(caught.value).startswith(f"--film-every (run.film_every): environment 'undrawn' {line}")
    assert (caught.value.exit_status, str(caught.value).count("\n")) == (2, 0)
    assert not (tmp_path / "runs").exists()


def test_a_film_beside_workers(tmp_path: Path) -> None:
    """The evaluator's process makes it."""

    def stop(progress: Any) -> None:
        if progress.evaluator is not None:
            signal_self()

    settings = {"evaluation_every_s": 0.2, "evaluation_cpu_share": 1.0, "evaluator_episodes": 2}
    outcome = a3c_zoo.train(
        "cartpole",
        film_every=1,
        time_limit_s=LIMIT_S,
        runs_dir=tmp_path,
        observer=Listener(stop),
        overrides={f"run.{key}": value for key, value in settings.items()} | {"run.stop_when_solved": False},
    )
    assert (outcome.reason, outcome.evaluator_fault) == ("interrupted", None)
    step, *_ = films(outcome.run)
    assert step == evaluated(outcome.run)[0]
    lengths = [int(row["length"]) for row in rows(outcome.run) if int(row["step"]) == step and row["mode"] == "sampled"]
    expected = {min(len({*range(0, length, 2), length - 1}), 750) for length in lengths}
    assert number_of_frames(film_file(outcome.run, step)) in expected


@pytest.mark.slow
def test_a_film_of_pong(tmp_path: Path) -> None:
    settings = {"evaluation_every_s": 1, "evaluation_cpu_share": 1.0, "evaluator_episodes": 1}
    outcome = a3c_zoo.train(
        "pong",
        film_every=1,
        time_limit_s=90,
        runs_dir=tmp_path,
        overrides={f"run.{key}": value for key, value in settings.items()},
    )
    step, *_ = films(outcome.run)
    frames = frames_of(film_file(outcome.run, step))
    assert frames[0].shape == (420, 320, 3)
    assert len(frames) == 30 * 15  # half a minute of a game
    assert (np.abs(frames[-1].astype(int) - (92, 186, 92)).max(axis=-1) < 30).any()  # the agent's bat
    assert events(outcome.run, "film_lost") == []
