#version 450
layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std140) uniform Block { uvec4 words[4]; } block;
layout(set = 0, binding = 1) buffer Out { uint words[]; } dst;
void main() {
  uint i = gl_LocalInvocationIndex;
  dst.words[i] = block.words[i / 4][i % 4];
}
