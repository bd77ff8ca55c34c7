"""The family `atari:`: every game whose ROM comes with ale-py."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from a3c_zoo import EnvEntry, ZooError
from a3c_zoo.errors import AROUND_GAMES, unknown_name
from a3c_zoo_envs.atari_scores import RANDOM_AND_HUMAN


def pascal_case(rom: str) -> str:
    """Returns the name of a ROM in Gymnasium's ids: `SpaceInvaders`."""
    return rom.title().replace("_", "")


def game_of(env_id: str) -> str | None:
    """Returns the name `atari:ROM` of the game with this id of Gymnasium, such as `ALE/Pong-v5`; None without one.

    ale-py is not imported: it would register its ids, and the next look would find what this one did not.
    """
    name = AROUND_GAMES.sub("", env_id)
    return next((f"atari:{rom}" for rom in _roms() if pascal_case(rom) == name), None)


def _roms() -> list[str]:
    spec = importlib.util.find_spec("ale_py")
    folders = (spec and spec.submodule_search_locations) or ()
    return sorted(file.stem for folder in folders for file in Path(folder).glob("roms/*.bin"))


#: `ALE/Pong-v5`, `PongNoFrameskip-v4`, `pong-v0`. Ids that end otherwise are no games: `Blackjack-v1` is cards.
_IDS = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v[045]", re.IGNORECASE)


def recognise(name: str) -> str | None:
    """Returns `atari:ROM` for an id of Gymnasium or a game's name, in any letter case; None for another name."""
    match = _IDS.fullmatch(name)
    game = (match[1] if match else name).casefold().replace("_", "")
    return next((f"atari:{rom}" for rom in _roms() if rom.replace("_", "") == game), None)


def atari_entry(
    name: str, rom: str, threshold: float | None = None, description: str = "", *, is_registered: bool = True
) -> EnvEntry:
    """Returns the entry of a game by the name of its ROM, such as `space_invaders`.

    Args:
        is_registered: whether ale-py registers it as NoFrameskip; that is not so for all games.
    """
    return EnvEntry(
        name,
        factory="a3c_zoo_envs._atari:make",
        kwargs={"rom": rom},
        config="a3c_zoo_envs.env_configs:AtariConfig",
        threshold=threshold,
        gym_id=f"ale_py:{pascal_case(rom)}NoFrameskip-v4" if is_registered else None,
        description=description,
        family="atari",
        budget_steps=10_000_000,
        score_range=RANDOM_AND_HUMAN.get(rom),
        revision=1,
    )


def resolve(rom: str) -> EnvEntry:
    """Returns the entry of `atari:ROM`.

    Raises:
        UnknownNameError: ale-py ships no such ROM.
        ZooError: the game is one of the four that need two players; the emulator would end the whole process.
    """
    import gymnasium
    from ale_py import roms

    known = roms.get_all_rom_ids()
    playable = [game for game in known if f"ALE/{pascal_case(game)}-v5" in gymnasium.registry]
    if rom not in known:
        raise unknown_name("Atari game", rom, playable)
    if rom not in playable:
        raise ZooError(f"the Atari game '{rom}' is for two players alone; ale-py cannot play it")
    is_registered = f"{pascal_case(rom)}NoFrameskip-v4" in gymnasium.registry
    about = f"the Atari game {rom.replace('_', ' ')}"
    return atari_entry(f"atari:{rom}", rom, description=about, is_registered=is_registered)
