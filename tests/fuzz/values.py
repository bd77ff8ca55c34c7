"""Values that programs tend to stumble over, and command lines made of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from hypothesis import strategies as st

from a3c_zoo.plugins.builtins import COMMANDS
from a3c_zoo.plugins.entries import load_object
from tests.fuzz.watch import EVIL

Words = list[str]

#: Texts that a terminal, matplotlib, Markdown, the file system or Python would obey.
OBEYED = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "a\nb",
    "a\r\x08b",
    "\u202egpj.exe",
    "\x9b31m",
    "$\\frac$",
    "$",
    "|a|\n|-|",
    "{0}",
    "%s%n",
    "[red]x[/red]",
    "[/]",
    "..",
    ".",
    "~",
    "-",
    "--",
    "a\x00b",
    "\ud800",
    "\udcff",
    "λ→日本",
    "x" * 300,
    f"gym:{EVIL}module:X-v0",
    f"{EVIL}module:make",
    "gym:",
    "atari:",
    "gym:CartPole-v1",
    "gym:CartPole-v999999999999999999999",
    "gym:a/b/c-v0",
    "cartpole",
    "a3c",
    "sb3-a2c",
]
#: Small, or so large that nobody can mean them. What lies between is legal, and takes its time.
INTEGERS = [0, 1, 2, 3, -1, 2**31, 2**62, 2**63, 2**64, 10**30, -(2**63), 10**400]
FLOATS = [0.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")]

no_paths = st.text(max_size=12).filter(lambda text: "/" not in text)
texts = st.sampled_from(OBEYED) | no_paths
numbers = st.sampled_from(
    [*map(str, INTEGERS), *map(str, FLOATS), "1e3", "0x10", "1_000", "٣", "²", "½", "+1", "1.", ""]
)
plain = st.none() | st.booleans() | st.sampled_from(INTEGERS) | st.sampled_from(FLOATS) | texts
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)

#: Words that some option takes.
_WORDS = """
    cartpole pong a3c nstep random a3c-data cpu cuda return steps seconds running final best 620 3,7 1,1 0
    envs runs plugins mine runs/mine theirs sent/theirs nothing file fifo link file/below /proc/x /dev/full /dev/null
    set.yml x.png x.csv x.svg x.gif x.mp4 x 1s 90s 1e3s 7d 9999999999d 2026-01-31 0001-01-01
"""
#: Keys of a configuration, and what is none.
_KEYS = """
    run.workers run.steps run.seed run.device run.start_method run.checkpoint_every_s run.keep_checkpoints
    run.worker_restarts run.evaluation_episodes run.evaluation_envs env.num_envs env.stack env.max_episode_steps
    agent.n_steps agent.gamma agent.epochs agent.update_samples network.name network.hidden_sizes
    network.recurrent_size network.activation optimizer.name optimizer.learning_rate optimizer.schedule num_envs
    n_steps name agent x.y.z .
