#version 450
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 result;
void main() {
  if ((int(gl_FragCoord.x) + int(gl_FragCoord.y)) % 3 == 0) discard;
  float slope = dFdx(gl_FragCoord.x * gl_FragCoord.x) * 0.01;
  result = vec4(color.r, slope, fwidth(gl_FragCoord.y) * 0.5, gl_FrontFacing ? 1.0 : 0.5);
}
