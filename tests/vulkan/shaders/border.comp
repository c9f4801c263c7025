#version 450
layout(local_size_x = 4) in;
layout(set = 0, binding = 0) uniform sampler2D picture;
layout(set = 0, binding = 1) buffer Out { vec4 values[]; } dst;
void main() {
  uint i = gl_LocalInvocationIndex;
  dst.values[i] = textureLod(picture, vec2(-0.5 + 0.4 * float(i), 0.5), 0.0);
}
