#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) uniform textureBuffer src;
layout(set = 0, binding = 1, r32ui) uniform uimageBuffer dst;
void main() {
  int i = int(gl_LocalInvocationIndex);
  vec4 texel = texelFetch(src, i);
  imageStore(dst, i, uvec4(uint(texel.r * 255.0 + 0.5) | uint(textureSize(src)) << 16));
}
