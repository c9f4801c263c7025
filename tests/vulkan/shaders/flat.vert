#version 450
layout(location = 0) flat out vec4 color;
void main() {
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
  color = vec4(gl_VertexIndex == 0, gl_VertexIndex == 1, gl_VertexIndex == 2, 1.0);
}
