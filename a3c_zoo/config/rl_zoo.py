"""Hyperparameter files of RL Baselines3 Zoo: recognised, and translated where a key exists here.

Such a file has an entry for each Gymnasium id, and perhaps `atari` and `default`. Its keys are those of
stable-baselines3's constructors and some of rl_zoo3's own (rl_zoo3/exp_manager.py). Texts of Python in it are
parsed, never run.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from a3c_zoo.config.models import PLUGINS
from a3c_zoo.config.yaml import Document, Location, OthersDocument, YamlFault, display
from a3c_zoo.errors import MOST_NAMES, did_you_mean
from a3c_zoo.plugins.entries import SECTIONS

#: Top-level keys of the zoo's own files.
_OURS: Final = {*SECTIONS, PLUGINS, "search", "tuning", "env_name", "agent_name"}
#: An entry of RL Zoo has at least one of these keys.
_MARKS: Final = {"n_timesteps", "n_envs", "policy", "normalize", "env_wrapper", "policy_kwargs"}
#: The most characters of a text of Python.
_MOST_PYTHON: Final = 2000
_LINEAR: Final = re.compile(r"lin(?:ear)?_(.+)")
_ATARI: Final = re.compile(r"ALE/\w+-v\d+|\w+NoFrameskip-v\d+")
#: VecNormalize's two halves, observations and rewards → `agent.normalize`.
_NORMALIZE: Final[Mapping[tuple[bool, bool], bool | str]] = {
    (True, True): True,
    (True, False): "observations",
    (False, True): "rewards",
    (False, False): False,
}
#: Argument of stable-baselines3's `AtariWrapper` → the zoo's key; and the values of those that differ there
#: by default.
_ATARI_KEYS: Final = {
    "terminal_on_life_loss": "env.life_loss",
    "clip_reward": "agent.clip_rewards",
    "screen_size": "env.frame_size",
    "frame_skip": "env.frame_skip",
    "noop_max": "env.noop_max",
    "action_repeat_probability": "env.sticky_actions",
}
_ATARI_DEFAULTS: Final = {"terminal_on_life_loss": True, "clip_reward": True}
#: A key of rl_zoo3 without a counterpart here → what to do.
_CURES: Final = {
    "env_kwargs": "a factory makes this environment; gym:ID takes them as env.kwargs",
    "callback": "a plugin's run hook does the same: docs/reference/hooks.md",
    "vec_env_wrapper": "-o 'env.wrappers=[module:Class]' takes Gymnasium's wrappers",
}


class Translation(NamedTuple):
    """A file of RL Zoo in the zoo's own keys.

    Attributes:
        document: the values, each with its line; or a fault.
        left_out: a sentence for each key that has none here: where it stands, and what to do.
    """

    document: Document
    left_out: tuple[str, ...]


def translated(
    raw: bytes, source: str, env_id: str | None, is_vector: bool, fields: Mapping[str, set[str]]
) -> Translation | None:
    """Translates the entry for an environment; None for a file that is not RL Zoo's.

    Args:
        source: the file's name in messages.
        env_id: the environment's id in Gymnasium. is_vector: whether a factory makes it, so that it takes no
            wrappers.
        fields: section → the keys that it has, of "run", "env" and "agent".
    """
    entries = _entries(raw)
    if entries is None:
        return None
    their_name = (env_id or "").rpartition(":")[2]
    names = [their_name, "default"]
    if _ATARI.fullmatch(their_name):
        names.insert(1, "atari")
    chosen = next((name for name in names if name in entries), None)
    if "policy" not in fields["agent"]:
        return _refused(
            source, "its values are those of stable-baselines3's algorithms: name one, as --agent sb3-a2c"
        )
    if chosen is None:
        text = f"it has no entry for {their_name or 'an environment without a Gymnasium id'}."
        some = f"{', '.join(sorted(entries)[:MOST_NAMES])}{', …' if len(entries) > MOST_NAMES else ''}"
        return _refused(source, f"{text}{did_you_mean(their_name, entries)} It has: {some}")
    entry = _Entry(source, fields, f"gym:{env_id}" if is_vector and env_id else None)
    entry.put("env.num_envs", 1, entries[chosen].line)  # rl_zoo3's default
    for key, value in entries[chosen].value.items():
        entry.translate(key, value.value, value.line)
    entry.leave_out_wrappers()
    return Translation(entry.document(), tuple(entry.left_out))


def _refused(source: str, why: str) -> Translation:
    fault = YamlFault(0, (), f"this is a file of RL Baselines3 Zoo, and {why}")
    return Translation(Document(source, {}, {}, (fault,)), ())


class _At(NamedTuple):
    """A value and its line."""

    value: Any
    line: int


def _entries(raw: bytes) -> dict[str, _At] | None:
    """The entries of a file of RL Zoo, each with its values; None for another file."""
    entries: dict[str, _At] = {}
    try:
        document = OthersDocument(raw)
        for name, (line, node) in document.pairs(document.root).items():
            values = document.pairs(node)
            if name in _OURS or _MARKS.isdisjoint(values):
                return None
            entries[name] = _At(
                {key: _At(document.plain(value), at) for key, (at, value) in values.items()}, line
            )
    except ValueError:
        return None
    return entries or None


class _Entry:
    """Gathers what an entry becomes."""

    def __init__(self, source: str, fields: Mapping[str, set[str]], other_name: str | None) -> None:
        self.left_out: list[str] = []
        self._source = source
        self._fields = fields
        self._other_name = other_name
        self._data: dict[str, dict[str, Any]] = {}
        self._lines: dict[Location, int] = {}
        self._wrappers: list[str] = []
        self._wrappers_line = 0

    def document(self) -> Document:
        return Document(self._source, self._data, self._lines, ())

    def put(self, label: str, value: Any, line: int) -> bool:
        """Sets a value; False if there is no such key."""
        section, _, key = label.partition(".")
        if key not in self._fields[section]:
            return False
        self._data.setdefault(section, {})[key] = value
        self._lines.setdefault((section,), line)
        self._lines[section, key] = line
        return True

    def leave_out(self, key: str, value: Any, line: int, cure: str) -> None:
        self.left_out.append(f"{self._source}:{line} {key}: {display(value)} is left out: {cure}")

    def translate(self, key: str, value: Any, line: int) -> None:
        """Adds one of an entry's values."""
        match key:
            case "n_timesteps" | "n_envs":
                if key == "n_timesteps":
                    label = "run.steps"
                else:
                    label = "env.num_envs"
                is_whole = isinstance(value, float) and value.is_integer()
                self.put(label, int(value) if is_whole else value, line)
            case "normalize":
                self._normalize(value, line)
            case "env_kwargs" if isinstance(value, dict) and not self._other_name:
                self.put("env.kwargs", value, line)
            case "policy_kwargs":
                self._policy(value, line)
            case "env_wrapper":
                for wrapper in value if isinstance(value, list) else [value]:
                    if isinstance(wrapper, list):
                        self.leave_out(
                            key, wrapper, line, "a wrapper is one name, or a name with its arguments"
                        )
                        continue
                    if isinstance(wrapper, dict):
                        named = wrapper
                    else:
                        named = {wrapper: None}
                    for path, arguments in named.items():
                        if path is not None:
                            self._wrapper(str(path), arguments or {}, line)
            case "frame_stack":
                if not self.put("env.frame_stack", value, line):
                    self._other_wrapper(
                        "gymnasium.wrappers:FrameStackObservation", {"stack_size": value}, line
                    )
            case _:
                self._plain(key, value, line)

    def _plain(self, key: str, value: Any, line: int) -> None:
        """Translates a key that has the same name here. A schedule (`lin_7e-4`) is a value and a key of its own."""
        if (
            isinstance(value, str)
            and (linear := _LINEAR.fullmatch(value))
            and isinstance(_number(linear[1]), float)
        ):
            if self.put(f"agent.{key}_schedule", "linear", line):
                value = _number(linear[1])
        elif key == "train_freq" and isinstance(value, list) and value[1:] == ["step"]:
            value = value[0]
        elif isinstance(value, str):
            value = _number(value)
        has_value = not isinstance(value, list | dict | str) or key == "policy"
        if not has_value or not self.put(f"agent.{key}", value, line):
            self.leave_out(key, value, line, _CURES.get(key, "there is no such key here"))

    def _normalize(self, value: Any, line: int) -> None:
        halves = _python(value) if isinstance(value, str) else value
        if isinstance(halves, bool):
            halves = {"norm_obs": halves, "norm_reward": halves}
        if not isinstance(halves, dict):
            self.leave_out(
                "normalize", value, line, "it is neither true, false nor a dict of norm_obs and norm_reward"
            )
            return
        chosen = tuple(bool(halves.pop(name, True)) for name in ("norm_obs", "norm_reward"))
        self.put("agent.normalize", _NORMALIZE[chosen[0], chosen[1]], line)
        for name, setting in halves.items():
            self.leave_out(f"normalize.{name}", setting, line, "VecNormalize has its own default here")

    def _policy(self, value: Any, line: int) -> None:
        if isinstance(value, str):
            arguments = _python(value)
        else:
            arguments = value
        if not isinstance(arguments, dict):
            self.leave_out("policy_kwargs", value, line, "only a dict of plain values is read")
            return
        if arguments.get("optimizer_class") == _Name("RMSpropTFLike"):
            options = arguments.get("optimizer_kwargs") or {}
            if isinstance(options, dict) and self.put("agent.rms_prop_tf_like", True, line):
                self.put("agent.rms_prop_eps", options.get("eps", 1e-8), line)
                for name, option in options.items():
                    if name != "eps":
                        self.leave_out(
                            f"policy_kwargs.optimizer_kwargs.{name}",
                            option,
                            line,
                            "there is no such key here",
                        )
                arguments = {
                    key: setting for key, setting in arguments.items() if not key.startswith("optimizer_")
                }
        for key, option in arguments.items():
            label = "activation" if key == "activation_fn" else key
            if isinstance(option, _Name):
                plain = option.text.rpartition(".")[2].lower()
            else:
                plain = option
            if (label != "activation" and isinstance(option, _Name)) or not self.put(
                f"agent.{label}", plain, line
            ):
                self.leave_out(
                    f"policy_kwargs.{key}", getattr(option, "text", option), line, "there is no such key here"
                )

    def _wrapper(self, path: str, arguments: Any, line: int) -> None:
        """One wrapper, by its path, with its arguments."""
        name = path.rpartition(".")[2]
        is_limit = (
            name == "TimeLimit" and isinstance(arguments, dict) and {*arguments} == {"max_episode_steps"}
        )
        if is_limit and self.put("env.max_episode_steps", arguments["max_episode_steps"], line):
            return
        if name == "AtariWrapper" and isinstance(arguments, dict) and "life_loss" in self._fields["env"]:
            for argument, value in {**_ATARI_DEFAULTS, **arguments}.items():
                if not self.put(_ATARI_KEYS.get(argument, "env."), value, line):
                    self.leave_out(f"env_wrapper.{argument}", value, line, "there is no such key here")
            self.put("env.fire_after_life_loss", self._data["env"]["life_loss"], line)
            return
        self._other_wrapper(f"{path.rpartition('.')[0]}:{name}", arguments, line)

    def _other_wrapper(self, path: str, arguments: Any, line: int) -> None:
        if re.fullmatch(r"[\w.:]+", path):
            name = path
        else:
            name = display(path, 0)
        self._wrappers.append(f"{{{name}: {display(arguments, 0)}}}" if arguments else name)
        self._wrappers_line = self._wrappers_line or line

    def leave_out_wrappers(self) -> None:
        """Names the wrappers that the entry has: a file may not choose what is imported."""
        if self._wrappers:
            if self._other_name:
                place = f"{self._other_name} takes them: "
            else:
                place = ""
            option = shlex.quote(f"env.wrappers=[{', '.join(self._wrappers)}]")
            where = f"{self._source}:{self._wrappers_line}"
            self.left_out.append(f"{where} wrappers are left out; name them yourself: {place}-o {option}")


def _number(text: str) -> Any:
    """A number that a text holds; else the text."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class _Name:
    """A name in a text of Python, such as `nn.ReLU`."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _python(text: str) -> Any:
    """The value of a text of Python: plain values, `dict(…)`, and names as `_Name`; None for any other text."""
    if len(text) > _MOST_PYTHON:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Any:
    """Raises ValueError for what is no plain value."""
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[]):
            return {_text(keyword.arg): _value(keyword.value) for keyword in node.keywords}
        case ast.Dict():
            return {
                _text(key and _value(key)): _value(value)
                for key, value in zip(node.keys, node.values, strict=True)
            }
        case ast.List() | ast.Tuple():
            return [_value(element) for element in node.elts]
        case ast.Name() | ast.Attribute():
            return _Name(".".join(_dotted(node)))
        case _:
            return ast.literal_eval(node)


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError("a key is no text")
    return key


def _dotted(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Attribute():
            yield from _dotted(node.value)
            yield node.attr
        case ast.Name():
            yield node.id
        case _:
            raise ValueError("it is no name")
