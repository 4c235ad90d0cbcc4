//! `linear_vector`: a linear layer of few rows, one pass over the weight.

use super::linear::{Alignment, Ending, Form, INSIDE, LinearProblem, Loads, VECTOR_ROWS, four};
use super::quantised::Packing;
use super::sdpa_streaming::Processor;
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_vector",
    wgsl: include_str!("linear_vector.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// How the lanes of a strip come to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// So many at a time across subgroups, which have at least as many invocations: a power of two, 4 to 32. What is left
    /// through workgroup memory.
    Subgroups(u32),
    /// Through workgroup memory, on any device.
    Memory,
}

/// How a workgroup shares the work; names as in the WGSL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The most rows of x: 1 to [`VECTOR_ROWS`].
    pub rows: u32,
    /// Strips of a workgroup.
    pub strips: u32,
    /// Invocations of a strip: at least four a row, and a multiple of what adds across subgroups.
    pub lanes: u32,
    /// Words of eight columns in a load of a weight of 4-bit numbers: 1, or 2 or 4 where they have a scale in common.
    pub words: u32,
    /// Loads of a lane and row of the weight before the first is used.
    pub turns: u32,
    /// Whether a lane's turns are the whole row: a workgroup then loads x once for all its blocks, and there are at most
    /// this many workgroups.
    pub most_workgroups: Option<u32>,
    /// Columns of a weight of 4-bit numbers that share a scale.
    pub group: u32,
    /// How the lanes come to a sum.
    pub reduction: Reduction,
}

/// Invocations that fill a large GPU where each keeps some of x in registers: 512 on each of 132 processors.
const GPU_INVOCATIONS: u32 = 132 * 512;
/// Rows of a weight of 4-bit numbers beyond which it pays to keep x: more blocks than a large GPU takes at once.
const MANY_WEIGHT_ROWS: u32 = 4096;
/// Columns from which on it pays to load two words at once.
const MANY_COLUMNS: u32 = 1536;
/// Words of x that an invocation may keep, of eight columns each.
const KEPT_WORDS: u32 = 8;

/// The shape for a problem. `smallest_subgroup` is the device's smallest, where it has subgroups.
pub fn shape(problem: &LinearProblem, loads: Loads, processor: Processor, smallest_subgroup: Option<u32>) -> Shape {
    let subgroup = smallest_subgroup.filter(|&size| size >= 4);
    let shape = match (processor, loads) {
        (Processor::Cpu, _) => few_lanes(problem, 8),
        (Processor::Gpu, _) if subgroup.is_none() => many_lanes(problem, loads, 128),
        (Processor::Gpu, Loads::Q4(packing)) => keeping(problem, packing).unwrap_or_else(|| numbers(problem, packing)),
        (Processor::Gpu, Loads::F32(_)) => floats(problem),
    };
    match subgroup {
        // An exchange of lanes needs no more of a subgroup than there are.
        Some(size) => Shape { reduction: Reduction::Subgroups(size.min(shape.lanes).min(32)), ..shape },
        None => shape,
    }
}

/// A strip of at least so many lanes, in a small workgroup: what suits a CPU, and rows of few columns.
fn few_lanes(problem: &LinearProblem, lanes: u32) -> Shape {
    let rows = problem.rows.min(VECTOR_ROWS);
    // Each element of a block has an invocation that writes it.
    let lanes = lanes.max((4 * rows).next_power_of_two());
    let (strips, group, reduction) = ((64 / lanes).max(1), problem.weight.group(), Reduction::Memory);
    Shape { rows, strips, lanes, words: 1, turns: 1, most_workgroups: None, group, reduction }
}

/// A lane for each load of a row, up to a limit.
fn many_lanes(problem: &LinearProblem, loads: Loads, most: u32) -> Shape {
    let columns = if matches!(loads, Loads::F32(_)) { 4 } else { 8 };
    let lanes = problem.in_features.div_ceil(columns);
    few_lanes(problem, if lanes > 32 { lanes.next_multiple_of(64).min(most) } else { lanes.next_power_of_two() })
}

