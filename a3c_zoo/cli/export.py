"""`a3c-zoo export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3c_zoo.cli.common import (
    agent_of_env_option,
    checkpoint_option,
    complete_policy,
    example,
    need_extra,
    runs_dir_option,
    trust_option,
)
from a3c_zoo.files import refuse_out


@click.command(epilog=example("a3c-zoo export runs/cartpole-a3c-s1-20260101-120000 --out cartpole.onnx"))
@click.argument("run", metavar="RUN|ENV", shell_complete=complete_policy)
@click.option(
    "--format", "kind", type=click.Choice(["onnx"]), default="onnx", show_default=True, help="The format."
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write, .onnx."
)
@click.option("-f", "--force", is_flag=True, help="Overwrite the file.")
@agent_of_env_option
@checkpoint_option
@runs_dir_option
@trust_option
def command(run: str, kind: str, out: Path, force: bool, checkpoint: str, **options: Any) -> None:
    """Write a trained agent as a file that acts without a3c-zoo. Needs the extra `onnx`.

    RUN is a run directory or its name. ENV is the name of an environment: its newest solved run is used, or else a
    trained agent.

    Before it is written, the file acts on 1,000 observations of episodes. If an output differs by more than 1e-5, or a
    most probable action is another one, nothing is written and the exit status is 1.
    """
    from a3c_zoo.store.recommended import choose
    from a3c_zoo.store.trained import find_policy

    refuse_out(out, [f".{kind}"], force)
    need_extra("export", "onnx", "onnxruntime", "onnxscript")
    directory = find_policy(run, **options)
    choice = choose(directory, checkpoint)
    from a3c_zoo.sharing.export import export  # imports torch: a wrong name is known before

    compared = export(directory, out, choice.which, force)
    choice.tell()
    sides = {"input": compared.program.get_inputs(), "output": compared.program.get_outputs()}
    for side, arrays in sides.items():
        for array in arrays:
            click.echo(f"{side:8} {array.name}  {array.type[7:-1]} [{', '.join(map(str, array.shape))}]")
    click.echo(f"compared {compared.observations:,} observations: equal actions, ", nl=False)
    click.echo(f"other outputs differ by {compared.difference:.1g} at most")
    click.echo(f"file     {out}")
