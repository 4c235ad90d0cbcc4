//! What a dispatch costs the CPU: in our own code alone, and with wgpu and the driver.
//!
//! `cargo bench -p torchlight --bench encode`. Divide a time by the number of dispatches in its row; the item rate is
//! dispatches a second. Allocations are counted too: `commands` is our code alone, and makes none.

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use torchlight::gpu::{Command, Download, Sink, encode};
use torchlight::graph::Live;
use torchlight::kernels::Grid;
use torchlight::plan::{PARAMS_SLOT_BYTES, PlanOptions};
use torchlight::{DType, DeviceFacts, Gpu, GpuOptions, Graph, GraphBuilder, Input, Plan, Session, SessionOptions};
use torchlight::{TensorView, TimestampMode};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const DISPATCHES: [u32; 3] = [10, 100, 1000];

fn main() {
    divan::main();
}

/// A chain of additions on one small tensor. Nothing is downloaded, so a run returns when it is submitted.
fn chain(dispatches: u32) -> Graph<'static> {
    let mut graph = GraphBuilder::new("chain");
    let mut build = || -> torchlight::Result<()> {
        let x = graph.input(DType::F32, &[64])?;
        let mut sum = x;
        for _ in 0..dispatches {
            sum = graph.add(sum, x, 1.0)?;
        }
        Ok(())
    };
    build().expect("the shapes fit");
    graph.finish().expect("the graph is sound")
}

/// Takes every command and forgets it.
struct Forget;

impl Sink for Forget {
    fn push(&mut self, command: Command) {
        divan::black_box(command);
    }
}

/// Shapes, params, grids and commands of a run, without a device.
#[divan::bench(args = DISPATCHES)]
fn commands(bencher: Bencher, dispatches: u32) {
    let graph = chain(dispatches);
    let plan = Plan::new(&graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default()).expect("the plan fits");
    let mut live = Live::new(&graph);
    let mut slot = [0; PARAMS_SLOT_BYTES as usize];
    let mut grids: Vec<Option<Grid>> = Vec::with_capacity(dispatches as usize);
    let downloads: [Download; 0] = [];
    bencher.counter(ItemsCount::new(dispatches)).bench_local(|| {
        live.infer(&graph.nodes, |_| None).expect("the shapes fit");
        grids.clear();
        for dispatch in plan.dispatches() {
            let workgroups = dispatch.launch.resolve(&live, &mut slot);
            grids.push(Grid::fold(workgroups, plan.max_workgroups_per_dimension));
        }
        encode(&plan, &grids, &downloads, TimestampMode::Off, &mut Forget);
    });
}

/// A whole run up to its submission, on the best adapter of this machine.
#[divan::bench(args = DISPATCHES)]
fn submitted_run(bencher: Bencher, dispatches: u32) {
    let gpu = Gpu::open_blocking(&GpuOptions::default()).expect("a GPU adapter");
    let mut session = Session::new(&gpu, &chain(dispatches), SessionOptions::default()).expect("a session");
    let x = [1.0f32; 64];
    let x = TensorView::f32(&[64], &x).expect("64 elements");
    bencher
        .counter(ItemsCount::new(dispatches))
        // Outside of the time: the device catches up, so that no backlog is measured.
        .with_inputs(|| gpu.wait().expect("the device is there"))
        .bench_local_values(|()| session.run(&[Input::Host(x)]).expect("a run"));
}
