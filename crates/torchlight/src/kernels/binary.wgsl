// binary: out = combine(a, b), element by element, for shapes that are equal or broadcast.
//
// Every input has one stride a dimension of the result, which is 0 where the input has size 1. Where all shapes are
// equal, DENSE reads and writes lanes at the same place instead.

// variant {
alias Lanes = f32;
const DENSE: bool = false;
fn combine(a: Lanes, b: Lanes) -> Lanes { return a + params.alpha * b; }
// }

struct Params {
    lanes: u32,  // lanes of the result
    rank: u32,
    alpha: f32,  // factor on b, for sums
    sizes: array<vec4<u32>, 2>,      // of the result, outermost first
    a_strides: array<vec4<u32>, 2>,  // in elements
    b_strides: array<vec4<u32>, 2>,
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<Lanes>;
@group(0) @binding(2) var<storage, read> b: array<Lanes>;
@group(0) @binding(3) var<storage, read_write> out: array<Lanes>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if (lane >= params.lanes) {
        return;
    }
    var a_lane = lane;
    var b_lane = lane;
    if (!DENSE) {
        a_lane = 0u;
        b_lane = 0u;
        var rest = lane;
        for (var i = params.rank; i > 0u; i -= 1u) {
            let dim = i - 1u;
            let size = params.sizes[dim / 4u][dim % 4u];
            let position = rest % size;
            rest /= size;
            a_lane += position * params.a_strides[dim / 4u][dim % 4u];
            b_lane += position * params.b_strides[dim / 4u][dim % 4u];
        }
    }
    out[lane] = combine(a[a_lane], b[b_lane]);
}
