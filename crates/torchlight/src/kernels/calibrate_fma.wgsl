// calibrate_fma: multiply-adds on registers, to measure how fast the device computes in f32.
//
// Every invocation keeps eight independent chains of vec4, so that one waits for none of the others, and writes one lane
// in the end, so that nothing can be left out.

// variant {
// }

struct Params {
    iterations: u32,
    invocations: u32,
}

const WORKGROUP_SIZE: u32 = 256u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> destination: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let invocation = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if (invocation >= params.invocations) {
        return;
    }
    // The factor keeps every chain finite, whatever the number of iterations.
    let factor = vec4<f32>(0.5);
    let term = vec4<f32>(f32(invocation), 1.0, 2.0, 3.0);
    var a = term;
    var b = term + 1.0;
    var c = term + 2.0;
    var d = term + 3.0;
    var e = term + 4.0;
    var f = term + 5.0;
    var g = term + 6.0;
    var h = term + 7.0;
    for (var i = 0u; i < params.iterations; i += 1u) {
        a = fma(a, factor, term);
        b = fma(b, factor, term);
        c = fma(c, factor, term);
        d = fma(d, factor, term);
        e = fma(e, factor, term);
        f = fma(f, factor, term);
        g = fma(g, factor, term);
        h = fma(h, factor, term);
    }
    destination[invocation] = (a + b) + (c + d) + (e + f) + (g + h);
}
