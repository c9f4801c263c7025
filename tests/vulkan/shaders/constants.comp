#version 450
layout(local_size_x = 32) in;
layout(push_constant) uniform Constants { uvec4 words[8]; } c;
layout(set = 0, binding = 0) buffer Out { uint words[]; };
void main() {
  uint i = gl_LocalInvocationIndex;
  words[i] = c.words[i / 4][i % 4];
}
