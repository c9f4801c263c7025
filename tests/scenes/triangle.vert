#version 450
// Three corners on a circle, turned by the push constant (cosine, sine).
layout(push_constant) uniform Turn { vec2 turn; };
layout(location = 0) out vec3 colour;

const vec2 kCorners[3] = vec2[](vec2(0.0, -0.8125), vec2(0.703125, 0.40625), vec2(-0.703125, 0.40625));
const vec3 kColours[3] = vec3[](vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0), vec3(0.0, 0.0, 1.0));

void main() {
  vec2 p = kCorners[gl_VertexIndex];
  gl_Position = vec4(p.x * turn.x - p.y * turn.y, p.x * turn.y + p.y * turn.x, 0.0, 1.0);
  colour = kColours[gl_VertexIndex];
}
