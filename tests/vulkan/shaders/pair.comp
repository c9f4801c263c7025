#version 450
layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std140) uniform In { uvec4 words[4]; } src;
layout(set = 0, binding = 1) buffer Out { uint words[]; } dst;
void main() {
  uint i = gl_LocalInvocationIndex;
  dst.words[i] = src.words[i / 4][i % 4] + 1;
}
