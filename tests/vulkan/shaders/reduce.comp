#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer In { uint values[]; };
layout(set = 0, binding = 1) buffer Out { uint total; };
shared uint part[256];
void main() {
  uint i = gl_LocalInvocationIndex;
  part[i] = values[gl_GlobalInvocationID.x];
  for (uint step = 128; step > 0; step /= 2) {
    barrier();
    if (i < step) part[i] += part[i + step];
  }
  if (i == 0) atomicAdd(total, part[0]);
}
