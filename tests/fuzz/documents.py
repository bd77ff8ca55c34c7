"""YAML of all kinds: whole documents, broken ones, bytes."""

from __future__ import annotations

import yaml
from hypothesis import strategies as st

from tests.fuzz.values import INTEGERS, OBEYED, nested, texts

_sections = st.sampled_from(["run", "env", "agent", "network", "optimizer", "env_name", "agent_name"])
_KEYS = """
    workers seed steps num_envs n_steps gamma name hidden_sizes learning_rate schedule activation recurrent device
    normalize_observations stack epochs clip_ratio locking
"""
_values = nested | st.lists(st.sampled_from(INTEGERS), max_size=4)
_section = st.dictionaries(st.sampled_from(_KEYS.split()) | texts, _values, max_size=4) | nested
_documents = st.dictionaries(_sections | texts, _section, max_size=4).map(
    lambda data: yaml.safe_dump(data, allow_unicode=True)
)
#: Pieces of YAML that mean more than data, or that cost much.
_pieces = st.sampled_from(
    [
        "a: &a [1]\n",
        "b: *a\n",
        "<<: *a\n",
        "!!python/object/apply:os.system ['true']\n",
        "? [1]\n: 2\n",
        "- 1\n",
        "agent:\n",
        "  gamma: 0.5\n",
        "  gamma: 0.9\n",
        "\tx: 1\n",
        "%YAML 9.9\n",
        "---\n",
        "...\n",
        "'",
        '"',
        "|\n",
        ">-\n",
        "[" * 5_000,
        "{" * 3000,
        "a: " * 50,
        "9" * 5000,
        "1:30:00\n",
        "2026-01-31\n",
        "0o17\n",
        ".inf\n",
        "~\n",
        "\ufeff",
        "\x85",
        "\u2028",
        "\x00",
        "x: " + "y" * 70_000 + "\n",
        "k: v\n" * 2000,
        "!<tag:x,2026:y> z\n",
        "=: 1\n",
        "#" * 99,
        "gamma: 1" + "0" * 400 + "\n",
        "- " * 200 + "x\n",
        "? " * 40 + "\n",
        '"\\ud800": 1\n',
        '"\\U00110000": 1\n',
    ]
)
_broken = st.lists(_pieces | st.sampled_from(OBEYED) | st.text(max_size=20), max_size=6).map("".join)

#: Contents of a file that should hold a hyperparameter set.
documents = st.one_of(
    _documents.map(str.encode),
    _broken.map(lambda text: text.encode(errors="surrogatepass")),
    st.tuples(_documents, _broken).map(lambda pair: "".join(pair).encode(errors="surrogatepass")),
    _documents.map(lambda text: text.encode("utf-16")),
    st.binary(max_size=60),
)
