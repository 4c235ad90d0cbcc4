//! The commands of a run: with timestamps off they are those of the plan, one for one, and each mode adds its own only.
//!
//! What is wanted is derived here from the plan, step by step, and not by the encode loop that it is held against.

mod harness;

use harness::attention::{PLAIN, Qkv, Sizes};
use harness::{case, f32_tensor, gpu};
use torchlight::gpu::{Command, Download, Place, QUERIES_PER_SET, QueryPair, encode};
use torchlight::graph::{Add, CopyTensor, GraphOutput, Node, Operator, Origin, Tensor, TensorId};
use torchlight::kernels::Grid;
use torchlight::plan::{BufferId, Dispatch, PARAMS_SLOT_BYTES, PlanOptions, Step};
use torchlight::{
    DType, DeviceFacts, Graph, GraphBuilder, HostTensor, Input, Plan, Route, Session, SessionOptions, TimestampMode,
};

/// Launched dispatches behind which a part of a run ends, where more than a few follow.
const PART_ENDS: [usize; 3] = [24, 72, 120];
const A_FEW: usize = 8;

/// How a run reaches the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Submits {
    /// At the end.
    Once,
    /// In parts: with timestamps off.
    InParts,
}

/// The stream of a run without timestamps. `grids` are one x a dispatch, `outputs` the tensors that come to the host,
/// with their bytes.
fn plain_stream(plan: &Plan, grids: &[u32], outputs: &[(TensorId, u64)], submits: Submits) -> Vec<Command> {
    let mut to_launch = grids.iter().filter(|&&x| x > 0).count();
    assert!(to_launch < 168, "{PART_ENDS:?} go no further");
    let mut launched = 0;
    let mut stream = Vec::new();
    let mut dispatch = 0;
    let mut in_pass = false;
    let mut pipeline = None;
    for step in &plan.steps {
        match step {
            // A grid of nothing: the dispatch belongs to another route than the run's.
            Step::Dispatch(_) if grids[dispatch as usize] == 0 => dispatch += 1,
            Step::Dispatch(step) => {
                if !in_pass {
                    stream.push(Command::BeginPass { timestamps: None });
                    pipeline = None;
                }
                in_pass = true;
                if pipeline != Some(step.variant) {
                    stream.push(Command::SetPipeline(step.variant));
                }
                pipeline = Some(step.variant);
                stream.push(Command::SetBindGroup { dispatch, params_offset: 256 * launched as u32 });
                stream.push(Command::Dispatch { x: grids[dispatch as usize], y: 1 });
                dispatch += 1;
                launched += 1;
                to_launch -= 1;
                if submits == Submits::InParts && PART_ENDS.contains(&launched) && to_launch >= A_FEW {
                    stream.extend([Command::EndPass, Command::Submit]);
                    in_pass = false;
                }
            }
            Step::Copy { from, to, size_bytes, .. } => {
                if in_pass {
                    stream.push(Command::EndPass);
                }
                in_pass = false;
                stream.push(copy(Place::Plan(*from), Place::Plan(*to), 0, *size_bytes));
            }
        }
    }
    if in_pass {
        stream.push(Command::EndPass);
    }
    let mut offset = 0;
    for &(tensor, size_bytes) in outputs {
        let buffer = plan.tensor_buffers[tensor.index()].unwrap();
        stream.push(copy(Place::Plan(buffer), Place::Readback, offset, size_bytes));
        offset += size_bytes;
    }
    stream.push(Command::Submit);
    stream
}

fn copy(from: Place, to: Place, to_offset: u64, size_bytes: u64) -> Command {
    Command::Copy { from, from_offset: 0, to, to_offset, size_bytes }
}

/// Holds a stream against the one that is wanted, and says where they part.
fn check_stream(got: &[Command], wanted: &[Command]) -> Result<(), String> {
    for index in 0..got.len().max(wanted.len()) {
        let (got, wanted) = (got.get(index), wanted.get(index));
        if got != wanted {
            return Err(format!("command {index} is {got:?}, wanted {wanted:?}"));
        }
    }
    Ok(())
}

/// A program, its inputs, and what its stream is derived from besides the plan.
struct Streamed {
    name: &'static str,
    session: Session,
    inputs: Vec<HostTensor>,
    grids: Vec<u32>,
    outputs: Vec<(TensorId, u64)>,
}

