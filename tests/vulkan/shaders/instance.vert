#version 450
layout(location = 0) in vec2 offset;
layout(location = 1) in vec4 in_color;
layout(location = 0) out vec4 color;
void main() {
  vec2 p = vec2(gl_VertexIndex == 1 ? 0.3 : 0.0, gl_VertexIndex == 2 ? 0.5 : 0.0);
  gl_Position = vec4(p + offset, 0.0, 1.0);
  color = in_color;
}
