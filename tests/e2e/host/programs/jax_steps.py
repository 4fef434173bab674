"""Programs with JAX, by name; each prints as JSON how many steps it made and how long these took by its own clock.

`train`: two epochs of steps that read the loss each time, with an evaluation after each. `decode`: a prompt, then tokens, each chosen by
a second jitted function. `apart`: three functions in no order. `eager`: no function of its own is jitted. `unchanged`: the answers of a
jitted function to all questions that a program can ask.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

SIZE, LAYERS, EPOCHS, STEPS, BATCHES, TOKENS = 192, 8, 2, 40, 12, 80


def parameters() -> list[Any]:
    return [jax.random.normal(key, (SIZE, SIZE)) / SIZE**0.5 for key in jax.random.split(jax.random.PRNGKey(0), LAYERS)]


def model(weights: list[Any], inputs: Any) -> Any:
    for one in weights:
        inputs = jnp.tanh(inputs @ one)
    return inputs


def loss(weights: list[Any], inputs: Any) -> Any:
    return jnp.mean(model(weights, inputs) ** 2)


@partial(jax.jit, donate_argnums=0)
def train_step(weights: list[Any], inputs: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(weights, inputs)
    return [one - 0.1 * gradient for one, gradient in zip(weights, gradients, strict=True)], value


def train() -> list[int]:
    took, weights, inputs = [], parameters(), jnp.ones((256, SIZE))
    evaluate = jax.jit(loss)
    for _ in range(EPOCHS):
        for _ in range(STEPS):
            began = time.perf_counter_ns()
            weights, value = train_step(weights, inputs)
            float(value)
            took.append(time.perf_counter_ns() - began)
        for _ in range(BATCHES):
            float(evaluate(weights, inputs))
    return took


def decode() -> list[int]:
    forward, choose = jax.jit(model), jax.jit(lambda hidden: jnp.argmax(hidden, axis=-1))
    took, weights = [], parameters()
    token = choose(forward(weights, jnp.ones((512, SIZE))))[-1:]
    for _ in range(TOKENS):
        began = time.perf_counter_ns()
        token = choose(forward(weights, jnp.full((64, SIZE), token[0])))
        jax.block_until_ready(token)
        took.append(time.perf_counter_ns() - began)
    return took


def loss_of_rows(x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ x.T), axis=0)


def loss_of_columns(x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ x.T), axis=1)


def model_of_itself(x: Any) -> Any:
    return model([x], x)


def apart() -> list[int]:
    functions = [jax.jit(one) for one in (loss_of_rows, loss_of_columns, model_of_itself)]
    order, value = random.Random(0), jnp.ones((SIZE, SIZE))
    for _ in range(200):
        jax.block_until_ready(functions[order.randrange(3)](value))
    return []


def eager() -> list[int]:
    value = jnp.ones((SIZE, SIZE))
    for _ in range(300):
        value = jnp.tanh(value @ value.T) / SIZE
    jax.block_until_ready(value)
    return []


def by_itself(number: Any) -> Any:
    return number + 1


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


def unchanged() -> dict[str, object]:
    function = jax.jit(by_itself)
    donated = jnp.ones(4)
    jax.jit(by_itself, donate_argnums=0)(donated)
    return {
        "type": str(type(function)),
        "mro": [one.__name__ for one in type(function).__mro__],
        "same type as JAX's own": type(function) is type(jax.nn.relu) or type(function) is type(jax.jit(jnp.dot)),
        "attributes": sorted(vars(function)),
        "dir": dir(function),
        "repr": repr(function).partition(" at 0x")[0],
        "wrapped": function.__wrapped__ is by_itself,
        "lowered": float(function.lower(1.0).compile()(1.0)),
        "traced": str(function.trace(1.0).jaxpr),
        "shape": str(function.eval_shape(jnp.ones((2, 3)))),
        "pickled": refused(lambda: pickle.loads(pickle.dumps(function))(1.0)),
        "weak": weakref.ref(function)() is function,
        "cache": function._cache_size(),
        "named": float(jax.jit(lambda *, x, y=2.0: x - y)(x=5.0)),
        "static": float(jax.jit(lambda x, n: x * n, static_argnums=1)(2.0, 4)),
        "donated": donated.is_deleted(),
        "within": float(jax.jit(lambda x: function(x) * 2)(1.0)),
        "gradient": float(jax.grad(jax.jit(lambda x: x**2))(3.0)),
        "mapped": jax.vmap(function)(jnp.arange(3.0)).tolist(),
        "method": float(jax.jit(Scaled(3.0).by)(2.0)),
        "error": refused(lambda: function("text")),
        "error within": refused(lambda: jax.jit(lambda x: 1 if x > 0 else 2)(1.0)),
        "after an error": float(function(1.0)),
        "cleared": function.clear_cache() is None and function._cache_size() == 0,
    }


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def by(self, value: Any) -> Any:
        return value * self.scale


if __name__ == "__main__":
    print(json.dumps({"train": train, "decode": decode, "apart": apart, "eager": eager, "unchanged": unchanged}[sys.argv[1]]()))
