#version 450
layout(location = 3) in vec4 value;
layout(location = 0) out vec4 color;
void main() {
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
  color = value;
}
