"""The family `atari:`: every game whose ROM ale-py ships."""

from __future__ import annotations

from a3c_zoo import EnvEntry
from a3c_zoo.errors import unknown_name


def gym_id(rom: str) -> str:
    """The id under which others train on the game; ale-py, which registers it, is imported with it."""
    return f"ale_py:{rom.title().replace('_', '')}NoFrameskip-v4"


def atari_entry(
    name: str, rom: str, threshold: float | None = None, description: str = "", *, is_registered: bool = True
) -> EnvEntry:
    """The entry of a game by the name of its ROM, such as `space_invaders`.

    Args:
        is_registered: whether it has a NoFrameskip id; about half of the games have none.
    """
    return EnvEntry(
        name,
        factory="a3c_zoo_envs._atari:make",
        kwargs={"rom": rom},
        config="a3c_zoo_envs.atari_config:AtariConfig",
        threshold=threshold,
        gym_id=gym_id(rom) if is_registered else None,
        description=description,
        revision=1,
    )


def resolve(rom: str) -> EnvEntry:
    """Returns the entry of `atari:ROM`.

    Raises:
        UnknownNameError: ale-py ships no such ROM.
    """
    import gymnasium
    from ale_py import roms

    known = roms.get_all_rom_ids()
    if rom not in known:
        raise unknown_name("Atari game", rom, known)
    is_registered = gym_id(rom).partition(":")[2] in gymnasium.registry
    about = f"the Atari game {rom.replace('_', ' ')}"
    return atari_entry(f"atari:{rom}", rom, description=about, is_registered=is_registered)
