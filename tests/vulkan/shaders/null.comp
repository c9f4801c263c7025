#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Out { uint words[]; } dst;
layout(set = 0, binding = 1) readonly buffer In { uint words[4]; } src;
layout(set = 0, binding = 2) uniform texture2D picture;
void main() {
  dst.words[0] = src.words[1];
  dst.words[1] = uint(texelFetch(picture, ivec2(0), 0).r * 255.0);
}
