"""`a3c-zoo pull`."""

from __future__ import annotations

from pathlib import Path

import click

from a3c_zoo.cli.common import example, kept_runs_option, need_extra, trust_option
from a3c_zoo.files import valid_name
from a3c_zoo.plugins.next_command import next_command


@click.command(epilog=example("a3c-zoo pull alice/cartpole"))
@click.argument("repo", metavar="OWNER/NAME")
@click.option(
    "--revision", metavar="R", help="A branch, a tag or a commit.  [default: the newest of the main branch]"
)
@click.option("--name", metavar="NAME", help="Name of the new folder.  [default: the repository's]")
@kept_runs_option
@trust_option
def command(repo: str, revision: str | None, name: str | None, runs_dir: Path, trust: bool) -> None:
    """Fetch a trained agent from a hub of Hugging Face's API, and check it as a run that is not your own.

    Needs the extra `hub`. If the agent is refused, nothing is left. If the hub does not answer within 30 s, the command
    ends.
    """
    need_extra("pull", "hub", "huggingface_hub", "httpx2")
    from a3c_zoo.sharing import hub
    from a3c_zoo.store.directory import run_argument

    hub.check_repo(repo, sends=False)
    hub.pull(repo, revision, path := runs_dir / valid_name(name or repo.partition("/")[2]), trust)
    play = next_command(f"play {run_argument(path)}{' --trust' if trust else ''}")
    click.echo(f"{repo} is in {path}\nnext  {play}")
