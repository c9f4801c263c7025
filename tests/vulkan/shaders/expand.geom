#version 450
layout(points, invocations = 2) in;
layout(triangle_strip, max_vertices = 4) out;
layout(location = 0) in vec4 in_color[];
layout(location = 0) out vec4 color;
void main() {
  float size = 0.15 + 0.1 * float(gl_InvocationID);
  for (int i = 0; i < 4; i++) {
    gl_Position = gl_in[0].gl_Position + vec4((i & 1) != 0 ? size : 0.0, (i & 2) != 0 ? size : 0.0, 0.0, 0.0);
    color = gl_InvocationID == 0 ? in_color[0] : vec4(1.0);
    EmitVertex();
  }
}
