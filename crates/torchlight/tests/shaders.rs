//! Every kernel's WGSL held against what Rust says about it, and every pipeline built without a driver.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use bytemuck::Zeroable;
use torchlight::Gpu;
use torchlight::gpu::BoundsChecks;
use torchlight::kernels::{self, Access, Bounds, Kernel, Needs, Variant};
use torchlight::plan::PARAMS_SLOT_BYTES;
use wgpu::naga;

/// A field of a params struct: name, offset, type.
type Field = (&'static str, usize, &'static str);

/// The fields of a kernel's params struct. The pattern is exhaustive: a field that is missing here does not compile.
macro_rules! fields {
    ($module:ident { $($field:ident),+ $(,)? }) => {{
        let kernels::$module::Params { $($field),+ } = Zeroable::zeroed();
        vec![$((
            stringify!($field),
            offset_of!(kernels::$module::Params, $field),
            std::any::type_name_of_val(&$field),
        )),+]
    }};
}

fn fields(stem: &str) -> Vec<Field> {
    match stem {
        "apply_rotary_emb" => fields!(apply_rotary_emb { q_pairs, k_pairs, q_heads, k_heads, head_pairs }),
        "binary" => fields!(binary { lanes, rank, alpha, padding, sizes, a_strides, b_strides }),
        "calibrate_copy" => fields!(calibrate_copy { lanes }),
        "calibrate_fma" => fields!(calibrate_fma { iterations, invocations }),
        "embedding_q4" => fields!(embedding_q4 { elements, rows, columns, group }),
        "linear_matrix" | "linear_tile" | "linear_vector" => {
            fields!(linear_vector { rows, in_features, out_features, has_bias, group, eps })
        }
        "calibrate_matrix" => fields!(calibrate_matrix { iterations, workgroups }),
        "embedding" => fields!(embedding { lanes, row_lanes, rows }),
        "rotary_update_cache" => fields!(rotary_update_cache {
            tokens,
            q_pairs,
            kv_pairs,
            head_pairs,
            input_pos,
            first_angle,
            q_first,
            k_first,
            v_first,
            q_step,
            k_step,
            v_step,
        }),
        "rms_norm" => fields!(rms_norm { rows, row_lanes, width, eps }),
        "sdpa_compute_attn_weights" => {
            fields!(sdpa_compute_attn_weights { q_heads, kv_heads, head_lanes, new_tokens, context_len, scale })
        }
        "sdpa_compute_out" => {
            fields!(sdpa_compute_out { q_heads, kv_heads, head_lanes, new_tokens, context_len, column_blocks })
        }
        "sdpa_matrix" => {
            fields!(sdpa_matrix { q_heads, kv_heads, new_tokens, context_len, scale, splits, chunk, row_blocks })
        }
        "sdpa_merge" => fields!(sdpa_merge { rows, splits }),
        "sdpa_split" => fields!(sdpa_split {
            q_heads,
            kv_heads,
            group_heads,
            new_tokens,
            context_len,
            row_blocks,
            splits,
            chunk,
            scale
        }),
        "sdpa_softmax" => fields!(sdpa_softmax { rows, new_tokens, context_len }),
        "sdpa_streaming" => {
            fields!(sdpa_streaming { q_heads, kv_heads, new_tokens, context_len, scale, row_tiles })
        }
        "slice_copy" => fields!(slice_copy { lanes, inner_lanes, count, size, first, step }),
        "unary" => fields!(unary { lanes }),
        "update_cache" => fields!(update_cache { lanes, first_lane }),
        other => panic!("the fields of {other} are not listed here"),
    }
}

/// What naga must allow for a variant to be valid: no more than what the variant says that it needs.
fn capabilities(needs: Needs) -> naga::valid::Capabilities {
    use naga::valid::Capabilities;
    // Packing f16 into u32 is part of WebGPU.
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    capabilities.set(Capabilities::SHADER_FLOAT16, needs.shader_f16);
    capabilities.set(Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER, needs.subgroup_size > 0);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, needs.cooperative_matrix);
    capabilities
}