fn elementwise() -> Streamed {
    let mut graph = GraphBuilder::new("elementwise");
    let x = graph.input(DType::F32, &[3, 43]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    let product = graph.mul(sum, x).unwrap();
    graph.output(sum);
    graph.output(product);
    let session = Session::new(gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    // 129 elements of 64 a workgroup.
    let (grids, outputs) = (vec![3, 3], vec![(sum, 516), (product, 516)]);
    Streamed { name: "elementwise", session, inputs: vec![f32_tensor(&[3, 43], &[0.5; 129])], grids, outputs }
}

/// The route with most dispatches.
fn materialised() -> SessionOptions {
    SessionOptions { route: Some(Route::Materialised), ..SessionOptions::default() }
}

/// Below its bounds: 3 tokens of 8, at position 4.
fn attention() -> Streamed {
    let zeros = vec![0; PLAIN.cache_elements() * 4];
    let graph = PLAIN.graph(&zeros, &zeros).unwrap();
    let options = materialised();
    let GraphOutput::Tensor { tensor: out, .. } = graph.outputs[0] else { panic!("{:?}", graph.outputs) };
    let session = Session::new(gpu(), &graph, options).unwrap();
    let inputs = Qkv::random(&mut harness::rng("stream"), &PLAIN, 3).inputs(&PLAIN, 4).to_vec();
    // Cache writes: 3 x 2 x 16 elements, 4 a lane, 64 a workgroup. Scores: 4 heads x 3 tokens x 7 keys, 64 a workgroup.
    // Softmax: a row a workgroup. Output: a row of 16 columns of 4 lanes a workgroup.
    let (grids, outputs) = (vec![1, 1, 2, 12, 12], vec![(out, 3 * 4 * 16 * 4)]);
    Streamed { name: "attention", session, inputs, grids, outputs }
}

/// A sum, a copy of it, and the product of the two: the copy parts the dispatches into two passes.
fn with_a_copy() -> Streamed {
    let mut graph = GraphBuilder::new("with a copy");
    let x = graph.input(DType::F32, &[8]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    let product = graph.mul(sum, sum).unwrap();
    graph.output(product);
    let mut graph = graph.finish().unwrap();
    let copied = TensorId(graph.tensors.len() as u32);
    graph.tensors.push(Tensor { origin: Origin::Computed, ..graph.tensor(sum).clone() });
    let operator = Operator::CopyTensor(CopyTensor { from: sum, to: copied });
    graph.nodes.insert(1, Node { id: 7, instruction: 0, operator });
    let Operator::Mul(mul) = &mut graph.nodes[2].operator else { panic!("{:?}", graph.nodes) };
    mul.b = copied;
    let session = Session::new(gpu(), &graph, SessionOptions::default()).unwrap();
    let inputs = vec![f32_tensor(&[8], &[3.0; 8])];
    Streamed { name: "with a copy", session, inputs, grids: vec![1, 1], outputs: vec![(product, 32)] }
}

/// A cache of the host: its new content is an output, too.
fn cache_of_the_host() -> Streamed {
    let name = "sdpa_single";
    let case = case::Case::read(name);
    let session = case.session_with(0, gpu(), materialised());
    let inputs = case.steps[0].inputs.iter().map(|input| input.tensor.clone().unwrap()).collect();
    let tensor = |output: &GraphOutput| match output {
        GraphOutput::Tensor { tensor, .. } => (*tensor, session.graph().tensor(*tensor).size_bytes()),
        other => panic!("{other:?}"),
    };
    let outputs = session.graph().outputs.iter().map(tensor).collect();
    // 8 tokens: cache writes of 8 x 2 x 4 lanes; scores of 4 x 8 x 8; 32 rows.
    Streamed { name, session, inputs, grids: vec![1, 1, 4, 32, 32], outputs }
}

/// A plan whose dispatches are alternatives: a step of one token leaves those for more out.
fn alternatives() -> Streamed {
    let sizes = Sizes { tokens: 16, ..PLAIN };
    let zeros = vec![0; sizes.cache_elements() * 4];
    let graph = sizes.graph(&zeros, &zeros).unwrap();
    let GraphOutput::Tensor { tensor: out, .. } = graph.outputs[0] else { panic!("{:?}", graph.outputs) };
    let session = Session::new(gpu(), &graph, SessionOptions::default()).unwrap();
    let inputs = Qkv::random(&mut harness::rng("alternatives"), &sizes, 1).inputs(&sizes, 4).to_vec();
    let grids = grids_of_a_token(&session, &sizes);
    assert!(grids.iter().filter(|&&x| x == 0).count() > 1, "{grids:?}");
    Streamed { name: "alternatives", session, inputs, grids, outputs: vec![(out, 4 * 16 * 4)] }
}

/// The grids of a step of one token at position 4, where what belongs to no alternative needs one workgroup.
fn grids_of_a_token(session: &Session, sizes: &Sizes) -> Vec<u32> {
    let plan = session.plan();
    let chosen = plan.choices[0].table.look_up(&sizes.problem(1, 4)).unwrap();
    assert_eq!(chosen.route(), Route::Split);
    // Five keys are one part: a workgroup for each of the two KV heads, and nothing to merge.
    let is_split = |dispatch: &Dispatch| plan.variant(dispatch.variant).kernel.stem == "sdpa_split";
    let grid = |dispatch: &Dispatch| match dispatch.alternative {
        None => 1,
        Some(_) if dispatch.is_chosen(&[chosen]) && is_split(dispatch) => 2,
        Some(_) => 0,
    };
    plan.dispatches().map(grid).collect()
}

/// Sums enough for three parts, the last of which has as few as it can, with alternatives of attention before them: what
/// a run leaves out does not count.
fn long() -> Streamed {
    let sizes = Sizes { tokens: 16, ..PLAIN };
    let zeros = vec![0; sizes.cache_elements() * 4];
    let mut graph = sizes.graph(&zeros, &zeros).unwrap();
    let GraphOutput::Tensor { tensor: out, .. } = graph.outputs[0] else { panic!("{:?}", graph.outputs) };
    let mut last = out;
    const SUMS: u32 = 72 + A_FEW as u32 - 3;
    for sum in 0..SUMS {
        let next = TensorId(graph.tensors.len() as u32);
        graph.tensors.push(Tensor { origin: Origin::Computed, ..graph.tensor(out).clone() });
        let operator = Operator::Add(Add { a: last, b: out, alpha: 1.0, out: next });
        graph.nodes.push(Node { id: 100 + sum, instruction: 0, operator });
        last = next;
    }
    let GraphOutput::Tensor { tensor, .. } = &mut graph.outputs[0] else { unreachable!() };
    *tensor = last;
    let session = Session::new(gpu(), &graph, SessionOptions::default()).unwrap();
    let inputs = Qkv::random(&mut harness::rng("long"), &sizes, 1).inputs(&sizes, 4).to_vec();
    let grids = grids_of_a_token(&session, &sizes);
    // Two cache writes, attention, and the sums.
    assert_eq!(grids.iter().filter(|&&x| x > 0).count(), 80, "{grids:?}");
    Streamed { name: "long", session, inputs, grids, outputs: vec![(last, 4 * 16 * 4)] }
}

fn programs() -> [Streamed; 6] {
    [elementwise(), attention(), with_a_copy(), cache_of_the_host(), alternatives(), long()]
}

impl Streamed {
    fn plain(&self, submits: Submits) -> Vec<Command> {
        plain_stream(self.session.plan(), &self.grids, &self.outputs, submits)
    }

    fn record(&mut self, mode: TimestampMode) -> Vec<Command> {
        self.session.set_timestamps(mode);
        let inputs: Vec<Input<'_>> = self.inputs.iter().map(Input::from).collect();
        let (_, commands) = self.session.run_recorded(&inputs).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        commands
    }
}

#[test]
fn off_is_the_stream_of_the_plan() {
    for mut program in programs() {
        let commands = program.record(TimestampMode::Off);
        check_stream(&commands, &program.plain(Submits::InParts))
            .unwrap_or_else(|error| panic!("{}: {error}", program.name));
        assert!(program.session.take_profile().unwrap().runs.is_empty(), "{}", program.name);
    }
}

#[test]
fn off_after_on_is_the_stream_of_the_plan_again() {
    let mut program = attention();
    let plain = program.plain(Submits::InParts);
    let profiled = program.record(TimestampMode::Pass);
    assert!(check_stream(&profiled, &plain).is_err(), "timestamps show in the stream");
    let commands = program.record(TimestampMode::Off);
    check_stream(&commands, &plain).unwrap();
}

#[test]
fn only_long_runs_without_timestamps_have_parts() {
    for program in programs() {
        let is_long = program.name == "long";
        let submits = |how| program.plain(how).iter().filter(|&command| *command == Command::Submit).count();
        assert_eq!((submits(Submits::Once), submits(Submits::InParts)), (1, if is_long { 3 } else { 1 }));
    }
}

#[test]
fn the_check_finds_what_does_not_belong() {
    let program = attention();
    let plain = program.plain(Submits::InParts);
    let dispatch = plain.iter().position(|command| matches!(command, Command::Dispatch { .. })).unwrap();
    let timestamp = Command::WriteTimestamp { set: 0, query: 0 };
    let pass_break = [Command::EndPass, Command::BeginPass { timestamps: None }];
    let queries = Some(QueryPair { set: 0, begin: 0 });
    type Change<'c> = (&'static str, &'c dyn Fn(&mut Vec<Command>));
    let changes: [Change<'_>; 7] = [
        ("a timestamp", &|stream| stream.insert(dispatch, timestamp.clone())),
        ("a pass break", &|stream| drop(stream.splice(dispatch + 1..dispatch + 1, pass_break.clone()))),
        ("queries of a pass", &|stream| stream[0] = Command::BeginPass { timestamps: queries }),
        ("another grid", &|stream| stream[dispatch] = Command::Dispatch { x: 1, y: 2 }),
        ("a dispatch twice", &|stream| stream.insert(dispatch, stream[dispatch].clone())),
        ("a missing submit", &|stream| stream.truncate(stream.len() - 1)),
        ("a second submit", &|stream| stream.push(Command::Submit)),
    ];
    for (what, change) in changes {
        let mut changed = plain.clone();
        change(&mut changed);
        assert!(check_stream(&changed, &plain).is_err(), "{what} passes");
        assert!(check_stream(&plain, &changed).is_err(), "{what} passes where it is wanted");
    }
    check_stream(&plain, &plain).unwrap();
}

/// What resolves the stamps of `dispatches`, which fit one set.
fn resolves(dispatches: u32) -> [Command; 2] {
    let size_bytes = u64::from(dispatches) * 16;
    [
        Command::Resolve { set: 0, queries: 0..dispatches * 2, offset_bytes: 0 },
        copy(Place::Queries, Place::QueryReadback, 0, size_bytes),
    ]
}

/// The stream of pass mode, from the plain one: a pass a dispatch, with its pair of queries and its pipeline.
fn pass_stream(plain: &[Command]) -> Vec<Command> {
    let mut stream = Vec::new();
    let mut dispatches = 0;
    let mut pipeline = None;
    for command in plain {
        match command {
            Command::BeginPass { .. } | Command::EndPass => {}
            Command::SetPipeline(_) => pipeline = Some(command.clone()),
            Command::SetBindGroup { .. } => {
                let timestamps = Some(QueryPair { set: 0, begin: dispatches * 2 });
                stream.push(Command::BeginPass { timestamps });
                stream.extend(pipeline.clone().into_iter().chain([command.clone()]));
            }
            Command::Dispatch { .. } => {
                stream.extend([command.clone(), Command::EndPass]);
                dispatches += 1;
            }
            Command::Submit => stream.extend(resolves(dispatches).into_iter().chain([Command::Submit])),
            other => stream.push(other.clone()),
        }
    }
    stream
}

/// The stream of inside mode, from the plain one: a timestamp before and after each dispatch.
fn inside_stream(plain: &[Command]) -> Vec<Command> {
    let mut stream = Vec::new();
    let mut dispatches = 0;
    for command in plain {
        match command {
            Command::Dispatch { .. } => {
                let stamp = |query| Command::WriteTimestamp { set: 0, query };
                stream.extend([stamp(dispatches * 2), command.clone(), stamp(dispatches * 2 + 1)]);
                dispatches += 1;
            }
            Command::Submit => stream.extend(resolves(dispatches).into_iter().chain([Command::Submit])),
            other => stream.push(other.clone()),
        }
    }
    stream
}

/// The stream of run mode, from the plain one: a pair of queries for each pass that is there anyway.
fn run_stream(plain: &[Command]) -> Vec<Command> {
    let mut stream = Vec::new();
    let mut passes = 0;
    for command in plain {
        match command {
            Command::BeginPass { .. } => {
                let timestamps = Some(QueryPair { set: 0, begin: passes * 2 });
                stream.push(Command::BeginPass { timestamps });
                passes += 1;
            }
            Command::Submit => stream.extend(resolves(passes).into_iter().chain([Command::Submit])),
            other => stream.push(other.clone()),
        }
    }
    stream
}

#[test]
fn each_mode_adds_its_own_commands_only() {
    type Derive = fn(&[Command]) -> Vec<Command>;
    const MODES: [(TimestampMode, Derive); 3] =
        [(TimestampMode::Pass, pass_stream), (TimestampMode::Inside, inside_stream), (TimestampMode::Run, run_stream)];
    for mut program in programs() {
        for (mode, derive) in MODES {
            let name = program.name;
            // A run's stamps are of one submission: no time of the host lies between them.
            let wanted = derive(&program.plain(Submits::Once));
            let grids: Vec<Option<Grid>> = program.grids.iter().map(|&x| (x > 0).then_some(Grid { x, y: 1 })).collect();
            let mut encoded = Vec::new();
            encode(program.session.plan(), &grids, &downloads(&program), mode, &mut encoded);
            check_stream(&encoded, &wanted).unwrap_or_else(|error| panic!("{name}, {mode} encoded: {error}"));
            let commands = program.record(mode);
            if program.session.timestamps() == mode {
                check_stream(&commands, &wanted).unwrap_or_else(|error| panic!("{name}, {mode} run: {error}"));
            } else {
                assert!(program.session.notice().is_some(), "{name}: {mode} was replaced without a word");
            }
        }
    }
}

fn downloads(program: &Streamed) -> Vec<Download> {
    let mut offset_bytes = 0;
    let download = |(output, &(tensor, size_bytes)): (usize, &(TensorId, u64))| {
        let buffer: BufferId = program.session.plan().tensor_buffers[tensor.index()].unwrap();
        offset_bytes += size_bytes;
        Download { output, buffer, from_offset_bytes: 0, size_bytes, offset_bytes: offset_bytes - size_bytes }
    };
    program.outputs.iter().enumerate().map(download).collect()
}

/// A chain of sums that needs no device.
fn chain(dispatches: u32) -> Plan {
    let mut graph = GraphBuilder::new("chain");
    let x = graph.input(DType::F32, &[1]).unwrap();
    let last = (0..dispatches).fold(x, |last, _| graph.add(last, x, 1.0).unwrap());
    graph.output(last);
    let graph: Graph<'_> = graph.finish().unwrap();
    Plan::new(&graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default()).unwrap()
}

#[test]
fn queries_fill_set_after_set_and_only_what_was_written_is_resolved() {
    assert_eq!((QUERIES_PER_SET, PARAMS_SLOT_BYTES), (4096, 256));
    /// Which set, how many of its queries, and where they are resolved to.
    type Resolved = (u32, u32, u64);
    let cases: [(u32, &[Resolved]); 5] = [
        (1, &[(0, 2, 0)]),
        (2047, &[(0, 4094, 0)]),
        (2048, &[(0, 4096, 0)]),
        (2049, &[(0, 4096, 0), (1, 2, 32768)]),
        (5000, &[(0, 4096, 0), (1, 4096, 32768), (2, 1808, 65536)]),
    ];
    for (dispatches, sets) in cases {
        for mode in [TimestampMode::Pass, TimestampMode::Inside] {
            let case = format!("{dispatches} dispatches, {mode}");
            let mut stream = Vec::new();
            encode(&chain(dispatches), &vec![Some(Grid { x: 1, y: 1 }); dispatches as usize], &[], mode, &mut stream);
            let resolved: Vec<Resolved> = stream
                .iter()
                .filter_map(|command| match command {
                    Command::Resolve { set, queries, offset_bytes } => {
                        assert_eq!((queries.start, offset_bytes % 256), (0, 0), "{case}");
                        Some((*set, queries.end, *offset_bytes))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(resolved, sets, "{case}");
            let copies = stream.iter().filter(|command| matches!(command, Command::Copy { .. })).count();
            let bytes = u64::from(dispatches) * 16;
            assert!(stream.contains(&copy(Place::Queries, Place::QueryReadback, 0, bytes)) && copies == 1, "{case}");
            let mut written: Vec<(u32, u32)> = stream
                .iter()
                .flat_map(|command| match command {
                    Command::BeginPass { timestamps: Some(pair) } => {
                        vec![(pair.set, pair.begin), (pair.set, pair.begin + 1)]
                    }
                    Command::WriteTimestamp { set, query } => vec![(*set, *query)],
                    _ => vec![],
                })
                .collect();
            let count = written.len();
            written.sort_unstable();
            written.dedup();
            assert_eq!((count, written.len()), (dispatches as usize * 2, count), "{case}: each query is written once");
            let inside_its_set = |&(set, query): &(u32, u32)| sets.iter().any(|&(s, end, _)| s == set && query < end);
            assert!(written.iter().all(inside_its_set), "{case}");
        }
    }
}
