#version 450
#extension GL_ARB_shader_viewport_layer_array : require
layout(location = 0) out vec4 color;
out gl_PerVertex { vec4 gl_Position; float gl_ClipDistance[1]; };
void main() {
  vec2 p = vec2(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0);
  gl_Position = vec4(p, 0.25, 1.0);
  gl_ClipDistance[0] = 0.6 - p.x;
  gl_ViewportIndex = gl_InstanceIndex;
  color = vec4(gl_InstanceIndex == 0, gl_InstanceIndex == 1, gl_InstanceIndex == 2, 1.0);
}