fn parse(source: &str, needs: Needs) -> Result<naga::Module, String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities(needs))
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(source))?;
    Ok(module)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, wgsl: T, rust: T) -> Result<(), String> {
    if wgsl == rust { Ok(()) } else { Err(format!("{what}: WGSL has {wgsl:?}, Rust says {rust:?}")) }
}

/// Holds a WGSL text against a variant.
fn check(variant: &Variant, source: &str) -> Result<(), String> {
    let module = parse(source, variant.needs)?;
    check_bindings(&module, variant.kernel)?;
    check_params(&module, variant.kernel)?;
    let [entry] = module.entry_points.as_slice() else { return Err("there must be one entry point".into()) };
    expect("entry point", entry.name.as_str(), "main")?;
    expect("workgroup size", entry.workgroup_size, [variant.workgroup_size, 1, 1])?;
    expect("bytes of workgroup memory", workgroup_bytes(&module)?, variant.workgroup_bytes)
}

/// How each binding is used, by number; nothing where it is the uniform of the params slot.
fn check_bindings(module: &naga::Module, kernel: &Kernel) -> Result<(), String> {
    let mut wgsl: Vec<(u32, Option<Access>)> = Vec::new();
    for (_, variable) in module.global_variables.iter() {
        let Some(binding) = variable.binding else { continue };
        expect("bind group", binding.group, 0)?;
        let access = match variable.space {
            naga::AddressSpace::Uniform => None,
            naga::AddressSpace::Storage { access } if access.contains(naga::StorageAccess::STORE) => {
                Some(Access::ReadWrite)
            }
            naga::AddressSpace::Storage { .. } => Some(Access::Read),
            other => return Err(format!("binding {} is in {other:?}", binding.binding)),
        };
        wgsl.push((binding.binding, access));
    }
    wgsl.sort_by_key(|(binding, _)| *binding);
    let storage = (1..).zip(kernel.bindings.iter().copied().map(Some));
    expect("bindings", wgsl, std::iter::once((0, None)).chain(storage).collect())
}

fn check_params(module: &naga::Module, kernel: &Kernel) -> Result<(), String> {
    let uniform = |(_, variable): &(_, &naga::GlobalVariable)| variable.space == naga::AddressSpace::Uniform;
    let (_, params) = module.global_variables.iter().find(uniform).ok_or("there is no uniform")?;
    let naga::TypeInner::Struct { members, span } = &module.types[params.ty].inner else {
        return Err("the params are no struct".into());
    };
    let wgsl: Vec<(&str, usize, String)> = members
        .iter()
        .map(|member| (member.name.as_deref().unwrap_or(""), member.offset as usize, rust_type(module, member.ty)))
        .collect();
    let rust = fields(kernel.stem).into_iter().filter(|(name, ..)| *name != "padding");
    expect("params", wgsl, rust.map(|(name, offset, ty)| (name, offset, ty.to_owned())).collect())?;
    expect("bytes of params", span.next_multiple_of(16), kernel.params_bytes.next_multiple_of(16))?;
    if kernel.params_bytes > PARAMS_SLOT_BYTES {
        return Err(format!("{} bytes of params in a slot of {PARAMS_SLOT_BYTES}", kernel.params_bytes));
    }
    Ok(())
}

/// The Rust type that has the layout of a WGSL type of the params.
fn rust_type(module: &naga::Module, ty: naga::Handle<naga::Type>) -> String {
    let scalar = |scalar: naga::Scalar| match (scalar.kind, scalar.width) {
        (naga::ScalarKind::Uint, 4) => "u32",
        (naga::ScalarKind::Sint, 4) => "i32",
        (naga::ScalarKind::Float, 4) => "f32",
        _ => "?",
    };
    match module.types[ty].inner {
        naga::TypeInner::Scalar(it) => scalar(it).to_owned(),
        naga::TypeInner::Array { base, size: naga::ArraySize::Constant(count), .. } => match module.types[base].inner {
            naga::TypeInner::Vector { size, scalar: it } => format!("[{}; {}]", scalar(it), count.get() * size as u32),
            ref other => format!("an array of {other:?}"),
        },
        ref other => format!("{other:?}"),
    }
}

