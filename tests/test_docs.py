"""The pages: their links, the file names on them, the tables generated from code, and the code that they show."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from contextlib import chdir
from pathlib import Path

import click
import pytest

import a3c_zoo
import a3c_zoo.agents
import a3c_zoo.config
import a3c_zoo.engines
import a3c_zoo.learning
import a3c_zoo.testing
from a3c_zoo import ZooError, errors, records
from a3c_zoo.agents.context import AgentState
from a3c_zoo.cli.main import cli
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.store.checkpoints import PolicyState, RunState
from a3c_zoo.testing import plugin_distribution
from benchmarks import gallery, zoo_table
from tests import llms, reference_pages
from tests.toys_runs import command_line, installed_here
from tests.wheels import GRIDWORLD, PPO, ROOT

DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md"), *ROOT.glob("*.md"), GRIDWORLD / "README.md", PPO / "README.md"})
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    """A page without its fenced blocks, in which nothing is a link or a heading."""
    return re.sub(r"^```.*?^```$", "", text_of(path), flags=re.S | re.M)


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(path), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", NAMES)
def test_every_link_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose_of(path)):
        other = (path.parent / target).resolve() if target else path
        assert other.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors_of(other), f"{page} links to {target}#{anchor}"


def test_the_index_lists_every_page() -> None:
    reports = DOCS / "reports"
    wanted = {path for path in DOCS.rglob("*.md") if reports not in path.parents} - {DOCS / "README.md"}
    listed = re.findall(r"\]\(([^)#\s]+)\)", text_of(DOCS / "README.md"))
    assert wanted <= {(DOCS / link).resolve() for link in listed}


@pytest.mark.parametrize("page", NAMES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    """A path in backticks with a folder and an ending, below the root or `a3c_zoo`."""
    for name in re.findall(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+\.py)\b", prose_of(ROOT / page)):
        places = (ROOT, ROOT / "a3c_zoo", GRIDWORLD, GRIDWORLD / "src", ROOT / "plugins")
        is_example = name.startswith(("a3c_zoo_maze/", "src/"))
        assert is_example or any((place / name).is_file() for place in places), f"{page} names {name}"


def test_the_front_page_of_the_docs_begins_as_readme() -> None:
    """What it is, the picture, and the three commands."""
    readme, front = text_of(ROOT / "README.md"), text_of(DOCS / "README.md")
    first_screen = readme.partition("`ADDRESS`")[0].replace("](docs/", "](")
    assert "$ git clone ADDRESS a3c-zoo" in first_screen
    assert front.startswith(first_screen)


def test_readme_and_continuous_integration_run_the_same_tests() -> None:
    """`make test`. README has no count of tests, which each change would make wrong."""
    readme = text_of(ROOT / "README.md")
    assert "`make test` runs" in readme
    assert text_of(ROOT / ".ci" / "run").splitlines()[-1] == "exec make test"
    assert not re.search(r"\d+ (passed|skipped)", readme)


@pytest.mark.parametrize(
    "page", ["architecture.md", "benchmarks.md", "explanation/comparison.md", "explanation/experiments.md"]
)
def test_a_long_page_begins_with_what_is_asked(page: str) -> None:
    """A summary, and a table of questions or results with links, before the first section; and few have the patience
    for more than 5,500 words."""
    beginning = text_of(DOCS / page).partition("\n## ")[0]
    assert len(re.findall(r"^\| .*\]\(", beginning, re.M)) >= 7
    assert len(text_of(DOCS / page).split()) < 5500


# Commands

#: A piece of code that is a command of a3c-zoo, in a console block, an indented block or in a line of text.
COMMAND = re.compile(r"(?:^(?:\$|   ) |`)(?:\w+=\S+ )?(a3c-zoo [a-z][^`\n]*)", re.M)


def commands_of(page: Path) -> list[list[str]]:
    """The commands on a page, each as its words up to a comment, a pipe or what follows."""
    found = (re.split(r" #|[|;&)]| … ", line)[0] for line in COMMAND.findall(text_of(page)))
    quoted = (re.sub(r"(['\"]).*?\1", "QUOTED", line) for line in found)
    return [line.split() for line in quoted]


@pytest.mark.parametrize("page", NAMES)
def test_every_option_that_a_page_types_exists(page: str) -> None:
    for _, *words in commands_of(ROOT / page):
        command: click.Command | None = cli
        options = {"--plugin", "--debug", "--help", "-h"}
        while isinstance(command, click.Group) and words and words[0].isascii() and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0))
        if command is None:  # of a plugin, or what an error message shows
            continue
        options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        typed = {word.partition("=")[0].rstrip(".,:") for word in words if word.startswith("-") and word.strip("-")}
        assert typed <= options, f"{page}: a3c-zoo {command.name}"


@pytest.mark.parametrize("page", ["README.md", "docs/faq.md", "docs/from-rl-zoo.md", "docs/classics.md"])
def test_every_key_that_a_page_types_exists(page: str) -> None:
    text = text_of(ROOT / page).replace("env.kwargs.", "KWARGS.")
    keys = re.findall(r"-o '?(?:[a-z]\w*\.)*([a-z]\w*)=", text)
    known = set(re.findall(r"^\| `\w+\.(\w+)` \|", text_of(DOCS / "reference/configuration.md"), re.M))
    assert set(keys) <= known


# What is generated from code


@pytest.mark.parametrize("page", ["reference/commands.md", "reference/configuration.md", "gallery.md"])
def test_the_generated_part_is_what_the_code_says(page: str) -> None:
    for name in cli.list_commands(click.Context(cli)):  # as after a command line, which adds an option to its command
        cli.get_command(click.Context(cli), name)
    wanted = reference_pages.pages()[page].strip("\n") + "\n"
    assert reference_pages.generated_part(page) == wanted, "run: python -m tests.reference_pages"


@pytest.mark.parametrize(
    ("heading", "record", "left_out"),
    [
        ("## outcome.json", Outcome, {"run"}),
        ("### An evaluation", Evaluation, set()),
        ("## Checkpoints", AgentState, {"model", "resumes"}),  # a table of its own keys; called `session`
        ("## Checkpoints", RunState, set()),
        ("## Checkpoints", PolicyState, set()),
    ],
)
def test_the_page_of_the_run_directory_has_every_key(heading: str, record: type, left_out: set[str]) -> None:
    section = text_of(DOCS / "reference/run-directory.md").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    named = {key for cell in re.findall(r"^\| (`.+?`) \|", section, re.M) for key in re.findall(r"`(\w+)`", cell)}
    assert set(record.__annotations__) - left_out <= named


def test_the_notebook_is_the_tutorial() -> None:
    assert text_of(reference_pages.NOTEBOOK) == reference_pages.notebook(), "run: python -m tests.reference_pages"


def test_the_gallery_begins_with_its_films() -> None:
    page = text_of(DOCS / "gallery.md")
    films = re.findall(r'^<a href="#([^"]+)"><img src="(gallery/[^"]+\.gif)"', page.partition("\n## ")[0], re.M)
    assert [film for _, film in films] == [f"gallery/{subject.name}.gif" for subject in gallery.SUBJECTS]
    assert {anchor for anchor, _ in films} <= anchors_of(DOCS / "gallery.md")
    assert all((DOCS / film).is_file() for _, film in films)


def test_the_list_for_language_models_has_every_page() -> None:
    """Their titles are those of the site, and each has a sentence."""
    assert llms.FILE.read_text(encoding="utf-8") == llms.llms_text(), "run: python -m tests.reference_pages"
    lines = [line for line in llms.llms_text().splitlines() if line.startswith("- ")]
    found = [re.fullmatch(r"- \[[^\]]+\]\(([^)]+)\): .{10,}", line) for line in lines]
    assert all(found), lines
    pages = {path.relative_to(llms.DOCS).as_posix() for path in llms.DOCS.rglob("*.md")}
    assert {match[1] for match in found if match} == pages


def test_the_first_sentence_of_a_page() -> None:
    page = "# Title\n\n![a](b.png)\n\n```sh\nx\n\ny\n```\n\n| a |\n\nA **bold** [word](x.md) here. Another one.\n"
    assert llms.first_sentence(page) == "A bold word here."


def test_the_gallery_is_what_its_program_makes() -> None:
    """The commands that made each film are those of the program today, and every film is there and small."""
    made = json.loads(text_of(gallery.DATA))
    assert [each["name"] for each in made] == [subject.name for subject in gallery.SUBJECTS]
    sizes = {path.name: path.stat().st_size / 1000 for path in gallery.FOLDER.iterdir()}
    assert sizes.keys() == {
        "gallery.json",
        *(f"{subject.name}{suffix}" for subject in gallery.SUBJECTS for suffix in (".gif", ".svg")),
    }
    for each in made:
        if (file := gallery.TRAINED / each["name"] / "outcome.json").exists():
            outcome = json.loads(text_of(file))
            keys = ("episodes", "mean_return", "std_return")
            told = {"steps": outcome["steps"], **{key: outcome["evaluation"][key] for key in keys}}
            assert told == {key: each[key] for key in told}, each["name"]
    assert max(sizes.values()) <= gallery.LARGEST_FILE_KB
    assert sum(sizes.values()) <= gallery.LARGEST_FOLDER_KB


def test_an_agent_below_rl_zoos_a2c_says_why() -> None:
    """By its own figures, which are those of sampled actions."""
    made = json.loads(text_of(gallery.DATA))
    below = {
        each["name"]: each["weaknesses"]
        for each in made
        if (a2c := gallery.published(each["env"]).get("a2c")) and each["mean_return"] < a2c.mean
    }
    assert {"space-invaders-a3c", "bipedal-walker-a3c"} <= below.keys()
    assert [name for name, told in below.items() if "RL Zoo's A2C" not in told] == []


def test_the_most_probable_actions_are_those_of_the_same_run() -> None:
    """Runs that began in the same second are told apart by their seeds."""
    figures = zoo_table.read_figures(zoo_table.FIGURES["table"])
    made = {each["name"]: each for each in json.loads(text_of(gallery.DATA)) if each["greedy"]}
    assert len(made) >= 15
    for each in made.values():
        same = [run for run in figures if (run.env, run.seed, run.steps) == (each["env"], each["seed"], each["steps"])]
        assert [[run.greedy_mean, run.greedy_std] for run in same] == [each["greedy"]]
        assert same[0].sampled_mean == pytest.approx(each["mean_return"], abs=1e-3)


def test_the_cards_of_the_gallery_are_those_of_the_distribution() -> None:
    told = gallery.weaknesses()
    for each in json.loads(text_of(gallery.DATA)):
        assert each["weaknesses"] == told.get(each["name"], ""), each["name"]


def public_names() -> list[str]:
    modules = (a3c_zoo, a3c_zoo.agents, a3c_zoo.config, a3c_zoo.engines, a3c_zoo.learning, a3c_zoo.testing)
    found = [name for module in modules for name in module.__all__]
    found += [name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, ZooError)]
    return found + [name for name, each in vars(records).items() if getattr(each, "__module__", "") == records.__name__]


@pytest.mark.parametrize("name", sorted(set(public_names())))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`{name}[`(]", text_of(DOCS / "reference" / "python-api.md"))


def test_the_reference_lists_its_modules_and_the_models_to_derive_from() -> None:
    page = text_of(DOCS / "reference" / "python-api.md")
    listed = re.findall(r"^\| `(a3c_zoo[.\w]*)` \|", page, re.MULTILINE)
    assert listed == list(dict.fromkeys(re.findall(r"^## (a3c_zoo[.\w]*)", page, re.MULTILINE)))
    models = re.findall(r"^\| `(\w+Config)` \|", page.partition("models from the first six;")[2], re.MULTILINE)[:6]
    assert set(models) == {name for name in a3c_zoo.config.__all__ if name.endswith("Config")} - {"Config", "RunConfig"}


# The code that the pages show

#: A fenced block of code, after a line that names its file: "`path`:", or "`path`, excerpt:".
BLOCK = re.compile(
    r"(?:`(?P<path>[^`\n]+)`(?P<excerpt>, excerpt)?:\n\n)?```(?P<language>\w+)\n(?P<code>.*?)```\n", re.S
)
ENVIRONMENT_PAGE = text_of(DOCS / "how-to" / "write-an-environment.md")
BLOCKS = [match.groupdict() for match in BLOCK.finditer(ENVIRONMENT_PAGE) if match["language"] != "console"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block['path']}:{block['code'][:20].strip()}")
def test_each_block_is_what_its_file_holds(block: dict[str, str]) -> None:
    assert block["path"], f"no file is named before\n{block['code']}"
    content = text_of(GRIDWORLD / block["path"])
    if block["excerpt"]:
        assert f"\n{block['code']}" in f"\n{content}"
    else:
        assert block["code"] == content


@pytest.mark.parametrize("path", ["src/a3c_zoo_ppo/__init__.py", "src/a3c_zoo_ppo/agent.py"])
def test_the_agent_page_shows_the_whole_plugin(path: str) -> None:
    assert f"`{path}`:\n\n```python\n{text_of(PPO / path)}```\n" in text_of(DOCS / "how-to" / "write-an-agent.md")


def test_every_file_has_its_place_on_the_page() -> None:
    source = GRIDWORLD / "src" / "a3c_zoo_gridworld"
    files = {path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    missing = [path.name for path in files if path.relative_to(source).as_posix() not in ENVIRONMENT_PAGE]
    assert missing == []


def test_who_follows_the_page_has_every_line_of_code() -> None:
    for path in (GRIDWORLD / "src" / "a3c_zoo_gridworld").rglob("*.py"):
        blocks = [block["code"] for block in BLOCKS if (GRIDWORLD / str(block["path"])) == path]
        lines = [line for block in blocks for line in block.splitlines() if line]
        if path.name != "__init__.py":  # these hold a docstring
            assert lines == [line for line in text_of(path).splitlines() if line]


def install_page(page: str, folder: Path) -> None:
    """Writes the modules that a how-to page shows; `…_plugin.py` is the one that an entry point names."""
    folder.mkdir()
    for block in BLOCK.finditer(text_of(DOCS / "how-to" / page)):
        if (block["path"] or "").endswith("_plugin.py"):
            plugin_distribution(folder, block["path"].removesuffix(".py").replace("_", "-"), block["code"])
        elif (block["path"] or "").endswith(".py") and "/" not in block["path"]:
            (folder / block["path"]).write_text(block["code"], encoding="utf-8")


def test_the_agent_of_a_page_says_in_which_actions_it_acts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_page("write-an-agent.md", tmp_path / "installed")
    with chdir(tmp_path), installed_here(tmp_path / "installed"):
        assert command_line("train", "gym:Pendulum-v1", "--agent", "hill-climbing", "--steps", 400, "--quiet") == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "Error: agent 'hill-climbing' acts in Discrete spaces; environment 'gym:Pendulum-v1' has Box("
    )


@pytest.mark.parametrize("page", ["write-a-network.md", "write-an-optimizer.md"])
def test_the_project_of_a_page_names_its_modules(page: str) -> None:
    blocks = {match["path"]: match["code"] for match in BLOCK.finditer(text_of(DOCS / "how-to" / page))}
    project = tomllib.loads(blocks["pyproject.toml"])
    modules = [path.removesuffix(".py") for path in blocks if path and path.endswith(".py") and "/" not in path]
    assert project["build-system"]["requires"] == ["setuptools>=77"]
    assert {*project["project"]} == {"name", "version", "dependencies", "entry-points"}
    assert sorted(project["tool"]["setuptools"]["py-modules"]) == sorted(modules)
    assert {*project["project"]["entry-points"]["a3c_zoo"].values()} < {*modules}


@pytest.mark.parametrize(
    ("page", "options"),
    [
        ("write-an-agent.md", ["--agent", "hill-climbing"]),
        ("write-an-agent.md", ["--agent", "patient", "-o", "rollouts=2", "-o", "num_envs=4"]),
        ("write-an-agent.md", ["--agent", "vtrace", "-o", "epochs=2", "-o", "reward_scale=auto"]),
        ("write-a-network.md", ["-o", "network.name=wide", "-o", "network.units=8", "--serial"]),
        ("write-a-network.md", ["-o", "network.name=wide", "-o", "recurrent=gru", "-o", "dropout=0.1", "--serial"]),
        ("write-an-optimizer.md", ["-o", "optimizer.name=heavy-ball", "-o", "momentum=0.8", "--serial"]),
    ],
)
def test_the_plugin_of_a_page_trains_and_plays(page: str, options: list[str], tmp_path: Path) -> None:
    install_page(page, tmp_path / "installed")
    with chdir(tmp_path), installed_here(tmp_path / "installed"):
        assert command_line("train", "cartpole", *options, "--steps", 400, "--name", "tried", "--quiet") == 0
        assert command_line("train", "--resume", "tried", "--steps", 800, "--quiet") == 0
        assert command_line("evaluate", "tried", "--episodes", 2) == 0