/// The whole row at once where 256 lanes can, so that all is waited for once.
fn numbers(problem: &LinearProblem, packing: Packing) -> Shape {
    let shape = many_lanes(problem, Loads::Q4(packing), 128);
    if problem.rows > 1 {
        return Shape { turns: if problem.in_features >= 1024 { 2 } else { 1 }, ..shape };
    }
    if problem.in_features < MANY_COLUMNS {
        // A second strip finds x in the cache.
        return Shape { strips: if shape.lanes < 64 { shape.strips } else { 2 }, ..shape };
    }
    let words = if packing == Packing::Loads { 2 } else { 1 };
    let (lanes, turns) = lanes_and_turns(problem.in_features.div_ceil(8 * words), 128);
    Shape { strips: 1, lanes, words, turns, ..shape }
}

/// The same over an f32 weight, which has more loads.
fn floats(problem: &LinearProblem) -> Shape {
    let shape = many_lanes(problem, Loads::F32(Alignment::Four), 256);
    if problem.rows > 1 || shape.lanes < 64 {
        return shape;
    }
    let (lanes, turns) = lanes_and_turns(problem.in_features.div_ceil(4), 256);
    Shape { lanes: lanes.next_multiple_of(64), turns, ..shape }
}

/// So many lanes and turns that a row's loads take as few rounds as possible, each of equal size: two turns where more
/// than `most` lanes would be needed.
fn lanes_and_turns(loads: u32, most: u32) -> (u32, u32) {
    let round = loads.div_ceil(loads.div_ceil(512));
    let turns = if round > most { 2 } else { 1 };
    (round.div_ceil(turns).next_multiple_of(32), turns)
}

/// Workgroups that stay, and keep x in registers: for weights of so many rows that instructions count, not latencies.
fn keeping(problem: &LinearProblem, packing: Packing) -> Option<Shape> {
    if problem.weight_rows() <= MANY_WEIGHT_ROWS || packing == Packing::Any {
        return None;
    }
    let plain = few_lanes(problem, 32);
    let fits = |&[words, turns]: &[u32; 2]| {
        let is_aligned = words == 1 || packing == Packing::Loads;
        // Of several rows two words pay even where lanes have nothing to do.
        let is_wide = words == 2 || packing == Packing::Words || plain.rows == 1;
        words * turns * plain.rows <= KEPT_WORDS && is_aligned && is_wide
    };
    let shape = |[words, turns]: [u32; 2]| {
        let lanes = problem.in_features.div_ceil(8 * words * turns).next_multiple_of(32);
        let strips = if lanes == 32 { 2 } else { 1 };
        Shape { strips, lanes, words, turns, most_workgroups: Some(GPU_INVOCATIONS / (strips * lanes)), ..plain }
    };
    let shapes = [[2, 2], [1, 3], [2, 1], [1, 2], [2, 4], [1, 1]].into_iter().filter(fits).map(shape);
    // Columns that there is room for: the fewer, the fewer lanes have nothing to do. The first of equals.
    shapes.filter(|shape| shape.lanes <= 256).min_by_key(|shape| shape.words * shape.turns * shape.lanes)
}

/// The variant of a form and a shape.
pub fn variant(form: Form, shape: Shape) -> Variant {
    let Shape { rows, strips, lanes, turns, most_workgroups, reduction, .. } = shape;
    let (label, floats, weights) = match form.loads {
        Loads::F32(alignment) => ("linear_vector_f32", alignment, float_loads(alignment)),
        Loads::Q4(packing) => {
            ("linear_vector_q4", packing.alignment(), number_loads((packing, form.ending), shape.words, shape.group))
        }
    };
    let (joined, across, subgroup_size) = match reduction {
        Reduction::Subgroups(size) => (size, "subgroupShuffleXor(x, distance)", size),
        Reduction::Memory => (1, "x", 0),
    };
    let residual = if form.ending == Ending::Add { "residual[index]" } else { "0.0" };
    let workgroup_size = strips * lanes;
    let block = format!(
        "const WORKGROUP_SIZE: u32 = {workgroup_size}u;\n\
         const LANES: u32 = {lanes}u;\n\
         const JOINED: u32 = {joined}u;\n\
         const TURNS: u32 = {turns}u;\n\
         const ROWS: u32 = {rows}u;\n\
         const KEEPS_X: bool = {};\n\
         const HAS_NORM: bool = {};\n\
         {}{weights}\
         const OUTPUTS: u32 = {}u;\n\
         fn residual_at(index: u32) -> f32 {{ return {residual}; }}\n\
         {}\
         fn across(x: f32, distance: u32) -> f32 {{ return {across}; }}\n",
        most_workgroups.is_some(),
        form.has_norm,
        x_loads(floats),
        outputs(form.ending),
        ending(form.ending),
    );
    let partials = rows * workgroup_size / joined;
    let buffers = if most_workgroups.is_some() { 2 } else { 1 };
    let squares = if form.has_norm { partials } else { 1 };
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size,
        workgroup_bytes: partials * buffers * 16 + (squares * 4).next_multiple_of(16),
        needs: Needs { subgroup_size, ..Needs::default() },
    }
}

