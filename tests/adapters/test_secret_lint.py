"""Credentials in a file: found wherever they stand, never repeated, and what only looks like one let through."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.adapters.secret_lint import CODE, find_credentials
from reconciler.adapters.strict_yaml import parse
from reconciler.model.problem import Problem
from tests.examples import examples

# Written in pieces, so that no scanner takes this file for a leak. None of them was ever issued.
HEX40 = "0123456789abcdef" * 2 + "01234567"
HF = "hf_" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
GH = "ghp" + "_" + "Ab3" * 12
AWS_ID = "AKIA" + "IOSFODNN7" + "EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI" + "/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
KEY_LINE = "-----BEGIN " + "{}PRIVATE KEY-----"
DRAWN = "q7Rk2" + "Vx9LmT4" + "bWz8"


def found(text: str) -> list[Problem]:
    return find_credentials(parse(text.encode(), "a.yaml"), "a.yaml")


# What published example jobs hold, and its kind
FOUND: dict[str, tuple[str, str, tuple[int, int], str]] = {
    "a Hugging Face token in the environment": (f"env: {{HF_TOKEN: {HF}}}\n", HF, (1, 17), "env.HF_TOKEN: a Hugging Face token"),
    "a token under a name that says nothing": (f"env:\n  X: {HF}\n", HF, (2, 6), "env.X: a Hugging Face token"),
    "a login to Weights & Biases": (f'args: ["wandb login {HEX40}"]\n', HEX40, (1, 21), "args[0]: a Weights & Biases key"),
    "a login with options": (
        f'args: ["wandb login --relogin --host=x {HEX40}"]\n',
        HEX40,
        (1, 40),
        "args[0]: a Weights & Biases key",
    ),
    "a login to a host": (
        f'args: ["wandb login --host https://w.example.com {HEX40} && run"]\n',
        HEX40,
        (1, 50),
        "args[0]: a Weights",
    ),
    "a login word by word": (f'command: [wandb, login, "{HEX40}"]\n', HEX40, (1, 26), "command[2]: a Weights & Biases key"),
    "a login in a script": (f"args:\n- -c\n- |\n  set -e\n  wandb login {HEX40}\n", HEX40, (5, 15), "args[1]: a Weights"),
    "a GitHub token in a URL": (f"args: ['git clone https://{GH}@git.example.com/x']\n", GH, (1, 27), "args[0]: a GitHub token"),
    "other GitHub tokens": ("x: gho" + f"_{'Ab3' * 12}\n", "Ab3" * 12, (1, 4), "x: a GitHub token"),
    "a fine-grained GitHub token": ("x: github" + f"_pat_{'A1b_' * 20}\n", "A1b_" * 5, (1, 4), "x: a GitHub token"),
    "a GitLab token with a user": (
        "x: https://oauth2:glpat" + f"-{'Ab3' * 7}@git.example.com/\n",
        "Ab3" * 7,
        (1, 19),
        "x: a GitLab token",
    ),
    "an AWS key id": (f"env: {{A: {AWS_ID}}}\n", AWS_ID, (1, 10), "env.A: an AWS access key"),
    "an AWS secret key": (
        f"env:\n  AWS_SECRET_ACCESS_KEY: {AWS_SECRET}\n",
        AWS_SECRET,
        (2, 26),
        "env.AWS_SECRET_ACCESS_KEY: a secret",
    ),
    "a session key id": ("x: ASIA" + "IOSFODNN7EXAMPLE\n", "IOSFODNN7", (1, 4), "x: an AWS access key"),
    "a Slack token": ("x: xoxb" + "-123456789012-abcdefABCDEF\n", "123456789012", (1, 4), "x: a Slack token"),
    "an API key": ("x: sk" + f"-{'aB3' * 16}\n", "aB3" * 16, (1, 4), "x: an API key"),
    "an API key of a project": ("x: sk" + f"-proj-{'aB-_' * 10}\n", "aB-_" * 3, (1, 4), "x: an API key"),
    "a Google API key": ("x: AIza" + f"{'Ab3-_' * 7}\n", "Ab3-_" * 7, (1, 4), "x: a Google API key"),
    "an NVIDIA API key": ("x: nvapi" + f"-{'Ab3' * 12}\n", "Ab3" * 12, (1, 4), "x: an NVIDIA API key"),
    "a signed token": ("x: eyJ" + f"{'hbGc' * 4}.eyJ{'zdWI' * 4}.{'Sf1K' * 8}\n", "Sf1K" * 8, (1, 4), "x: a signed token"),
    "an Authorization header": (
        f"args: [\"curl -H 'Authorization: Bearer {DRAWN}' u\"]\n",
        DRAWN,
        (1, 40),
        "args[0]: an Authorization",
    ),
    "a password in a URL": ("x: postgres://me:hunter2x@db.example.com/d\n", "hunter2x", (1, 18), "x: a password in a URL"),
    "a private key in a file": (
        f"files:\n- path: /k\n  content: |\n    {KEY_LINE.format('RSA ')}\n    MIIE\n",
        KEY_LINE.format("RSA "),
        (4, 5),
        "files[0].content: a private key",
    ),
    "a private key without a kind": (f"x: '{KEY_LINE.format('')}'\n", KEY_LINE.format(""), (1, 5), "x: a private key"),
    "an SSH key": (f"x: '{KEY_LINE.format('OPENSSH ')}'\n", KEY_LINE.format("OPENSSH "), (1, 5), "x: a private key"),
    "a key by its variable's name": (f"env: {{WANDB_API_KEY: {HEX40}}}\n", HEX40, (1, 22), "env.WANDB_API_KEY: a secret"),
    "a token by its variable's name": (f"env: {{MY_TOKEN: {DRAWN}}}\n", DRAWN, (1, 17), "env.MY_TOKEN: a secret"),
    "a secret by its variable's name": (f"env: {{CLIENT_SECRET: {DRAWN}}}\n", DRAWN, (1, 22), "env.CLIENT_SECRET: a secret"),
    "a plain key by its variable's name": (f"env: {{COMET_KEY: {DRAWN}}}\n", DRAWN, (1, 18), "env.COMET_KEY: a secret"),
    "the second key of two": (f"env: {{API_KEY_2: {DRAWN}}}\n", DRAWN, (1, 18), "env.API_KEY_2: a secret"),
    "a UUID as a token": (
        "env: {API_TOKEN: 3f2b8c1e-9a4d-4c6b-8e7f-0123456789ab}\n",
        "3f2b8c1e",
        (1, 18),
        "env.API_TOKEN: a secret",
    ),
    "a password that is a word": ("env: {DB_PASSWORD: correcthorse}\n", "correcthorse", (1, 20), "env.DB_PASSWORD: a secret"),
    "a password as Kubernetes writes it": (
        "env:\n- name: DB_PASSWORD\n  value: hunter22\n",
        "hunter22",
        (3, 10),
        "env[0].value: a secret",
    ),
    "a password in lower case": ("x: {password: hunter22}\n", "hunter22", (1, 15), "x.password: a secret"),
    "a flag with its value": (f"args: [--api-key={DRAWN}]\n", DRAWN, (1, 18), "args[0]: a secret"),
    "a flag and its value": (f"args: [--hf_token, {DRAWN}]\n", DRAWN, (1, 20), "args[1]: a secret"),
    "a flag and its value in one text": (f"args: [run --token {DRAWN} -x]\n", DRAWN, (1, 20), "args[0]: a secret"),
    "an export in a script": (f"args:\n- |\n  export WANDB_API_KEY={DRAWN}\n  run\n", DRAWN, (3, 24), "args[0]: a secret"),
    "an override of a setting": (f"args: [logger.comet.api_key={DRAWN}]\n", DRAWN, (1, 29), "args[0]: a secret"),
    "a setting in a small file": (
        f"files:\n- content: |\n    wandb:\n      api_key: {DRAWN}\n",
        DRAWN,
        (4, 16),
        "files[0].content: a secret",
    ),
    "a setting in a small JSON file": (
        f'files:\n- content: \'{{"api_key": "{DRAWN}"}}\'\n',
        DRAWN,
        (2, 26),
        "files[0].content: a secret",
    ),
    "in a comment": (f"# was {HF}\na: 1\n", HF, (1, 7), "a Hugging Face token is written out in a comment or a name"),
    "as a field": (f"env: {{{HF}: x}}\n", HF, (1, 7), "in a comment or a name"),
    "hidden by an escape": (f'x: "\\x68{HF[1:]}"\n', HF[3:], (1, 4), "x: a Hugging Face token"),
}


@pytest.mark.parametrize(("text", "secret", "at", "words"), FOUND.values(), ids=FOUND.keys())
def test_a_credential_is_found_once_where_it_stands_and_not_repeated(
    text: str, secret: str, at: tuple[int, int], words: str
) -> None:
    (problem,) = found(text)
    assert (problem.code, (problem.line, problem.column)) == (CODE, at)
    assert words in problem.what
    assert "use `secrets:`" in problem.todo
    assert secret not in str(problem)


LET_THROUGH = {
    "the usual job": "job_id: llm-a\nimage: reg.example.com:5000/team/train@sha256:"
    + "0a1b" * 16
    + "\ndataset: {uri: s3://data-eu/a/}\n",
    "a reference to a secret": "secrets: [{name: hf-token, key: token, env: HF_TOKEN}]\n",
    "a path to a tokenizer": "env: {TOKENIZER_PATH: /data/tokenizers/llama-3-8b-instruct-v2}\n",
    "a number of tokens": 'env: {MAX_TOKENS: "4096", MAX_NEW_TOKENS: "1000000000000000000000"}\n',
    "a tokenizer's own tokens": 'env: {PAD_TOKEN: "<|reserved_special_token_0|>", EOS_TOKEN: "</s>", MASK_TOKEN: "[MASK]"}\n',
    "a commit as an argument": f'args: [--commit, "{HEX40}"]\n',
    "a commit in a text": f'args: ["git checkout {HEX40} && wandb sync"]\n',
    "a commit as a variable": f'env: {{GIT_SHA: "{HEX40}", GIT_COMMIT: "{HEX40}"}}\n',
    "a digest as a cache key": f'env: {{CACHE_KEY: "{HEX40}", DATA_KEY: "{HEX40}"}}\n',
    "a reference as a value": "env: {HF_TOKEN: $(HF_TOKEN), WANDB_API_KEY: '${WANDB_API_KEY}', MY_TOKEN: $MY_TOKEN_FROM_1}\n",
    "a reference in a flag": "args: [--token, $(HF_TOKEN), '--api-key=${API_KEY_FROM_1}', 'run --token $TOKEN_FROM_SECRET_1']\n",
    "a template in a variable": "env: {HF_TOKEN: '{{ secrets.HF_TOKEN_OF_THE_TEAM_1 }}'}\n",
    "a placeholder": "env: {HF_TOKEN: <your-hugging-face-token-1>, API_KEY: '[insert-your-api-key-here-1]', WANDB_API_KEY: ''}\n",
    "a file of a key": "env: {SSH_KEY: /run/secrets/ssh/id_ed25519, TLS_KEY: certs/server-2026-Q3.pem, API_KEY: file:///run/key1}\n",
    "the name of a Secret": "env: {IMAGE_PULL_SECRET: team-a-registry-credentials, HF_SECRET: hf-token-reader-v2}\n",
    "a column to sort by": "env: {SORT_KEY: created_at_timestamp_utc, PARTITION_KEY: customer_identifier_v2}\n",
    "a key of a cache in words": "env: {LOOKUP_KEY: resnet50-imagenet-v2-a100-80gb}\n",
    "a short value": "env: {API_KEY: none, MY_TOKEN: abc123, DB_PASSWORD: ''}\n",
    "a login without a key": "args: ['wandb login', 'wandb login $WANDB_API_KEY', 'wandb login --verify && run']\n",
    "code that reads a password": (
        'files:\n- content: |\n    password = os.environ["DB_PASSWORD1"]\n    token = get_token(name1="x")\n'
        "    secret = args.secret\n"
    ),
    "code that has tokens": "args: ['python -c \"tok = AutoTokenizer.load(x); token=tok.eos_token; key=lambda x: x\"']\n",
    "words that begin like a token": (
        "args: [hf_transfer, hf_hub_download_with_progress, sk-learn-random-forest-pipeline]\nx: task-training-experiment-2026a\n"
    ),
    "a name with a token's beginning inside": f"env: {{X: my_{HF}}}\n".replace(HF, "hf_model_llama_3_8b_instruct"),
    "a public key": "args: ['ssh-ed25519 AAAAC3Nz me', '-----BEGIN PUBLIC KEY-----', '-----BEGIN CERTIFICATE-----']\n",
    "a URL with a port and an at sign later": "x: http://proxy.example.com:8080/a@b\ny: reg.example.com:5000/t@sha256:00\n",
    "a URL whose password is a reference": "x: https://me:${PASSWORD}@example.com/\ny: https://$USER:$PASS@example.com/\n",
    "a user without a password": "x: https://me@example.com/, git@example.com:team/x.git\n",
    "a time": "env: {EXPIRY_TOKEN: '2026-05-01T10:00:00.000Z'}\n",
    "numbers": "max_tokens: 4096\nkey: 1\ntoken: true\nsecret:\n",
    "nothing": "{}\n",
}


@pytest.mark.parametrize("text", LET_THROUGH.values(), ids=LET_THROUGH.keys())
def test_what_only_looks_like_a_credential_is_let_through(text: str) -> None:
    assert found(text) == []


def test_each_credential_of_a_file_is_told_in_order() -> None:
    text = f"# {AWS_ID}\nenv: {{HF_TOKEN: {HF}, DB_PASSWORD: hunter22}}\nargs: ['x {GH} y {HF}2']\n"
    assert [(problem.line, problem.column) for problem in found(text)] == [(1, 3), (2, 17), (2, 67), (3, 11), (3, 54)]


def test_many_credentials_are_cut_to_fifty_and_a_count() -> None:
    problems = found("".join(f"k{n}: {HF}{n}\n" for n in range(60)))
    assert len(problems) == 51
    assert problems[-1].what == "and 10 more problems"


SHAPES = st.one_of(
    st.from_regex(r"hf_[A-Za-z0-9]{34}", fullmatch=True),
    st.from_regex(r"gh[pousr]_[A-Za-z0-9]{36}", fullmatch=True),
    st.from_regex(r"AKIA[A-Z0-9]{16}", fullmatch=True),
    st.from_regex(r"glpat-[A-Za-z0-9]{20}", fullmatch=True),
)
PLACES = [
    "a: {}",
    "env: {{A: '{}'}}",
    "args: ['x={} y']",
    "l: [[{{a: {}}}]]",
    "f: |\n  a\n  b {}\n",
    "# {}\na: 1",
    "{}: 1",
    "t: >\n  x\n  {}\n",
]


@given(secret=SHAPES, place=st.sampled_from(PLACES))
@settings(max_examples=examples(200), deadline=None)
def test_a_known_shape_is_found_wherever_it_stands(secret: str, place: str) -> None:
    text = place.format(secret)
    (problem,) = found(text)
    assert text.split("\n")[problem.line - 1][problem.column - 1 :].startswith(secret)
    assert secret not in str(problem)
