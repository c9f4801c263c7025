#version 450
// y = a * x + y
layout(local_size_x = 128) in;
layout(push_constant) uniform Arguments { float a; uint count; };
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) y[i] = a * x[i] + y[i];
}
