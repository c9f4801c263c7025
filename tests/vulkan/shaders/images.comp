#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0) uniform sampler2D nearest;
layout(set = 0, binding = 1) uniform texture2D separate;
layout(set = 0, binding = 2) uniform sampler plain;
layout(set = 0, binding = 3) uniform sampler2D linear;
layout(set = 0, binding = 4, rgba8) uniform image2D target;
void main() {
  ivec2 at = ivec2(gl_GlobalInvocationID.xy);
  vec2 uv = (vec2(at) + 0.5) / 16.0;
  float r = textureLod(nearest, uv, 0.0).r;
  float g = textureLod(sampler2D(separate, plain), uv + vec2(0.3, 0.0), 0.0).g;
  float b = textureLod(linear, uv * 1.7 + 0.02, 0.0).b;
  float a = texelFetch(nearest, at.yx, 0).a;
  imageStore(target, at, vec4(r, g, b, a));
}
