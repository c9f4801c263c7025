#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Constants { uint add; uint count; } c;
layout(set = 0, binding = 0) buffer Data { uint words[]; } data;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < c.count) data.words[i] += c.add;
}
