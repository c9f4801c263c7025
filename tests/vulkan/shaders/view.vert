#version 450
#extension GL_EXT_multiview : require
layout(location = 0) out vec4 color;
void main() {
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
  color = gl_ViewIndex == 0 ? vec4(1, 0, 0, 1) : vec4(0, 1, 0, 1);
}
