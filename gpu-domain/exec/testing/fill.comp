#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kScale = 1;
layout(set = 0, binding = 0) buffer Out { uint v[]; };
layout(push_constant) uniform Push { uint base; };
void main() { v[gl_GlobalInvocationID.x] = base + kScale * gl_GlobalInvocationID.x; }