/// One of four columns, or the last one.
const CLAMPED: &str = "min(column + #u, params.in_features - 1u)";

/// How x and the weight of its norm are loaded.
fn x_loads(alignment: Alignment) -> String {
    let (floats, x, norm, inside) = match alignment {
        Alignment::Four => (
            "vec4<f32>",
            "x[row * (params.in_features / 4u) + column / 4u]".to_owned(),
            "norm[column / 4u]".to_owned(),
            "quad",
        ),
        Alignment::One => {
            let x = format!("x[row * params.in_features + {CLAMPED}]");
            ("f32", four(&x), four(&format!("norm[{CLAMPED}]")), INSIDE)
        }
    };
    format!(
        "alias Floats = {floats};\n\
         fn x_quad(row: u32, column: u32) -> vec4<f32> {{ return {x}; }}\n\
         fn norm_quad(column: u32) -> vec4<f32> {{ return {norm}; }}\n\
         fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> {{ return {inside}; }}\n"
    )
}

/// How four columns of an f32 weight are loaded; it has no scales.
fn float_loads(alignment: Alignment) -> String {
    let (stored, load, values) = match alignment {
        Alignment::Four => ("vec4<f32>", "weight[row * (params.in_features / 4u) + column / 4u]".to_owned(), "load"),
        Alignment::One => {
            ("f32", four(&format!("weight[row * params.in_features + {CLAMPED}]")), "inside(load, column)")
        }
    };
    format!(
        "const COLUMNS: u32 = 4u;\n\
         alias Stored = {stored};\n\
         alias Load = vec4<f32>;\n\
         fn load(row: u32, column: u32) -> Load {{ return {load}; }}\n\
         fn values(load: Load, quad: u32, row: u32, column: u32) -> vec4<f32> {{ return {values}; }}\n\
         alias Scales = f32;\n\
         fn shared_scales(first_row: u32, column: u32) -> vec4<f32> {{ return vec4<f32>(1.0); }}\n"
    )
}

/// How a word of eight columns is loaded, and what scales the four rows of a block have in common there: all, or none,
/// where a word may have more than one and each number takes its own.
fn number_loads((packing, ending): (Packing, Ending), words: u32, group: u32) -> String {
    const WORD: &str = "return weight[row * (params.in_features / COLUMNS) + column / COLUMNS];";
    const ANY: &str = concat!(
        "let first = row * (params.in_features / 2u) + column / 2u; let shift = first % 4u * 8u; ",
        "let second = weight[min(first / 4u + 1u, arrayLength(&weight) - 1u)]; ",
        "return (weight[first / 4u] >> shift) | ((second << 1u) << (31u - shift));",
    );
    let (load_type, numbers) = match words {
        1 => ("u32".to_owned(), "numbers(load >> (quad * 16u))"),
        _ => (format!("vec{words}<u32>"), "numbers(load[quad / 2u] >> (quad % 2u * 16u))"),
    };
    let first = |row: &str, column: &str| format!("{column} / {group}u * (PARTS * params.out_features) + {row}");
    let shared = first("first_row", "column");
    let (load, values, scales, shared) = match (packing, ending) {
        (Packing::Loads | Packing::Words, Ending::Plain | Ending::Add) => {
            (WORD, numbers.to_owned(), "vec4<f32>", format!("return scales[({shared}) / 4u];"))
        }
        (Packing::Loads | Packing::Words, Ending::SwiGlu) => (
            WORD,
            numbers.to_owned(),
            "vec2<f32>",
            format!("let i = ({shared}) / 2u; return vec4<f32>(scales[i], scales[i + params.out_features / 2u]);"),
        ),
        (Packing::Any, _) => {
            let own = four(&format!("scales[{}]", first("row", CLAMPED)));
            (ANY, format!("inside({numbers} * {own}, column)"), "f32", "return vec4<f32>(1.0);".to_owned())
        }
    };
    format!(
        "const COLUMNS: u32 = {}u;\n\
         alias Stored = {load_type};\n\
         alias Load = {load_type};\n\
         fn load(row: u32, column: u32) -> Load {{ {load} }}\n\
         fn values(load: Load, quad: u32, row: u32, column: u32) -> vec4<f32> {{ return {values}; }}\n\
         alias Scales = {scales};\n\
         fn shared_scales(first_row: u32, column: u32) -> vec4<f32> {{ {shared} }}\n",
        words * 8
    )
}

