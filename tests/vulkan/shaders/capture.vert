#version 450
layout(location = 0, xfb_buffer = 0, xfb_offset = 0, xfb_stride = 28) out vec3 position;
layout(location = 1, xfb_buffer = 0, xfb_offset = 12, xfb_stride = 28) out vec4 color;
void main() {
  vec2 corner = vec2(gl_VertexIndex == 1 ? 0.4 : 0.0, gl_VertexIndex == 2 ? 0.8 : 0.0);
  position = vec3(corner + vec2(-0.9 + 0.5 * float(gl_InstanceIndex), -0.4), 0.0);
  color = vec4(1.0, 0.25 * float(gl_InstanceIndex), 0.5, 1.0);
  gl_Position = vec4(position, 1.0);
}
