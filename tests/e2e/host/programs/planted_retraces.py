"""`planted_retraces.py NAME`: calls a jitted function with arguments that change in one way."""

import sys
from functools import partial

import jax
import jax.numpy as jnp

LAYERS, TIMES = 32, 6


def deep(x, scale=1.0):
    for layer in range(LAYERS):
        x = jnp.tanh(x * scale + layer) @ jnp.ones((x.shape[-1], x.shape[-1]))
    return x


@jax.jit
def sized(batch):  # planted sizes
    return deep(batch["x"])


@partial(jax.jit, static_argnames="scale")
def valued(x, scale):  # planted values
    return deep(x, scale)


@jax.jit
def typed(x, by):  # planted types
    return deep(x.astype(jnp.float32)) * by


def sizes():
    for rows in range(2, 2 + TIMES):
        sized({"x": jnp.ones((rows, 8)), "y": jnp.ones(3)})


def values():
    for scale in range(TIMES):
        valued(jnp.ones((4, 8)), scale=scale / 8)


def types():
    for kind in (jnp.float32, jnp.int32, jnp.int16, jnp.uint8, jnp.float16, jnp.bfloat16, jnp.int8):
        typed(jnp.ones((4, 8), kind), 2)


def functions():
    for _ in range(TIMES):
        jax.jit(lambda x: deep(x))(jnp.ones((4, 8)))  # planted functions


def the_same():
    for _ in range(300):
        sized({"x": jnp.ones((4, 8)), "y": jnp.ones(3)})


def two_sizes():
    for step in range(300):
        sized({"x": jnp.ones((4 + step % 2, 8)), "y": jnp.ones(3)})


def near_misses():
    the_same()
    two_sizes()


globals()[sys.argv[1]]()
