#version 450
layout(triangles, equal_spacing, cw) in;
layout(location = 0) in vec4 in_color[];
layout(location = 0) out vec4 color;
void main() {
  vec4 p = vec4(0.0);
  color = vec4(0.0);
  for (int i = 0; i < 3; i++) {
    p += gl_TessCoord[i] * gl_in[i].gl_Position;
    color += gl_TessCoord[i] * in_color[i];
  }
  gl_Position = p + vec4(0.1 * gl_TessCoord.x * gl_TessCoord.y, 0.0, 0.0, 0.0);
}
