inline float square(float x) { return x * x; }

__kernel void first(__global float *c) {
    size_t i = get_global_id(0);
    c[i] = square(c[i]);
}

__kernel void second(__global float *c, float by) {
    size_t i = get_global_id(0);
    if (c[i] > by)
        c[i] = square(c[i] - by) + 1.0f;
}

__kernel void third(__global float *c) {
    size_t i = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k < 100; ++k)
        sum += square(c[i] + k);
    c[i] = sum;
}
