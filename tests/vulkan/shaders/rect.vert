#version 450
layout(push_constant) uniform Rect {
  vec4 corners;
  vec4 color;
  float depth;
  uint strip;
  float instance_step;
  float padding;
} rect;
layout(location = 0) out vec4 color;
void main() {
  const uint list[6] = uint[](0, 1, 2, 2, 1, 3);
  uint corner = rect.strip != 0 ? uint(gl_VertexIndex) : list[gl_VertexIndex % 6];
  float x = (corner & 1u) != 0 ? rect.corners.z : rect.corners.x;
  float y = (corner & 2u) != 0 ? rect.corners.w : rect.corners.y;
  gl_Position = vec4(x + rect.instance_step * float(gl_InstanceIndex), y, rect.depth, 1.0);
  gl_PointSize = 1.0;
  color = rect.color;
}
