"""Gradients, a jitted loop and a convolution on the CPU: their results, to six digits."""

import face
import jax
import jax.numpy as jnp


def loss(parameters, inputs, targets):
    hidden = inputs
    for weights, bias in parameters:
        hidden = jnp.tanh(hidden @ weights + bias)
    return jnp.mean((hidden - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    return value, jax.tree_util.tree_map(lambda old, gradient: old - 0.1 * gradient, parameters, gradients)


keys = jax.random.split(jax.random.PRNGKey(0), 8)
sizes = [512, 512, 512, 64]
shapes = list(zip(sizes, sizes[1:], strict=False))
parameters = [(jax.random.normal(key, shape) * 0.05, jnp.zeros(shape[1])) for key, shape in zip(keys, shapes, strict=False)]
inputs, targets = jax.random.normal(keys[6], (256, sizes[0])), jax.random.normal(keys[7], (256, sizes[-1]))
for _ in range(20):
    value, parameters = step(parameters, inputs, targets)
print(f"loss {value:.6f}")

looped = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: jnp.sin(y @ y.T / 256) + x, x))
print(f"loop {jnp.sum(looped(inputs[:256, :256])):.3f}")

image, kernel = inputs.reshape(8, 1, 128, 128), jnp.ones((4, 1, 5, 5)) / 25
blur = jax.jit(jax.grad(lambda k: jnp.sum(jax.lax.conv(image, k, (1, 1), "SAME") ** 2)))
print(f"convolution {jnp.sum(blur(kernel)):.3f}")
for size in (64, 333):
    product = inputs[:, :size].T @ inputs[:, :size]
    print(
        f"product {size} {jnp.sum(jnp.abs(product)):.3f}, solved {jnp.sum(jnp.linalg.solve(product + 300 * jnp.eye(size), jnp.ones(size))):.5f}"
    )
print(*(line for line in face.own() if not line.startswith("Threads")), sep="\n")
