// calibrate_fma: multiply-adds on registers, to measure how fast the device computes in f32 or f16.
//
// Every invocation keeps eight independent chains of vec4, so that one waits for none of the others, and writes one lane
// in the end, so that nothing can be left out. Each turn of the loop does eight steps of every chain: counting turns
// costs little beside them.

// variant {
alias Real = f32;
// }

struct Params {
    iterations: u32,
    invocations: u32,
}

const WORKGROUP_SIZE: u32 = 256u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> destination: array<vec4<f32>>;

// The factor keeps every chain finite, whatever the number of iterations.
const FACTOR: vec4<Real> = vec4<Real>(0.5);

fn steps(x: vec4<Real>, term: vec4<Real>) -> vec4<Real> {
    let x4 = fma(fma(fma(fma(x, FACTOR, term), FACTOR, term), FACTOR, term), FACTOR, term);
    return fma(fma(fma(fma(x4, FACTOR, term), FACTOR, term), FACTOR, term), FACTOR, term);
}

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
    // A small number, so that no chain leaves the range of f16.
    let term = vec4<Real>(Real(invocation % 64u), 1.0, 2.0, 3.0);
    var a = term;
    var b = term + 1.0;
    var c = term + 2.0;
    var d = term + 3.0;
    var e = term + 4.0;
    var f = term + 5.0;
    var g = term + 6.0;
    var h = term + 7.0;
    for (var i = 0u; i < params.iterations; i += 1u) {
        a = steps(a, term);
        b = steps(b, term);
        c = steps(c, term);
        d = steps(d, term);
        e = steps(e, term);
        f = steps(f, term);
        g = steps(g, term);
        h = steps(h, term);
    }
    destination[invocation] = vec4<f32>((a + b) + (c + d) + (e + f) + (g + h));
}
