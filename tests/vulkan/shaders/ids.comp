#version 450
layout(local_size_x = 2, local_size_y = 1, local_size_z = 2) in;
layout(set = 0, binding = 0) buffer Out { uvec4 words[]; };
void main() {
  uvec3 g = gl_GlobalInvocationID;
  uint i = (g.x + 8 * (g.y + 4 * g.z)) % 256;
  words[i] = uvec4(gl_WorkGroupID, gl_LocalInvocationIndex + 100 * gl_NumWorkGroups.x);
}
