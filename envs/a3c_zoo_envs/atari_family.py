"""The family `atari:`: every game whose ROM ale-py ships."""

from __future__ import annotations

from a3c_zoo import EnvEntry
from a3c_zoo.errors import unknown_name

#: Under what id others train on the same game.
GYM_IDS = {"breakout": "BreakoutNoFrameskip-v4", "pong": "PongNoFrameskip-v4"}


def atari_entry(name: str, rom: str, threshold: float | None = None, description: str = "") -> EnvEntry:
    """The entry of a game by the name of its ROM, such as `space_invaders`."""
    return EnvEntry(
        name,
        factory="a3c_zoo_envs._atari:make",
        kwargs={"rom": rom},
        config="a3c_zoo_envs.atari_config:AtariConfig",
        threshold=threshold,
        gym_id=GYM_IDS.get(rom),
        description=description,
        revision=1,
    )


def resolve(rom: str) -> EnvEntry:
    """Returns the entry of `atari:ROM`.

    Raises:
        UnknownNameError: ale-py ships no such ROM.
    """
    from ale_py import roms

    known = roms.get_all_rom_ids()
    if rom not in known:
        raise unknown_name("Atari game", rom, known)
    return atari_entry(f"atari:{rom}", rom, description=f"the Atari game {rom.replace('_', ' ')}")