/// Elements of the result that four rows of the weight make.
const fn outputs(ending: Ending) -> u32 {
    match ending {
        Ending::Plain | Ending::Add => 4,
        Ending::SwiGlu => 2,
    }
}

const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Plain => "fn ending(products: vec2<f32>, residual: f32) -> f32 { return products.x; }\n",
        Ending::Add => "fn ending(products: vec2<f32>, residual: f32) -> f32 { return products.x + residual; }\n",
        // The exponential of a negative number never overflows: shaders may assume that nothing is infinite.
        Ending::SwiGlu => concat!(
            "fn ending(products: vec2<f32>, residual: f32) -> f32 { let t = exp(-abs(products.x)); ",
            "return products.x * (select(t, 1.0, products.x >= 0.0) / (1.0 + t)) * products.y; }\n"
        ),
    }
}

/// Workgroups of a step.
pub fn workgroups(problem: &LinearProblem, shape: Shape) -> u64 {
    let blocks = problem.out_features.div_ceil(shape.strips * outputs(problem.ending));
    shape.most_workgroups.map_or(blocks, |most| blocks.min(most)).into()
}

/// Some of everything: all loads and endings, both reductions, few rows and many.
pub(super) fn representatives() -> Vec<Variant> {
    let reduction = Reduction::Subgroups(32);
    let memory = Shape {
        rows: 1,
        strips: 2,
        lanes: 32,
        words: 1,
        turns: 1,
        most_workgroups: None,
        group: 32,
        reduction: Reduction::Memory,
    };
    let subgroups = Shape { rows: 4, strips: 1, lanes: 128, turns: 2, reduction, ..memory };
    let wide = Shape { rows: 2, strips: 1, turns: 3, most_workgroups: Some(384), ..subgroups };
    let loads =
        [Loads::F32(Alignment::Four), Loads::F32(Alignment::One), Loads::Q4(Packing::Loads), Loads::Q4(Packing::Any)];
    let forms = loads.into_iter().flat_map(|loads| {
        let form = |has_norm, ending| Form { loads, has_norm, ending };
        [
            (form(false, Ending::Plain), memory),
            (form(true, Ending::Plain), subgroups),
            (form(false, Ending::Add), wide),
            (form(true, Ending::SwiGlu), subgroups),
            (form(true, Ending::SwiGlu), Shape { rows: 4, ..memory }),
        ]
    });
    forms.map(|(form, shape)| variant(form, shape)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::linear::WeightType;
    use super::*;

    const PLAIN: LinearProblem = LinearProblem {
        rows: 1,
        in_features: 8,
        out_features: 8,
        weight: WeightType::F32,
        has_bias: false,
        has_norm: false,
        ending: Ending::Plain,
    };

    #[test]
    fn workgroups_cover_what_no_strip_divides() {
        let problem = |out_features| LinearProblem { out_features, ..PLAIN };
        let shape = Shape { strips: 2, ..few_lanes(&PLAIN, 32) };
        assert_eq!([1, 8, 9, 800].map(|outputs| workgroups(&problem(outputs), shape)), [1, 1, 2, 100]);
        let limited = Shape { most_workgroups: Some(10), ..shape };
        assert_eq!([1, 80, 800].map(|outputs| workgroups(&problem(outputs), limited)), [1, 10, 10]);
    }

    /// Strips, lanes, words, turns and workgroups on a large GPU.
    fn on_gpu(rows: u32, [in_features, out_features]: [u32; 2], weight: WeightType) -> ([u32; 4], Option<u32>) {
        let problem = LinearProblem { rows, in_features, out_features, weight, ..PLAIN };
        let loads = Loads::of(weight, in_features, out_features);
        let shape = shape(&problem, loads, Processor::Gpu, Some(32));
        assert_eq!(shape.reduction, Reduction::Subgroups(shape.lanes.min(32)));
        ([shape.strips, shape.lanes, shape.words, shape.turns], shape.most_workgroups)
    }

    #[test]
    fn shapes_are_those_that_were_measured() {
        let q4 = WeightType::Q4 { group: 32 };
        assert_eq!(on_gpu(1, [576, 960], q4), ([2, 128, 1, 1], None));
        assert_eq!(on_gpu(1, [1536, 576], q4), ([1, 96, 2, 1], None));
        assert_eq!(on_gpu(1, [2048, 2048], q4), ([1, 128, 2, 1], None));
        assert_eq!(on_gpu(1, [4096, 4096], q4), ([1, 128, 2, 2], None));
        assert_eq!(on_gpu(1, [8192, 2048], q4), ([1, 256, 2, 2], None));
        assert_eq!(on_gpu(1, [14336, 4096], q4), ([1, 224, 2, 2], None));
        assert_eq!(on_gpu(1, [4096, 6144], q4), ([1, 128, 2, 2], Some(528)));
        assert_eq!(on_gpu(1, [576, 49152], q4), ([2, 32, 1, 3], Some(1056)));
        assert_eq!(on_gpu(1, [4096, 28672], q4), ([1, 128, 2, 2], Some(528)));
        assert_eq!(on_gpu(1, [14336, 8192], q4), ([1, 224, 2, 4], Some(301)));
        assert_eq!(on_gpu(4, [576, 960], q4), ([1, 128, 1, 1], None));
        assert_eq!(on_gpu(4, [576, 49152], q4), ([1, 64, 2, 1], Some(1056)));
        assert_eq!(on_gpu(1, [64, 64], q4), ([8, 8, 1, 1], None));
        assert_eq!(on_gpu(1, [576, 576], WeightType::F32), ([1, 192, 1, 1], None));
        assert_eq!(on_gpu(1, [4096, 4096], WeightType::F32), ([1, 256, 1, 2], None));
    }

    #[test]
    fn shapes_keep_to_the_limits_of_every_device() {
        let weights = [WeightType::F32, WeightType::Q4 { group: 32 }, WeightType::Q4 { group: 2 }];
        let sizes = [2, 8, 64, 576, 2048, 14336, 40960].into_iter().flat_map(|inputs| [(inputs, 4), (inputs, 99_996)]);
        for ((in_features, out_features), rows) in sizes.flat_map(|sizes| (1..=6).map(move |rows| (sizes, rows))) {
            for (weight, ending) in weights.into_iter().flat_map(|it| [(it, Ending::Add), (it, Ending::SwiGlu)]) {
                let problem =
                    LinearProblem { rows, in_features, out_features, weight, has_norm: true, ending, ..PLAIN };
                for (processor, subgroup) in [
                    (Processor::Gpu, None),
                    (Processor::Gpu, Some(8)),
                    (Processor::Gpu, Some(64)),
                    (Processor::Cpu, Some(8)),
                ] {
                    let form = Form::of(&problem);
                    let shape = shape(&problem, form.loads, processor, subgroup);
                    let variant = variant(form, shape);
                    assert!(variant.workgroup_size <= 256 && variant.workgroup_bytes <= 16384, "{problem:?} {shape:?}");
                    assert!(variant.needs.subgroup_size <= subgroup.unwrap_or(0), "{shape:?}");
                    // Each element of a block has an invocation, and each row of the weight a lane.
                    assert!(shape.rows * 4 <= shape.lanes && shape.rows == rows.min(4), "{shape:?}");
                    if let Reduction::Subgroups(size) = shape.reduction {
                        assert!(size >= 4 && shape.lanes.is_multiple_of(size), "{shape:?}");
                    }
                    let columns = if weight == WeightType::F32 { 4 } else { 8 * shape.words };
                    let whole = shape.lanes * shape.turns * columns >= in_features;
                    assert!(whole || shape.most_workgroups.is_none(), "{problem:?} {shape:?}");
                }
            }
        }
    }
}