"""
_yaml_values = (
    numbers | texts | st.sampled_from(["[]", "{}", "[[1]]", "&a [*a]", "!!python/name:os.system", "null", "'"])
)
_overrides = st.tuples(st.sampled_from(_KEYS.split()) | texts, st.sampled_from(["=", "==", ""]), _yaml_values).map(
    "".join
)
_any = st.sampled_from(_WORDS.split()) | numbers | texts

#: Options that wait for somebody: a window, a terminal, a training without a question.
_LEFT_OUT = {"--window", "--terminal", "--yes", "--debug"}
#: What ends a command soon; the last word counts. Without it a legal line would train for hours.
_SHORT: dict[str, Words] = {
    "train": ["--steps", "1", "--quiet"],
    "evaluate": ["--episodes", "1"],
    "play": ["--episodes", "1"],
    "tune": ["--steps", "1"],
}
#: The same for a run that goes on: it has 600 steps.
_SHORT_RESUME = ["--steps", "700", "--quiet"]


#: Name of a parameter → values that it takes.
_FITTING: dict[str, Words] = {
    "env": ["cartpole"],
    "envs": ["runs/mine", "cartpole"],
    "sources": ["runs/mine", "sent/theirs"],
    "what": ["runs", "envs", "plugins"],
    "run": ["mine", "runs/mine", "sent/theirs"],
    "runs": ["mine", "sent/theirs", "runs"],
    "resume": ["mine", "sent/theirs"],
    "agent": ["a3c", "nstep"],
    "hyperparams": ["a3c", "set.yml"],
    "overrides": ["n_steps=2", "hidden_sizes=[3]", "agent.gamma=0.5"],
    "checkpoint": ["final", "best", "0"],
    "runs_dir": ["runs", "new"],
    "out": ["x.png", "x.csv", "new"],
    "video": ["x.gif"],
    "time_limit": ["1s"],
    "time_limit_s": ["1s"],
    "since": ["7d"],
    "name": ["mine", "other"],
}


def _leaves(name: str, command: click.Command) -> Iterator[tuple[Words, click.Command]]:
    if isinstance(command, click.Group):
        for child, below in command.commands.items():
            yield [name, child], below
    else:
        yield [name], command


def _option(param: click.Option) -> st.SearchStrategy[Words]:
    names = st.sampled_from([*param.opts, *param.secondary_opts])
    if param.is_flag:
        return names.map(lambda name: [name])
    value = _overrides if "-o" in param.opts else _any
    return st.tuples(names, _mostly(_fitting(param), value)).map(list)


@st.composite
def _mostly(draw: st.DrawFn, usual: st.SearchStrategy[str], other: st.SearchStrategy[str]) -> str:
    """`one_of` would choose by the number of branches."""
    return draw(usual if draw(st.integers(0, 9)) < 7 else other)


def _fitting(param: click.Parameter) -> st.SearchStrategy[str]:
    """Values that a parameter takes, so that commands do their work in some cases."""
    if isinstance(param.type, click.Choice):
        return st.sampled_from(list(param.type.choices))
    if isinstance(param.type, click.IntRange) or param.type is click.INT:
        return st.sampled_from(["1", "2", "3"])
    return st.sampled_from(_FITTING.get(str(param.name), ["x"]))


def _line(words: Words, command: click.Command) -> st.SearchStrategy[Words]:
    options = [
        _option(each)
        for each in command.params
        if isinstance(each, click.Option) and not _LEFT_OUT.intersection(each.opts)
    ]
    arguments = [_any.map(lambda text: [text]) for each in command.params if isinstance(each, click.Argument)]
    nothing: st.SearchStrategy[Words] = st.just([])  # of a command without options, or without arguments
    parts = st.lists(st.one_of(*options, nothing), max_size=2) | st.lists(
        st.one_of(*options, *arguments, nothing), max_size=4
    )
    firsts = [_mostly(_fitting(each), _any) for each in command.params if isinstance(each, click.Argument)]
    first = st.one_of(*firsts).map(_word) if firsts else nothing
    return st.tuples(first, parts).map(
        lambda made: [*words, *made[0], *(word for part in made[1] for word in part), *_end(words[0], made[1])]
    )


def _word(text: str) -> Words:
    return [text] if text else []


def _end(name: str, parts: list[Words]) -> Words:
    given = {part[0] for part in parts if part}
    if name == "resume" or (name == "train" and "--resume" in given):
        return _SHORT_RESUME
    serial = ["--serial"] if name == "train" else []
    return serial + ([] if "--episodes" in given and name != "train" else _SHORT.get(name, []))


#: Commands that always start processes, which the watch refuses, or that become another program. They have tests of
#: their own.
_WITH_PROCESSES = ("check", "doctor", "tensorboard")
_COMMANDS = [
    leaf
    for entry in COMMANDS
    if entry.name not in _WITH_PROCESSES
    for leaf in _leaves(entry.name, load_object(entry.command))
]
_broken = st.lists(_any | st.sampled_from(["--help", "--version", "-h", "--no-such"]), max_size=3)


def _can_be_given(line: Words) -> bool:
    """Whether an operating system can pass these words to a program."""
    try:
        return not any(b"\x00" in os.fsencode(word) for word in line)
    except UnicodeEncodeError:
        return False


_lines = st.one_of(*(_line(words, command) for words, command in _COMMANDS), _broken).filter(_can_be_given)


@st.composite
def lines(draw: st.DrawFn) -> Words:
    """Whole command lines: of a command with its options, or any words."""
    return draw(_lines)


#: Names of a folder.
names = texts.filter(
    lambda text: 0 < len(text.encode(errors="replace")) < 200 and text not in (".", "..") and _can_be_given([text])
)
