"""The films of a report: real ones of real runs, small ones, and what the report says where there is none."""

from __future__ import annotations

import base64
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import a3c_zoo
from a3c_zoo.figures.measures import MeasuredRun, measure
from a3c_zoo.figures.results import results_of
from a3c_zoo.report import report_films as films
from a3c_zoo.report.pages import html, markdown
from a3c_zoo.report.report import page_of
from a3c_zoo.report.report_films import Film, Films, chosen_runs, films_of
from a3c_zoo.store.run_records import read_runs
from tests.test_compare_report import record
from tests.test_play import frames_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        a3c_zoo.train(
            "cartpole", agent="random", seed=seed, steps=600, name=f"random-{seed}", runs_dir=folder, serial=True
        )
    return folder


def measured(runs: Path) -> list[MeasuredRun]:
    return [measure(each, each.path.name) for each in read_runs([runs])[0]]


def test_the_run_in_the_middle_is_filmed() -> None:
    runs = [measure(record("a3c", seed, final=final), f"a3c-{seed}") for seed, final in enumerate([3.0, 9, 5, 7], 1)]
    runs += [measure(replace(record("random", seed), evaluations=()), f"random-{seed}") for seed in (1, 2)]
    chosen = {subject: run.measures.run for subject, run in chosen_runs(runs).items()}
    assert chosen == {
        "a3c on cartpole": "a3c-3",
        "random on cartpole": "random-1",
    }  # of 3, 5, 7, 9 the lower middle is 5


def test_a_film_in_the_page(runs: Path, tmp_path: Path) -> None:
    found = measured(runs)
    nowhere = replace(record("ppo", 1), path=tmp_path / "ppo-1")
    made = films_of([*found, measure(nowhere, "ppo-1")])
    (film,) = made.made
    assert made.missing.keys() == {"ppo on cartpole"}
    assert made.missing["ppo on cartpole"].endswith("is no run directory: meta.json cannot be read")
    told = re.fullmatch(r"random on cartpole: run random-1, an episode with a return of (\d+\.0)", film.caption)
    assert told is not None
    (tmp_path / "film.mp4").write_bytes(film.data)
    frames = frames_of(tmp_path / "film.mp4")
    assert frames[0].shape[0] == 240
    assert len(frames) > float(told[1]) / 50 * 15 - 3  # 50 steps a second, 15 pictures at most
    assert film.picture.startswith(b"\xff\xd8")
    assert len(film.data) <= films.MOST_BYTES
    page = page_of(results_of(found, {}), made)
    text = html(page, tmp_path)
    assert text.count("<video controls muted") == 1
    assert f'src="data:video/mp4;base64,{base64.b64encode(film.data).decode()}"' in text
    assert "autoplay" not in text
    assert "No film of ppo on cartpole: " in markdown(page)
    assert "The films are in the page in HTML." in markdown(page)


def test_what_is_missing_is_said_and_nothing_fails(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def why(folder: Path) -> str:
        made = films_of(measured(folder)[:1])
        assert made.made == ()
        return made.missing["random on cartpole"]

    copy = Path(shutil.copytree(runs, tmp_path / "runs"))
    shutil.rmtree(copy / "random-1" / "checkpoints")
    assert why(copy) == "run random-1 has no checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(films, "MOST_BYTES", 10)
        assert why(runs) == "its film is larger than 10 bytes"
    monkeypatch.setattr(films, "ALL_S", -1.0)
    assert why(runs) == "the others took -1 s already"
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(films, "ALL_S", 90.0)
    assert why(runs).startswith("it needs imageio-ffmpeg")


def test_a_film_that_takes_too_long_is_cut_off(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast machine may have its first pictures by then."""
    monkeypatch.setattr(films, "LIMIT_S", 0.0)
    made = films_of(measured(runs)[:1])
    if made.made:
        assert [film.caption for film in made.made] == ["random on cartpole: run random-1, the beginning of an episode"]
    else:
        assert made.missing == {"random on cartpole": "it took too long"}


def test_the_same_reason_is_said_once() -> None:
    runs = [measure(record(name, 1), name) for name in ("a3c", "ppo")]
    reason = "it needs imageio-ffmpeg"
    page = page_of(results_of(runs, {}), Films((), {"a3c on cartpole": reason, "ppo on cartpole": reason}))
    (section,) = (each for each in page.sections if each.title == "Films")
    assert section.texts == ["No film of a3c on cartpole and ppo on cartpole: it needs imageio-ffmpeg."]
    assert all(each.title != "Films" for each in page_of(results_of(runs, {})).sections)


def test_texts_of_strangers_are_escaped_in_captions() -> None:
    film = Film('a3c on cartpole "><script>alert(1)</script>', b"x", b"y")
    page = page_of(results_of([measure(record("a3c", 1), "a3c")], {}), Films((film,)))
    assert "<script" not in html(page, Path())
