#version 450
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 a;
layout(location = 1) out uint b;
layout(location = 2) out vec4 c;
layout(location = 3) out vec4 d;
void main() {
  a = color;
  b = uint(gl_FragCoord.x) * 1000u + uint(gl_FragCoord.y);
  c = color * 100.0;
  d = vec4(1.0, 0.5, 1.0, 1.0);
}