/// Workgroup memory as WebGPU counts it: every variable rounded up to 16 bytes.
fn workgroup_bytes(module: &naga::Module) -> Result<u32, String> {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).map_err(|error| error.to_string())?;
    let variables = module.global_variables.iter().map(|(_, variable)| variable);
    let workgroup = variables.filter(|variable| variable.space == naga::AddressSpace::WorkGroup);
    Ok(workgroup.map(|variable| layouter[variable.ty].size.next_multiple_of(16)).sum())
}

#[test]
fn every_variant_is_what_rust_says_it_is() {
    for variant in kernels::all_variants() {
        let source = variant.source();
        assert!(source.contains(variant.block.as_ref()), "{}: its block is not in the text", variant.label);
        check(&variant, &source).unwrap_or_else(|error| panic!("{}:\n{}{error}", variant.label, variant.block));
    }
}

#[test]
fn every_marked_loop_is_written_out_and_unchecked_kernels_argue() {
    for variant in kernels::all_variants() {
        assert!(!variant.source().contains("// unrolled"), "{}: a marked loop is left", variant.label);
        let argues = variant.kernel.wgsl.contains("// Bounds: ");
        assert_eq!(argues, variant.kernel.bounds == Bounds::Argued, "{}", variant.kernel.stem);
    }
}

#[test]
fn the_check_finds_what_differs() {
    const CHANGES: [(&str, &str, &str, &str); 9] = [
        (
            "sdpa_compute_out",
            "a read-only buffer that is written",
            "storage, read> v_cache",
            "storage, read_write> v_cache",
        ),
        ("sdpa_compute_out", "bindings in another order", "@binding(2)", "@binding(4)"),
        ("sdpa_compute_out", "another bind group", "@group(0) @binding(2)", "@group(1) @binding(2)"),
        (
            "sdpa_compute_out",
            "params in another order",
            "    q_heads: u32,\n    kv_heads: u32,\n",
            "    kv_heads: u32,\n    q_heads: u32,\n",
        ),
        ("sdpa_compute_out", "a missing param", "    q_heads: u32,\n", ""),
        ("sdpa_compute_attn_weights", "a param of another type", "    scale: f32,\n", "    scale: u32,\n"),
        (
            "sdpa_softmax",
            "another workgroup size",
            "const WORKGROUP_SIZE: u32 = 64u;",
            "const WORKGROUP_SIZE: u32 = 32u;",
        ),
        ("sdpa_softmax", "more workgroup memory", "array<f32, WORKGROUP_SIZE>", "array<vec2<f32>, WORKGROUP_SIZE>"),
        ("update_cache", "another entry point", "fn main(", "fn other("),
    ];
    for (stem, what, from, to) in CHANGES {
        let variant = kernels::all_variants().into_iter().find(|variant| variant.kernel.stem == stem).unwrap();
        let source = variant.source();
        let changed = source.replace(from, to);
        assert_ne!(changed, source, "{what}: {from:?} is not in {stem}");
        assert!(check(&variant, &changed).is_err(), "{stem}: {what} passes");
    }
}

fn source_path(folder: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join(file)
}

/// All kernels, each once.
fn all_kernels() -> Vec<&'static Kernel> {
    let mut kernels: Vec<&Kernel> = kernels::all_variants().iter().map(|variant| variant.kernel).collect();
    kernels.sort_by_key(|kernel| kernel.stem);
    kernels.dedup_by_key(|kernel| kernel.stem);
    kernels
}

