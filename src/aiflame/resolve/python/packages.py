"""Finds the installed package of a source file, by its path."""

from __future__ import annotations

import sys

import polars as pl

STANDARD_LIBRARY = "python"
GENERATED = "generated"
_INSTALLED = r"(?:^|.*[/\\])(?:site|dist)-packages[/\\]([^/\\]+?)(?:\.pyc?)?(?:[/\\].*)?$"
_TORCH = r"(?:^|.*[/\\])torch[/\\](?:nn|optim|utils|autograd|cuda|distributed|amp|fx|_\w+|functional\.py)(?:[/\\]|\.py|$)"
_STANDARD = r"^<frozen |(?:^|[/\\])lib(?:64)?[/\\]python\d[\d.]*t?[/\\]|^/usr/(?:include|lib|lib64)/"
_MODULE_FILE = r"[/\\]python\d[\d.]*t?[/\\](?:lib-dynload[/\\])?([^/\\.]+)"
_MODULE_FROZEN = r"^<frozen ([\w.]+)"
_PACKAGES = (
    "accelerate|aiohttp|aiter|apex|bitsandbytes|cupy|cv2|dask|datasets|deepspeed|diffusers|einops|fairseq|fastapi|flash_attn|flashinfer|flax"
    "|huggingface_hub|ipykernel|IPython|jax|jaxlib|joblib|keras|lightning|lightning_fabric|liger_kernel|matplotlib|megatron|mlflow|monai"
    "|multiprocess|numba|numpy|omegaconf|onnxruntime|optax|pandas|peft|PIL|polars|pyarrow|pydantic|pytest|_pytest|pytorch_lightning|ray"
    "|requests|safetensors|scipy|sentence_transformers|sglang|sgl_kernel|sklearn|starlette|tensorboard|tensorflow|timm|tokenizers|torch"
    "|torchao|torchaudio|torchdata|torchrec|torchtext|torchtune|torchvision|tornado|tqdm|transformer_engine|transformers|triton|trl"
    "|typing_extensions|urllib3|uvicorn|vllm|wandb|xformers|yaml|zmq"
)
"""Packages with which a path begins if another tool has left out the folder of sys.path."""
_OFTEN_SCRIPTS = frozenset({"cmd", "code", "profile", "test", "this", "trace"})
"""Modules of the standard library whose names people give their own programs."""
_CUT = rf"^({_PACKAGES})(?:[/\\].*)?\.pyc?$"
_CUT_STANDARD = rf"^(?:{'|'.join(sorted(sys.stdlib_module_names - _OFTEN_SCRIPTS))})(?:[/\\].*)?\.pyc?$"
_TYPED = r"^<(?:string|stdin|ipython-input)"
"""Code that its author typed or passed as text: it has no file, but is their own."""
_GENERATED = r"^<|[/\\]torchinductor_[^/\\]+[/\\]|[/\\]c[a-z2-7]{51}\.py$"
_OURS = r"(?:^|[/\\])aiflame[/\\](?:target|intra)[/\\]"


def package(file: str = "file") -> pl.Expr:
    """`torch` for a file of an installed package, `python` for one of the standard library or of the system, `generated` for code that a
    compiler wrote; "" for the program's own files and for code without a file."""
    path = pl.col(file)
    return (
        pl.when(path.str.contains(_INSTALLED))
        .then(path.str.replace(_INSTALLED, "${1}"))
        .when(path.str.contains(_STANDARD))
        .then(pl.lit(STANDARD_LIBRARY))
        .when(path.str.contains(_TORCH))
        .then(pl.lit("torch"))
        .when(path.str.contains(_CUT))
        .then(path.str.replace(_CUT, "${1}"))
        .when(path.str.contains(_CUT_STANDARD))
        .then(pl.lit(STANDARD_LIBRARY))
        .when(path.str.contains(_OURS))
        .then(pl.lit("aiflame"))
        .when(path.str.contains(_GENERATED) & ~path.str.contains(_TYPED))
        .then(pl.lit(GENERATED))
        .otherwise(pl.lit(""))
    )


def library(file: str = "file") -> pl.Expr:
    """The same, with the module's name for files of Python's standard library: `json`."""
    module = pl.col(file).str.extract(_MODULE_FILE)
    frozen = pl.col(file).str.extract(_MODULE_FROZEN)
    return pl.when(package(file) == STANDARD_LIBRARY).then(pl.coalesce(module, frozen, pl.lit(STANDARD_LIBRARY))).otherwise(package(file))


def package_of(file: str) -> str:
    """The same for one file."""
    return str(pl.DataFrame({"file": [file]}).select(package()).item())
