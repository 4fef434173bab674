"""Secrets in command lines: words that are hidden, and words that are shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spool_files import ProcessFiles, ended_profile

from aiflame.profile.opening import open_profile
from aiflame.profile.secrets.masking import MASK, masked, masked_arguments, masked_command
from aiflame.recorder import RecordOptions, place_of
from aiflame.recorder.run import prepare

SHAPES = [
    "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3k",
    "sk-proj-4f9aB2cD6eF8gH1jK3mN5pQ7",
    "sk-ant-api03-abcdefghij1234567890",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-abcDEF123456ghiJKL78",
    "xoxb-123456789012-abcdefABCDEF",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "nvapi-abcdefghijklmnopqrstuvwxyz0123",
    "gsk_abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
]


@pytest.mark.parametrize("secret", SHAPES)
@pytest.mark.parametrize(
    "around", ["{}", "--anything={}", "x={}", "run with {} here", "'{}'", "https://host/path?x={}&y=1", '{{"a": "{}"}}']
)
def test_texts_with_the_shape_of_a_secret_are_hidden_everywhere(secret: str, around: str) -> None:
    assert secret not in masked(around.format(secret))


S = "correct-Horse7"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train.py", "--api-key", S],
        ["train.py", f"--api-key={S}"],
        ["train.py", "--apiKey", S],
        ["train.py", f"--APIKEY={S}"],
        ["train.py", "--hf-token", S],
        ["train.py", f"--hf_token={S}"],
        ["train.py", "-token", S],
        ["train.py", "--password", S],
        ["train.py", f"model.auth.password={S}"],
        ["train.py", "--db-passwd", S],
        ["train.py", "--client-secret", S],
        ["train.py", "--secret", S],
        ["train.py", "--credential", S],
        ["train.py", "--auth", S],
        ["train.py", "--cookie", f"session={S}"],
        ["train.py", f"--wandb.api_key={S}"],
        ["env", f"HF_TOKEN={S}", "python", "x.py"],
        ["env", f"AWS_SECRET_ACCESS_KEY={S}", "python"],
        ["env", f"WANDB_API_KEY={S}"],
        ["env", f"PGPASSWORD={S}"],
        ["env", f"MYSQL_PWD={S}"],
        ["docker", "run", "-e", f"OPENAI_API_KEY={S}", "image"],
        ["env", f"SSHPASS={S}", "sshpass", "-e", "ssh", "host"],
        ["sshpass", "-p", S, "ssh", "host"],
        ["/usr/bin/sshpass", f"-p{S}", "ssh", "host"],
        ["timeout", "5", "curl", "-s", "-u", f"name:{S}", "https://host"],
        ["curl", f"--user=name:{S}", "https://host"],
        ["curl", "--proxy-user", f"name:{S}", "https://host"],
        ["mysqldump", "-u", "root", f"-p{S}", "database"],
        ["redis-cli", "-a", S, "ping"],
        ["smbclient", "-U", f"name%{S}", "//host/share"],
        ["openssl", "rsa", "-passin", f"pass:{S}", "-in", "x.pem"],
        ["sh", "-c", f"cd x && curl -u name:{S} https://host | tar x"],
        ["sh", "-c", f"sshpass -p '{S}' ssh host"],
        ["sh", "-c", f"HF_TOKEN={S} python train.py"],
        ["sh", "-c", f'export HF_TOKEN="{S}"; python train.py'],
        ["sh", "-c", f"python train.py --password {S} --epochs 3"],
        ["sh", "-c", f"python train.py --api-key='{S}'"],
        ["curl", "-H", f"Authorization: Bearer {S}"],
        ["curl", "-H", f"X-Api-Key: {S}"],
        ["curl", "-H", f"Cookie: session={S}"],
        ["curl", "-d", f'{{"password": "{S}"}}'],
        ["curl", f"https://me:{S}@example.org/x"],
        ["git", "clone", f"https://oauth2:{S}@example.org/x.git"],
        ["python", "-m", "x", "--db", f"postgresql://user:{S}@db:5432/name"],
        ["python", f"--sas=https://a.example/b?sv=1&sig={S}&se=2"],
        ["redis-cli", "-u", f"redis://:{S}@host:6379"],
        ["x", "--private-key", f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----"],
        ["x", f"--ssh_key={S}"],
        ["x", "--key", "4f9aB2cD6eF8gH1jK3mN5pQ7"],
        ["x", "--pin-password", "123456"],
        ["python", "-c", f"login(token='{S}')"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_values_with_the_name_of_a_secret_are_hidden(arguments: list[str]) -> None:
    shown = masked_arguments(arguments)
    assert not any(S in argument or "4f9aB2" in argument or "123456" in argument for argument in shown)
    assert any(MASK in argument for argument in shown)
    assert len(shown) == len(arguments)
    assert shown[0] == arguments[0]


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --lr 3e-4 --batch-size 32 --epochs 3 --model meta-llama/Llama-3.1-8B-Instruct",
        "python train.py --max-tokens 512 --num-tokens=1000000 --max_new_tokens 64 --tokens-per-batch 4096",
        "python train.py --tokenizer gpt2 --tokenizer-path /data/tok --pad-token <pad> --eos_token=</s> --bos-token-id 1",
        "python train.py --mask-token [MASK]",
        "python train.py --image-token-index 32000 --stop-token END --special-tokens a,b --unk-token=unk --token-embedding-dim 64",
        "python train.py --key-size 64 --num-key-value-heads 8 --sort-key length --image-key jpg --text-key=text --primary-key id",
        "python train.py --key-file /run/key.pem --password-file /run/secrets/x --token-path ~/.cache/token --secret-name prod",
        "python train.py --attention-dropout 0.1 --author somebody --authors=me --keyword spam --monkey 3 --keyboard us",
        "python train.py --use-auth-token true --use_auth_token=False --auth none --token 5",
        "torchrun --nproc_per_node=8 --rdzv-endpoint=host:29500 --rdzv-id=4f9aB2cD6eF8 train.py --config-name=base +trainer.devices=8",
        "python -m vllm.entrypoints.openai.api_server --served-model-name x --port 8000 --max-num-batched-tokens 8192",
        "python -c import_torch;print(torch.__version__)",
        "python eval.py task-sk-learn-comparison-of-things risk-assessment-report-2024-01-01 desk-top",
        "mpirun -n 4 -x NCCL_DEBUG=INFO -x PATH python train.py --seed 1234567890 --hash 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
        "python train.py --data s3://bucket/key=value/year=2024/part-0.parquet --url https://example.org:8080/a@b",
        "python train.py --token-count 5 --tokenize-first true --secret-santa-count 5 --cookiecutter x",
        "mysql -u root -p database --port 3306",
        "curl -s -A agent:1 --user-agent=a:b -o out https://host:80/",
        "ssh -p 2222 host curl https://host",
        "docker run -p 80:80 redis-cli --version -u name:port",
        "accelerate launch --mixed_precision=bf16 --main_process_port=0 run_clm.py --block_size=1024 --push_to_hub_token=$HF_TOKEN",
    ],
)
def test_usual_arguments_of_programs_are_shown(command: str) -> None:
    assert masked_arguments(command.split(" ")) == tuple(command.split(" "))
    assert masked(command) == command


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_arguments_are_looked_at_and_their_number_stays(arguments: list[str]) -> None:
    shown = masked_arguments(arguments)
    assert len(shown) == len(arguments)
    assert masked_arguments(shown) == shown, "masked arguments stay as they are"


def test_a_long_argument_takes_no_long_time() -> None:
    for text in (
        "a" * 200_000,
        "--x " * 50_000,
        "a=" * 100_000,
        "a:" * 100_000,
        "://" * 60_000,
        "eyJ" * 60_000,
        "-" * 200_000,
        '"' * 200_000,
        "curl -u " * 20_000,
    ):
        masked(text)


def test_meta_json_has_no_secret(tmp_path: Path) -> None:
    command = ["env", f"HF_TOKEN={S}", "python", "train.py", "--api-key", S]
    page, _ = prepare(place_of(tmp_path / "p.aiflame", command, None), RecordOptions(), command, overwrite=False)
    page.close()
    text = (tmp_path / "p.aiflame/meta.json").read_text()
    assert S not in text
    assert json.loads(text)["command"] == ["env", f"HF_TOKEN={MASK}", "python", "train.py", "--api-key", MASK]


def test_no_table_of_a_sealed_profile_has(tmp_path: Path) -> None:
    command = "\0".join(["python", "train.py", "--api-key", S, "https://me:" + S + "@host/"])
    path = ended_profile(tmp_path / "p", ProcessFiles(os.getpid(), 5, command=command))
    assert open_profile(path).table("processes")["command"].to_list() == [masked_command(command)]
    assert not [file for file in path.rglob("*") if file.is_file() and S.encode() in file.read_bytes()]