#[test]
fn a_stem_is_a_file_a_module_and_a_reference() {
    let files = std::fs::read_dir(source_path("kernels", "")).unwrap().map(|entry| entry.unwrap().path());
    let wgsl = files.filter(|path| path.extension().is_some_and(|extension| extension == "wgsl"));
    let files: BTreeSet<String> = wgsl.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let stems: BTreeSet<String> = all_kernels().iter().map(|kernel| kernel.stem.to_owned()).collect();
    assert_eq!(files, stems);
    for kernel in all_kernels() {
        let stem = kernel.stem;
        assert_eq!(std::fs::read_to_string(source_path("kernels", &format!("{stem}.wgsl"))).unwrap(), kernel.wgsl);
        for folder in ["kernels", "reference"] {
            let module = source_path(folder, &format!("{stem}.rs"));
            let text = std::fs::read_to_string(&module).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
            assert!(text.starts_with(&format!("//! `{stem}`: ")), "{} does not begin with its stem", module.display());
        }
        assert!(kernel.wgsl.starts_with(&format!("// {stem}: ")), "{stem}.wgsl does not begin with its stem");
    }
    for variant in kernels::all_variants() {
        let (label, stem) = (variant.label, variant.kernel.stem);
        assert!(label == stem || label.starts_with(&format!("{stem}_")), "label {label} of {stem}");
    }
}

#[test]
fn every_file_is_valid_by_itself_and_has_one_variant_block() {
    for kernel in all_kernels() {
        let stem = kernel.stem;
        assert_eq!(kernel.wgsl.matches("// variant {\n").count(), 1, "{stem}");
        let (_, rest) = kernel.wgsl.split_once("// variant {\n").unwrap();
        let (block, rest) = rest.split_once("// }\n").unwrap_or_else(|| panic!("{stem}: the block has no end"));
        assert!(!rest.contains("// }\n"), "{stem}: two blocks end");
        let variants = kernels::all_variants();
        let own = variants.iter().find(|variant| variant.kernel.stem == stem && variant.block == block);
        let own = own.unwrap_or_else(|| panic!("{stem}: the file's own block is no variant:\n{block}"));
        parse(kernel.wgsl, own.needs).unwrap_or_else(|error| panic!("{stem}: {error}"));
    }
}

#[test]
fn every_pipeline_builds_without_a_driver() {
    let gpu = Gpu::noop();
    for checks in [BoundsChecks::WhereNeeded, BoundsChecks::Everywhere] {
        // Larger workgroups than this device allows are validated above.
        let most = gpu.facts().limits.max_compute_invocations_per_workgroup;
        for variant in kernels::all_variants().into_iter().filter(|variant| variant.workgroup_size <= most) {
            let compiled = pollster::block_on(gpu.compile(std::slice::from_ref(&variant), checks));
            compiled.unwrap_or_else(|error| panic!("{} {checks:?}:\n{}{error}", variant.label, variant.block));
        }
    }
    torchlight::calibrate(&gpu).unwrap();
}

#[test]
fn what_the_driver_refuses_is_an_error() {
    let broken = Variant { block: "no WGSL".into(), ..kernels::sdpa_softmax::variant() };
    let gpu = Gpu::noop();
    // By itself, and among others that are compiled at the same time.
    let among = kernels::all_variants().into_iter().take(8).chain([broken.clone()]).collect();
    for variants in [vec![broken], among] {
        let error = pollster::block_on(gpu.compile(&variants, BoundsChecks::WhereNeeded)).unwrap_err();
        assert!(error.to_string().starts_with("GPU: compiling sdpa_softmax was rejected"), "{error}");
    }
}

#[test]
fn the_device_without_a_driver_validates() {
    let gpu = Gpu::noop();
    let [good, bad] = ["@compute @workgroup_size(1) fn main() {}", "@compute fn main() {}"].map(|wgsl| {
        let scope = gpu.device().push_error_scope(wgpu::ErrorFilter::Validation);
        let source = wgpu::ShaderSource::Wgsl(wgsl.into());
        drop(gpu.device().create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source }));
        pollster::block_on(scope.pop())
    });
    assert!(good.is_none(), "{good:?}");
    assert!(bad.is_some(), "a kernel without a workgroup size passes");
}
