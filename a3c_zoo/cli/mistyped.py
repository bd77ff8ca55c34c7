"""What a command line has that no command takes: other programs' options, and values that a blank has torn apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from a3c_zoo.errors import ZooError, did_you_mean
from a3c_zoo.synonyms import ONE_DASH, keys_for, option_cure, pairs_cure, value_for

#: What looks like a value and like no environment: a number, a list, a word of YAML.
_VALUE = re.compile(r"[-+]?[\d.][\w.+-]*|[\[{].*|true|false|null|auto", re.IGNORECASE)
#: Keys that only the agents of libraries have.
OF_LIBRARIES = ("agent.torch_threads", "agent.vec_env")
_BRACKETS = {"[": "]", "{": "}", "(": ")"}


def unknown_option(option: str, given: Sequence[str], ctx: click.Context, is_ours: bool) -> str:
    """The error for an option that a command does not have, with what to type.

    Args:
        option: as click names it. given: the whole command line. ctx: that of the command. is_ours: whether the
            command is one of a3c-zoo: nobody knows what the words of a plugin's command mean.
    """
    options = {name for param in ctx.command.params for name in param.opts if name.startswith("-")}
    command = ctx.command_path.partition(" ")[2]
    if is_ours and len(option) == 2:
        option = _whole_word(option, given)
    told = f"No such option '{option}'."
    near = did_you_mean(option, [name for name in options if name.startswith("--")])
    if not is_ours:
        return f"{told}{near} See: {ctx.command_path} --help"
    value = _value_of(option, given)
    if "-o" in options and (cure := pairs_cure(option, _words_behind(option, given))):
        return f"{told} {cure}"
    of_key = _key_cure(option, value, options, given)
    of_option = option_cure(option, value, options, command, _agents())
    # `--eval-episodes` of train is a key; `--episodes` is another thing there.
    cure = of_key or of_option if "-o" in options else of_option or of_key
    if cure:
        return f"{told} {cure}"
    return f"{told}{near} See: {ctx.command_path} --help"


def usage_cure(message: str, given: Sequence[str], ctx: click.Context | None) -> str | None:
    """What to type for a command line whose words no option and no argument takes; None if nobody knows.

    message: click's. given, ctx: as in `unknown_option`; some errors of click have no context.
    """
    if message.startswith("Option '--resume' requires"):
        return "Type: a3c-zoo resume"
    if ctx is None:
        return None
    options = {name for param in ctx.command.params for name in param.opts}
    if message.startswith("Got unexpected extra argument") and "--agent" in options:
        agents = [word for word in given if word in _agents()]
        return f"Type: --agent {agents[0]}" if agents else None
    if message.startswith("No such command") and ctx.command_path.endswith(" show") and given:
        from a3c_zoo.plugins.registry import get_registry
        from a3c_zoo.plugins.typed_names import quiet_env_name

        registry = get_registry()
        word = message.partition("'")[2].rpartition("'")[0]
        name = quiet_env_name(registry, word)
        if name in registry.envs or name.partition(":")[0] in registry.families:
            return f"Type: a3c-zoo show hyperparams {shlex.quote(word)}"
    return None


def _agents() -> list[str]:
    from a3c_zoo.plugins.registry import get_registry

    return [*get_registry().agents]


def _value_of(option: str, given: Sequence[str]) -> str | None:
    """The value that follows an option, behind a sign of equality or as the next word; None without one."""
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name != option and not (len(option) == 2 and name.startswith(option) and word[1:2] != "-"):
            continue
        if equals:
            return value
        if name != option:  # -n100
            return name[2:]
        following = given[place + 1] if place + 1 < len(given) else "-"
        return None if following.startswith("-") else following
    return None


def _whole_word(option: str, given: Sequence[str]) -> str:
    """`-conf` for `-c`: click reads a long option with one dash as several short ones."""
    words = [word for word in given if word in ONE_DASH and word.startswith(option)]
    return words[0] if words else option


def _words_behind(option: str, given: Sequence[str]) -> list[str]:
    """The words that follow an option, and the value behind its sign of equality."""
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name == option:
            return [*([value] if equals else []), *given[place + 1 :]]
    return []


def _key_cure(option: str, value: str | None, options: set[str], given: Sequence[str]) -> str | None:
    """What to type for an option that is a key of the configuration here; None if it is none."""
    if not (keys := keys_for(option)):
        return None
    from a3c_zoo.config.models import TRAIN_OPTIONS

    is_library = any(word.startswith(("sb3-", "recurrent-")) for word in given)
    if keys[0] in OF_LIBRARIES and not is_library:
        return None
    key = keys[-1] if is_library else keys[0]
    text = value_for(option, value) or "VALUE"
    section, _, name = key.partition(".")
    own = TRAIN_OPTIONS[name].name if section == "run" and name in TRAIN_OPTIONS else None
    if own in options:
        unit = "s" if name.endswith("_s") and text[-1:].isdecimal() else ""
        return f"Type: {own} {shlex.quote(text + unit)}"
    if "-o" in options:
        return f"Type: -o {shlex.quote(f'{key}={text}')}"
    return None


def refuse_torn_values(given: Sequence[str]) -> None:
    """Raises ZooError for a value of `-o` that blanks have torn apart: `-o n_steps = 5`, `-o sizes=[64, 64]`.

    So for a sign of equality too much: `-o=n_steps=5`.
    """
    if "-optimize" in given:  # else it is an override `ptimize`
        raise ZooError(f"No such option '-optimize'. {option_cure('-optimize', None, (), given[0])}")
    for place, text in _overrides(given):
        rest = given[place + 1 :]
        if text.startswith("=") and "=" in text.strip("="):
            cure = shlex.quote(text.lstrip("="))
            raise ZooError(f"-o{text}: a blank stands behind -o, and no sign of equality. Type: -o {cure}")
        joined = _joined(text, rest)
        if joined is not None:
            shown = shlex.join([text, *rest[: joined[1]]])
            cure = f"Type: -o {shlex.quote(joined[0])}"
            raise ZooError(f"-o {shown}: blanks have torn the value apart. {cure}")


def _overrides(given: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Place and text of each `KEY=VALUE` behind `-o`."""
    for place, word in enumerate(given):
        if word == "--":
            return
        if word == "-o" and place + 1 < len(given):
            yield place + 1, given[place + 1]
        elif word.startswith("-o="):
            yield place, word.removeprefix("-o")


def _ends_with_its_only_sign(text: str) -> bool:
    """Whether `KEY=` lacks its value. `KEY=abc=` has one."""
    return text.endswith("=") and text.count("=") == 1


def _joined(text: str, rest: Sequence[str]) -> tuple[str, int] | None:
    """The value as it was meant, and how many of the following words belong to it; None if it is whole.

    A bracket that no following word closes is a part of the value, such as that of the text `a (b`.
    """
    following = rest[0] if rest else "-"
    words = 0
    if following == "=" and len(rest) > 1:
        text, words = f"{text}={rest[1]}", 2
    elif following.startswith("=") or (_ends_with_its_only_sign(text) and not following.startswith("-")):
        text, words = f"{text}{following}", 1
    elif "=" not in text and _VALUE.fullmatch(following):
        text, words = f"{text}={following}", 1
    closed, more = text, words
    while _is_open(closed) and more < len(rest):
        closed, more = f"{closed} {rest[more]}", more + 1
    if not _is_open(closed):
        text, words = closed, more
    return (text, words) if words else None


def _is_open(text: str) -> bool:
    """Whether a bracket of a value is not closed."""
    _, _, value = text.partition("=")
    return any(value.count(left) > value.count(right) for left, right in _BRACKETS.items())
