#version 450
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) readonly buffer In { uint words[]; } src[4];
layout(set = 0, binding = 1) buffer Out { uint words[]; } dst;
void main() {
  uint i = gl_LocalInvocationIndex;
  uint value = 0;
  switch (i % 4) {
    case 0: value = src[0].words[i]; break;
    case 1: value = src[1].words[i]; break;
    case 2: value = src[2].words[i]; break;
    case 3: value = src[3].words[i]; break;
  }
  dst.words[i] = value;
}
