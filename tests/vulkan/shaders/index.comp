#version 450
#extension GL_EXT_nonuniform_qualifier : require
layout(local_size_x = 10) in;
layout(set = 0, binding = 0) buffer Out { uint words[]; } dst;
layout(set = 0, binding = 1) readonly buffer In { uint words[]; } src[];
void main() {
  uint i = gl_LocalInvocationIndex;
  dst.words[i] = src[nonuniformEXT(i * 2)].words[0];
}
