#version 450
layout(vertices = 3) out;
layout(location = 0) in vec4 in_color[];
layout(location = 0) out vec4 color[];
void main() {
  gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;
  color[gl_InvocationID] = in_color[gl_InvocationID];
  gl_TessLevelInner[0] = 3.0;
  gl_TessLevelOuter[0] = 2.0;
  gl_TessLevelOuter[1] = 4.0;
  gl_TessLevelOuter[2] = 3.0;
}
